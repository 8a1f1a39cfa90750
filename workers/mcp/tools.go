package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/pattern"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/schema"
)

// Limits of what is read of a server's list of tools, which may have no end.
const (
	maxListed      = 8192     // tools
	maxListedBytes = 16 << 20 // names, descriptions and schemas
	maxListedName  = 1 << 10  // of one tool
)

// Limits of what is offered of one server. Each has its own: what others offer changes nothing.
const (
	maxTools       = 128
	maxToolsBytes  = 120 << 10 // of their JSON
	maxSchema      = 64 << 10
	maxDescription = 16 << 10
	maxLeftOut     = 256 // tools that are named as left out

	maxInstructions    = 2 << 10 // of one server
	maxAllInstructions = 16 << 10
)

// offer is a version of a server's tools, as nodes tell it to each other.
type offer struct {
	Server    string
	BySession bool
	Tools     []tool // by name
	LeftOut   []api.LeftOutTool

	Instructions string `json:",omitempty"` // for the model

	hash     string   // of all that but the instructions, which other nodes may not know
	unlisted []string // see [Source.Unlisted]
}

// tool is a tool of a server, or reads of it.
type tool struct {
	Name        string // that sessions have
	Of          string // the server's name of it; of one that reads, its key in readers
	Reads       bool
	Description string
	Schema      json.RawMessage
	Effects     events.Effects
	TimeoutMS   int64
}

// run performs a call with the arguments of a model. progress is the token of its notifications.
func (t *tool) run(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, progress string) (plugin.Result, error) {
	if t.Reads {
		return readers()[t.Of].read(ctx, client, args)
	}
	return callTool(ctx, client, t.Of, args, progress)
}

// size is about that of its JSON.
func (t *tool) size() int { return len(t.Name) + len(t.Description) + len(t.Schema) + toolBytes }

const toolBytes = 128 // of the other fields

func (o *offer) size() (sum int) {
	for i := range o.Tools {
		sum += o.Tools[i].size()
	}
	return sum
}

// seal sets the hash of an offer.
func (o *offer) seal() *offer {
	hashed := *o
	hashed.Instructions = ""
	data, _ := json.Marshal(&hashed) // it has no value that JSON lacks
	sum := sha256.Sum256(data)
	o.hash = hex.EncodeToString(sum[:])
	return o
}

// leave leaves a tool out, for a reason that people read.
func (o *offer) leave(name, format string, args ...any) {
	if len(o.LeftOut) < maxLeftOut {
		name = strings.ToValidUTF8(events.Clip(name, events.MaxTokenBytes, "..."), "\uFFFD")
		o.LeftOut = append(o.LeftOut, api.LeftOutTool{Source: o.Server, Name: name, Reason: fmt.Sprintf(format, args...)})
	}
}

// offerOf reads the tools of a server. Errors: those of the session.
func (s *Server) offerOf(ctx context.Context, client *mcp.ClientSession) (*offer, error) {
	begun := client.InitializeResult()
	o := &offer{Server: s.Name, BySession: s.BySession, Instructions: events.Clip(s.withoutSecrets(strings.TrimSpace(begun.Instructions)), maxInstructions, "...")}
	has := begun.Capabilities
	if has == nil {
		has = &mcp.ServerCapabilities{}
	}
	var listed []*mcp.Tool
	if has.Tools != nil || has.Resources == nil && has.Prompts == nil { // a server may say of nothing that it has it
		var err error
		listed, err = o.list(ctx, client)
		refused, answered := errors.AsType[*jsonrpc.Error](err)
		switch {
		case answered && !unanswered(refused) && (has.Tools == nil || methodUnknown(refused)):
			o.leave("", "it does not list tools: %s", s.withoutSecrets(refused.Message))
		case err != nil:
			return nil, err
		}
	}
	slices.SortStableFunc(listed, func(a, b *mcp.Tool) int { return cmp.Compare(a.Name, b.Name) })
	o.unlisted = s.unlisted(listed)
	for _, t := range append(s.readTools(has, listed), s.declared(listed)...) {
		if why := o.admit(&t); why != "" {
			o.leave(t.Of, "%s", why)
		}
	}
	slices.SortFunc(o.Tools, func(a, b tool) int { return cmp.Compare(a.Name, b.Name) })
	return o.seal(), nil
}

