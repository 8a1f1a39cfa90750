package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/pattern"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/schema"
)

// maxListed limits the tools that are read of a server: a list may have no end.
const maxListed = 8192

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
type callFunc func(ctx context.Context, on *mcp.ClientSession, args json.RawMessage, progress string) (*wire.Outcome, error)

// offerOf reads the tools of a server. Tools that a session cannot have are left out, and the log says why. The version
// is the hash of what is offered. Errors: those of the session.
func (s *Server) offerOf(ctx context.Context, on *mcp.ClientSession, log *zap.Logger) (*offer, error) {
	o := &offer{byName: make(map[string]tool)}
	capabilities := on.InitializeResult().Capabilities
	if capabilities == nil {
		capabilities = &mcp.ServerCapabilities{}
	}
	var listed []*mcp.Tool
	if capabilities.Tools != nil {
		for t, err := range on.Tools(ctx, nil) {
			if err != nil {
				return nil, err
			}
			if listed = append(listed, t); len(listed) >= maxListed {
				log.Warn("the list of tools is cut", zap.Int("limit", maxListed))
				break
			}
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
			Name: ToolName(s.Name, t.Name), Description: events.Clip(t.Description, wire.MaxDescription, "..."),
			Effects: s.effects(t), TimeoutMS: s.Timeout.Milliseconds(),
		}}
		c.wire.Schema, _ = json.Marshal(t.InputSchema) // it was JSON
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
	switch said := s.Effects[t.Name]; {
	case said == nonIdempotent:
		return events.EffectsNonIdempotent
	case said == events.EffectsIdempotent && claimed == events.EffectsNone:
		return said
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
		if _, err := schema.Object("inputSchema", parsed); err != nil {
			return err
		}
	}
	one := wire.Manifest{Version: "1", Tools: []wire.Tool{c.wire}}
	if err := one.Validate(); err != nil {
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
