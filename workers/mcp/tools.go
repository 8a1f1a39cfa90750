package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/pattern"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/schema"
)

// Limits of what is read of a server's list of tools, which may have no end.
const (
	maxListed      = 8192     // tools
	maxListedBytes = 16 << 20 // names, descriptions and schemas
	maxListedName  = 1 << 10  // of one tool
)

// maxToolsBytes limits the JSON of a server's tools: the manifests of a fleet's plugins share 160 KiB.
const maxToolsBytes = 120 << 10

// offer is a version of a server's tools.
type offer struct {
	unlisted []string // see [Source.Unlisted]
	manifest wire.Manifest
	byName   map[string]tool // by the names that sessions have
}

// tool is how to call a tool.
type tool struct {
	call       callFunc
	repeatable bool
}

// callFunc performs a call with the arguments of a model. progress is the token of its notifications.
type callFunc func(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, progress string) (*wire.Outcome, error)

// offerOf reads the tools of a server. Tools that a session cannot have are left out, and the log says why. The version
// is the hash of what is offered. Errors: those of the session.
func (s *Server) offerOf(ctx context.Context, client *mcp.ClientSession, log *zap.Logger) (*offer, error) {
	o := &offer{byName: make(map[string]tool)}
	capabilities := client.InitializeResult().Capabilities
	if capabilities == nil {
		capabilities = &mcp.ServerCapabilities{}
	}
	var listed []*mcp.Tool
	if capabilities.Tools != nil {
		var err error
		if listed, err = list(ctx, client, log); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(listed, func(a, b *mcp.Tool) int { return cmp.Compare(a.Name, b.Name) })
	o.unlisted = s.unlisted(listed)
	add := &adding{offer: o}
	for _, t := range append(s.readTools(capabilities, listed), s.declared(listed)...) {
		if err := add.add(t); err != nil {
			log.Warn("a tool is left out", zap.String("tool", t.wire.Name), zap.Error(err))
			if errors.Is(err, errFull) {
				break
			}
		}
	}
	slices.SortFunc(o.manifest.Tools, func(a, b wire.Tool) int { return cmp.Compare(a.Name, b.Name) })
	o.manifest.Version = "1"
	o.manifest.Version = o.manifest.Hash()
	return o, nil
}

// list reads the list of a server's tools, with what is used of each. One that is too large for a session is left out.
func list(ctx context.Context, client *mcp.ClientSession, log *zap.Logger) (listed []*mcp.Tool, err error) {
	bytes, large := 0, 0
	for t, err := range client.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			return nil, err // it was JSON
		}
		bytes += len(t.Name) + len(t.Description) + len(schema)
		if len(listed) >= maxListed || bytes > maxListedBytes {
			log.Warn("the list of tools is cut", zap.Int("tools", len(listed)), zap.Int("limit", maxListed), zap.Int("limit_bytes", maxListedBytes))
			break
		}
		if len(t.Name) > maxListedName || len(schema) > maxToolsBytes {
			large++
			continue
		}
		used := &mcp.Tool{Name: strings.Clone(t.Name), Description: strings.Clone(events.Clip(strings.ToValidUTF8(t.Description, "\uFFFD"), wire.MaxDescription, "...")), InputSchema: json.RawMessage(schema)}
		if a := t.Annotations; a != nil {
			used.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: a.ReadOnlyHint, IdempotentHint: a.IdempotentHint}
		}
		listed = append(listed, used)
	}
	if large > 0 {
		log.Warn("tools are left out: their names or schemas are too large", zap.Int("tools", large))
	}
	return listed, nil
}

// unlisted are the configured names and patterns that match no listed tool.
func (s *Server) unlisted(listed []*mcp.Tool) (list []string) {
	for _, name := range slices.Concat(s.Tools, slices.Sorted(maps.Keys(s.Effects))) {
		if !slices.Contains(list, name) && !slices.ContainsFunc(listed, func(t *mcp.Tool) bool { return pattern.Match(name, t.Name, "") }) {
			list = append(list, name)
		}
	}
	return list
}

// candidate is a tool that may be offered.
type candidate struct {
	wire wire.Tool
	call callFunc
}

// declared are the tools that the server lists and the operator admits.
func (s *Server) declared(listed []*mcp.Tool) (list []candidate) {
	for _, t := range listed {
		if len(s.Tools) > 0 && !slices.ContainsFunc(s.Tools, func(p string) bool { return pattern.Match(p, t.Name, "") }) {
			continue
		}
		c := candidate{call: callOf(t.Name), wire: wire.Tool{
			Name: ToolName(s.Name, t.Name), Description: t.Description,
			Effects: s.effects(t), TimeoutMS: s.Timeout.Milliseconds(),
		}}
		c.wire.Schema, _ = t.InputSchema.(json.RawMessage)
		list = append(list, c)
	}
	return list
}

// effects are what the server claims of a tool, or what the operator says if that is stricter.
func (s *Server) effects(t *mcp.Tool) events.Effects {
	claimed := events.EffectsNonIdempotent
	if a := t.Annotations; a != nil {
		switch {
		case a.ReadOnlyHint:
			claimed = events.EffectsNone
		case a.IdempotentHint:
			claimed = events.EffectsIdempotent
		}
	}
	for name, said := range s.Effects {
		switch {
		case !pattern.Match(name, t.Name, ""):
		case said == nonIdempotent:
			return events.EffectsNonIdempotent
		case claimed == events.EffectsNone:
			claimed = said
		}
	}
	return claimed
}

var errFull = errors.New("the server has more tools than a session can have: name those to offer, in the field lash.tools")

// adding adds tools to an offer, up to its limits.
type adding struct {
	offer *offer
	bytes int
}

func (a *adding) add(c candidate) error {
	m := &a.offer.manifest
	if len(m.Tools) >= wire.MaxTools {
		return errFull
	}
	if _, taken := a.offer.byName[c.wire.Name]; taken {
		return fmt.Errorf("tool %q is there already", c.wire.Name)
	}
	if len(c.wire.Schema) > 0 {
		parsed, err := schema.Parse("inputSchema", c.wire.Schema)
		if err != nil {
			return err
		}
		if _, err := schema.Compile("inputSchema", parsed); err != nil {
			return err
		}
		if _, err := schema.Object("inputSchema", parsed); err != nil {
			return err
		}
	}
	alone := wire.Manifest{Version: "1", Tools: []wire.Tool{c.wire}}
	if err := alone.Validate(); err != nil {
		return err
	}
	data, err := json.Marshal(&c.wire)
	if err != nil {
		return err
	}
	if a.bytes += len(data); a.bytes > maxToolsBytes {
		return errFull
	}
	m.Tools = append(m.Tools, c.wire)
	a.offer.byName[c.wire.Name] = tool{c.call, c.wire.Effects.Repeatable()}
	return nil
}
