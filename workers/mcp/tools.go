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
	"regexp"
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
	maxListedBytes = 16 << 20 // of their JSON
	maxListedName  = 1 << 10  // of one tool

	maxListedSchema = 120 << 10
)

// Limits of what is offered of one server. Each has its own: what others offer changes nothing.
const (
	maxTools       = 4096
	maxToolsBytes  = 4 << 20 // of their JSON
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
	More         bool   `json:",omitempty"` // of an answer to a node: more tools follow those

	hash string // of all that but the instructions, which other nodes may not know
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

// separator is between the name of a server and that of its tool.
const separator = "__"

// hashed is how many digits of a hash end a name that is not the server's.
const hashed = 8

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// ToolName is the name of a server's tool in sessions: SERVER__TOOL. A name with characters that a tool cannot have, or
// with more than 64, ends with a hash of the server's name of the tool. It follows from the arguments alone.
func ToolName(server, tool string) string {
	name := server + separator + tool
	plain := notInNames.ReplaceAllString(name, "_")
	if plain == name && len(name) <= events.MaxTokenBytes {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	return plain[:min(len(plain), events.MaxTokenBytes-hashed-1)] + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// run performs a call with the arguments of a model. progress is the token of its notifications.
func (t *tool) run(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, progress string) (plugin.Result, error) {
	if r, ok := readers()[t.Of]; ok && t.Reads {
		return r.run(ctx, client, args)
	}
	return callTool(ctx, client, t.Of, args, progress)
}

// size is about that of its JSON.
func (t *tool) size() int { return t.recorded() + len(t.Schema) }

// recorded is about what an event of the history has of it: its schema is a body of its own.
func (t *tool) recorded() int { return len(t.Name) + len(t.Description) + toolBytes }

const toolBytes = 128 // of the other fields

func (o *offer) size(of func(*tool) int) (sum int) {
	for i := range o.Tools {
		sum += of(&o.Tools[i])
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
	var all []listed
	if has.Tools != nil || has.Resources == nil && has.Prompts == nil { // a server may say of nothing that it has it
		var err error
		all, err = o.list(ctx, client)
		refused, answered := errors.AsType[*jsonrpc.Error](err)
		switch {
		case answered && !unanswered(refused) && (has.Tools == nil || methodUnknown(refused)):
			o.leave("", "it does not list tools: %s", s.withoutSecrets(refused.Message))
		case err != nil:
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b listed) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range s.unlisted(all) {
		o.leave(name, "the server lists no such tool: correct tools or effects of its field lash")
	}
	for _, t := range append(s.readTools(has, all), s.declared(all)...) {
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
	if o.size((*tool).size)+t.size() > maxToolsBytes {
		return fmt.Sprintf("descriptions and schemas of a server's tools have at most %d bytes: %s", maxToolsBytes, tooMany)
	}
	o.Tools = append(o.Tools, *t)
	return ""
}

// list reads the list of a server's tools.
func (o *offer) list(ctx context.Context, client *mcp.ClientSession) (all []listed, err error) {
	known, asked := make(map[string]bool), map[string]bool{"": true} // tools, and cursors
	for bytes, cursor := 0, ""; ; asked[cursor] = true {
		once, raw := whole(ctx)
		allowed, err := client.ListTools(once, &mcp.ListToolsParams{Cursor: cursor})
		if refused, answered := errors.AsType[*jsonrpc.Error](err); answered && cursor != "" && !unanswered(refused) {
			o.leave("", "the list is cut after %d tools: its next page has an error: %s", len(all), refused.Message)
			return all, nil
		}
		var page struct {
			Tools []json.RawMessage `json:"tools"`
			Next  json.RawMessage   `json:"nextCursor"`
		}
		if err == nil {
			err = json.Unmarshal(*raw, &page)
		}
		if err != nil {
			return nil, err
		}
		for _, one := range page.Tools {
			t := readListed(one)
			if bytes += len(one); len(all) >= maxListed || bytes > maxListedBytes {
				o.leave(t.Name, "the list is cut after %d tools, or %d bytes: this one and those after it", maxListed, maxListedBytes)
				return all, nil
			}
			same := fmt.Sprintf("%q", t)
			if known[same] && cursor != "" {
				continue // of a page that came before
			}
			known[same] = true
			switch {
			case t.fault != "":
				o.leave(t.Name, "%s", t.fault)
			case !slices.ContainsFunc(allowed.Tools, func(other *mcp.Tool) bool { return other.Name == t.Name }):
				o.leave(t.Name, "the protocol does not allow its x-mcp-header")
			default:
				all = append(all, t)
			}
		}
		if cursor = textOf(page.Next); asked[cursor] { // servers answer the last page with its own cursor
			return all, nil
		}
	}
}

// listed is a tool as a server lists it, with what is used of it.
type listed struct {
	Name, Description string
	Schema            json.RawMessage
	claim             events.Effects // that the server claims
	fault             string         // why sessions cannot have it
}

// readListed reads a tool. What it has beside its name may be of any form.
func readListed(data json.RawMessage) (t listed) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return listed{fault: "it cannot be read: " + err.Error()}
	}
	if fields == nil {
		return listed{fault: "it is null"}
	}
	if name := fields["name"]; name != nil && json.Unmarshal(name, &t.Name) != nil {
		return listed{fault: fmt.Sprintf("it cannot be read: its name is %.40s", name)}
	}
	var description string
	_ = json.Unmarshal(fields["description"], &description) // it may be none
	t.Description = strings.Clone(events.Clip(strings.ToValidUTF8(description, "\uFFFD"), maxDescription, "..."))
	parsed, _ := decodeExact(fields["inputSchema"]) // it is JSON, or missing
	t.Schema = unescaped(parsed)
	var may struct{ ReadOnlyHint, IdempotentHint bool }
	t.claim = events.EffectsNonIdempotent
	switch err := json.Unmarshal(fields["annotations"], &may); {
	case err == nil && may.ReadOnlyHint:
		t.claim = events.EffectsNone
	case err == nil && may.IdempotentHint:
		t.claim = events.EffectsIdempotent
	}
	var execution struct{ TaskSupport string }
	_ = json.Unmarshal(fields["execution"], &execution)
	switch {
	case len(t.Name) > maxListedName || len(t.Schema) > maxListedSchema:
		t.fault = fmt.Sprintf("its name has %d bytes and its schema %d, limits are %d and %d", len(t.Name), len(t.Schema), maxListedName, maxListedSchema)
	case strings.EqualFold(execution.TaskSupport, "required"):
		t.fault = "it runs as a task only (its taskSupport is required), and tasks are not supported"
	}
	return t
}

// named are the tools of a list that the library gets: it refuses all where it cannot read one.
func named(tools json.RawMessage) json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(tools, &all) != nil {
		return tools
	}
	list := []any{}
	for _, one := range all {
		if t := readListed(one); t.fault == "" {
			list = append(list, map[string]any{"name": t.Name, "inputSchema": t.Schema})
		}
	}
	return unescaped(list)
}

// unlisted are the configured names and patterns that match no listed tool.
func (s *Server) unlisted(all []listed) (list []string) {
	for _, name := range slices.Concat(s.Tools, slices.Sorted(maps.Keys(s.Effects))) {
		if !slices.Contains(list, name) && !slices.ContainsFunc(all, func(t listed) bool { return pattern.Match(name, t.Name, "") }) {
			list = append(list, name)
		}
	}
	return list
}

// declared are the tools that the server lists and the operator admits.
func (s *Server) declared(all []listed) (list []tool) {
	for _, t := range all {
		if len(s.Tools) > 0 && !slices.ContainsFunc(s.Tools, func(p string) bool { return pattern.Match(p, t.Name, "") }) {
			continue
		}
		list = append(list, tool{
			Name: ToolName(s.Name, t.Name), Of: t.Name, Description: t.Description, Schema: t.Schema, Effects: s.effects(t.Name, t.claim), TimeoutMS: s.Timeout.Milliseconds(),
		})
	}
	return list
}

// effects are what the server claims of a tool, or what the operator says if that is stricter.
func (s *Server) effects(name string, claim events.Effects) events.Effects {
	for p, said := range s.Effects {
		switch {
		case !pattern.Match(p, name, ""):
		case said == nonIdempotent:
			return events.EffectsNonIdempotent
		case claim == events.EffectsNone:
			claim = said
		}
	}
	return claim
}