// admit offers a tool. why is not empty for one that sessions cannot have.
func (o *offer) admit(t *tool) (why string) {
	const tooMany = "name those to offer, in the field lash.tools"
	if len(o.Tools) >= maxTools {
		return fmt.Sprintf("a server has at most %d tools: %s", maxTools, tooMany)
	}
	if slices.ContainsFunc(o.Tools, func(other tool) bool { return other.Name == t.Name }) {
		return "there is one of its name already"
	}
	if t.Schema = schema.Weaken("inputSchema", t.Schema); len(t.Schema) > maxSchema {
		return fmt.Sprintf("its schema has %d bytes, limit is %d", len(t.Schema), maxSchema)
	}
	if err := events.CheckToken("name", t.Name); err != nil {
		return err.Error()
	}
	if o.size()+t.size() > maxToolsBytes {
		return fmt.Sprintf("descriptions and schemas of a server's tools have at most %d bytes: %s", maxToolsBytes, tooMany)
	}
	o.Tools = append(o.Tools, *t)
	return ""
}

// list reads the list of a server's tools, with what is used of each.
func (o *offer) list(ctx context.Context, client *mcp.ClientSession) (listed []*mcp.Tool, err error) {
	known, asked := make(map[string]bool), map[string]bool{"": true} // tools, and cursors
	for bytes, cursor := 0, ""; ; asked[cursor] = true {
		var all []*mcp.Tool
		page, err := client.ListTools(context.WithValue(ctx, pageKey{}, &all), &mcp.ListToolsParams{Cursor: cursor})
		if refused, answered := errors.AsType[*jsonrpc.Error](err); answered && cursor != "" && !unanswered(refused) {
			o.leave("", "the list is cut after %d tools: its next page has an error: %s", len(listed), refused.Message)
			return listed, nil
		}
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			if t == nil {
				o.leave("", "it is null")
				continue
			}
			schema, err := json.Marshal(t.InputSchema)
			if err != nil {
				return nil, err // it was JSON
			}
			if bytes += len(t.Name) + len(t.Description) + len(schema); len(listed) >= maxListed || bytes > maxListedBytes {
				o.leave(t.Name, "the list is cut after %d tools, or %d bytes: this one and those after it", maxListed, maxListedBytes)
				return listed, nil
			}
			same := fmt.Sprintf("%q %q %s %v", t.Name, t.Description, schema, t.Meta[brokenKey])
			if known[same] && cursor != "" {
				continue // of a page that came before
			}
			known[same] = true
			switch {
			case len(t.Name) > maxListedName || len(schema) > maxToolsBytes:
				o.leave(t.Name, "its name has %d bytes and its schema %d, limits are %d and %d", len(t.Name), len(schema), maxListedName, maxToolsBytes)
			case t.Meta[brokenKey] != nil:
				o.leave(t.Name, "it cannot be read: %v", t.Meta[brokenKey])
			case t.Meta[taskKey] != nil:
				o.leave(t.Name, "it runs as a task only (its taskSupport is required), and tasks are not supported")
			case !slices.Contains(page.Tools, t):
				o.leave(t.Name, "the protocol does not allow its x-mcp-header")
			default:
				listed = append(listed, used(t, schema))
			}
		}
		if cursor = page.NextCursor; asked[cursor] { // servers answer the last page with its own cursor
			return listed, nil
		}
	}
}

type pageKey struct{}

// unfiltered keeps all tools of a page: the library leaves out those whose x-mcp-header is invalid.
func unfiltered(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		all, ok := ctx.Value(pageKey{}).(*[]*mcp.Tool)
		if page, is := result.(*mcp.ListToolsResult); ok && is && err == nil {
			*all = page.Tools
			page.TTLMs = 0 // a list that is read again is the server's
		}
		return result, err
	}
}

// used is what is used of a listed tool, without the memory of the rest.
func used(t *mcp.Tool, schema []byte) *mcp.Tool {
	u := &mcp.Tool{Name: strings.Clone(t.Name), Description: strings.Clone(events.Clip(strings.ToValidUTF8(t.Description, "\uFFFD"), maxDescription, "...")), InputSchema: json.RawMessage(schema)}
	if a := t.Annotations; a != nil {
		u.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: a.ReadOnlyHint, IdempotentHint: a.IdempotentHint}
	}
	return u
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

// declared are the tools that the server lists and the operator admits.
func (s *Server) declared(listed []*mcp.Tool) (list []tool) {
	for _, t := range listed {
		if len(s.Tools) > 0 && !slices.ContainsFunc(s.Tools, func(p string) bool { return pattern.Match(p, t.Name, "") }) {
			continue
		}
		one := tool{Name: ToolName(s.Name, t.Name), Of: t.Name, Description: t.Description, Effects: s.effects(t), TimeoutMS: s.Timeout.Milliseconds()}
		one.Schema, _ = t.InputSchema.(json.RawMessage)
		list = append(list, one)
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
