package mcpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	lash "github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// Config of a server. Base and Transport are required.
type Config struct {
	Base      string            // URL of the HTTP API, without /v1
	Transport http.RoundTripper // performs requests of the API with the credentials of the agent
	Version   string            // of the program

	maxWait int                           // of a call, in seconds; 0: an hour
	schemas *mcp.SchemaCache              // of the tools' arguments and results, for several servers; nil: the server makes them
	results map[string]*jsonschema.Schema // of the tools, likewise
}

// instructions tell a model what the server is for.
const instructions = "Sessions of agents that run on lash. Create a session, run turns in it, answer the approvals that its calls wait for, and read its history. " +
	"A turn goes on when a call returns before its end: wait_turn waits for the rest."

// New makes a server, which a caller runs on a transport.
func New(cfg Config) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "lash", Title: "lash", Version: cmp.Or(cfg.Version, "1")}, &mcp.ServerOptions{
		Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}, SchemaCache: cfg.schemas,
	})
	a := &api{client{strings.TrimSuffix(cfg.Base, "/"), &http.Client{Transport: cfg.Transport, CheckRedirect: stay}}, cmp.Or(cfg.maxWait, maxWait)}
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	if cfg.results == nil {
		cfg.results = resultSchemas()
	}
	t := &tools{s, make(map[string]reflect.Type), cfg.results}
	add(t, "create_session", "Creates a session. Returns its id.", nil, a.create)
	add(t, "list_sessions", "Lists sessions, a page at a time, the newest first.", reads, performs[sessionPage](a, &operation.Sessions.Row))
	add(t, "read_session", "Returns a session's state, without its messages: its settings, the turn that runs, what waits, and the tokens used, by source and model.", reads, performs[oneSession](a, &operation.State.Row))
	add(t, "run_turn", "Asks a session for a turn, and waits for its end. If it takes longer, the status says so: wait_turn continues, and answer_approval answers a call that waits.", nil, a.run)
	add(t, "wait_turn", "Waits for the end of a turn.", reads, a.wait)
	add(t, "cancel_turn", "Asks a turn to stop.", &mcp.ToolAnnotations{IdempotentHint: true}, performs[stopped](a, &operation.Cancel.Row))
	add(t, "list_approvals", "Lists the calls that wait for an approval: of a session, or of all.", reads, a.approvals)
	add(t, "answer_approval", "Grants or refuses a call that waits for an approval.", &mcp.ToolAnnotations{IdempotentHint: true}, a.approve)
	add(t, "read_history", "Returns messages of a session's conversation: the last ones, or those from an index on.", reads, a.history)
	add(t, "search_history", "Finds a text, in any case, in texts, arguments of calls and their results: the messages of a session's conversation, or without a session, a page at a time, the turns of all sessions that you may read.", reads, a.search)
	s.AddReceivingMiddleware(t.checkArguments, encodable)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "session", Title: "Conversation of a session", URITemplate: "lash://sessions/{session}", MIMEType: "application/json",
	}, a.resource)
	return s
}

// stay follows no redirect: the transport would send the credentials there.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// add adds a tool whose result is the JSON of the API.
func add[In any](t *tools, name, description string, annotations *mcp.ToolAnnotations, do func(context.Context, *mcp.CallToolRequest, In) (json.RawMessage, error)) {
	t.arguments[name] = reflect.TypeFor[In]()
	mcp.AddTool(t.server, &mcp.Tool{Name: name, Description: description, Annotations: annotations, OutputSchema: t.results[name]}, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		data, err := do(ctx, r, in)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(data)}}, StructuredContent: data}, nil, nil
	})
}

// performs makes a tool that performs an operation with its arguments.
func performs[In any](a *api, row *operation.Row) func(context.Context, *mcp.CallToolRequest, In) (json.RawMessage, error) {
	return func(ctx context.Context, _ *mcp.CallToolRequest, in In) (json.RawMessage, error) {
		return a.perform(ctx, row, in)
	}
}

// tools are the tools of a server, and the types of their arguments.
type tools struct {
	server    *mcp.Server
	arguments map[string]reflect.Type
	results   map[string]*jsonschema.Schema
}

// checkArguments refuses a call with an argument that its tool lacks, and lists those that the tool has. The library would
// not list them.
func (t *tools) checkArguments(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		call, ok := r.(*mcp.CallToolRequest)
		if !ok || t.arguments[call.Params.Name] == nil {
			return next(ctx, method, r)
		}
		if err := lash.CheckFields(call.Params.Arguments, t.arguments[call.Params.Name]); err != nil {
			result := &mcp.CallToolResult{}
			result.SetError(err)
			return result, nil
		}
		return next(ctx, method, r)
	}
}

// encodable makes errors that can be sent. The library quotes the URI of a missing resource as Go does, which is no JSON where the
// URI has a control character, and a request with such an error would have no answer.
func encodable(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		wrong, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || len(wrong.Data) == 0 || json.Valid(wrong.Data) {
			return result, err
		}
		refused := &jsonrpc.Error{Code: wrong.Code, Message: wrong.Message}
		if read, ok := r.(*mcp.ReadResourceRequest); ok {
			refused.Data, _ = json.Marshal(map[string]string{"uri": read.Params.URI}) // texts only
		}
		return nil, refused
	}
}

// api has the functions of the tools.
type api struct {
	client
	maxWait int // of a call, in seconds
}

type newSession struct {
	ID           string            `json:"id,omitempty" jsonschema:"of your choice; omitted: a new one"`
	Model        string            `json:"model,omitempty" jsonschema:"omitted: the node's default"`
	Instructions string            `json:"instructions,omitempty" jsonschema:"instructions of the session's model"`
	Labels       map[string]string `json:"labels,omitempty" jsonschema:"texts by which list_sessions finds it"`
	Parent       string            `json:"parent,omitempty" jsonschema:"session that this one belongs to"`
}

// opened is the request of a session.
type opened struct {
	ID     string            `json:"id"`
	Labels map[string]string `json:"labels,omitempty"`
	Parent string            `json:"parent,omitempty"`
	Config struct {
		Model        string `json:"model,omitempty"`
		Instructions string `json:"instructions,omitempty"`
	} `json:"config,omitzero"`
}

func (a *api) create(ctx context.Context, _ *mcp.CallToolRequest, in newSession) (json.RawMessage, error) {
	out := opened{ID: cmp.Or(in.ID, newID()), Labels: in.Labels, Parent: in.Parent}
	out.Config.Model, out.Config.Instructions = in.Model, in.Instructions
	return a.perform(ctx, &operation.Create.Row, out)
}

type sessionPage struct {
	Label  string `json:"label,omitempty" jsonschema:"sessions with this label, as NAME=TEXT"`
	Parent string `json:"parent,omitempty" jsonschema:"sessions with this parent"`
	Limit  int    `json:"limit,omitempty" jsonschema:"of sessions in the page"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

type oneSession struct {
	Session string `json:"session"`
}

type pendingPage struct {
	Session string `json:"session,omitempty" jsonschema:"omitted: all that you may read"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"next of the page before, without session"`
}

func (a *api) approvals(ctx context.Context, _ *mcp.CallToolRequest, in pendingPage) (json.RawMessage, error) {
	if in.Session != "" {
		return a.perform(ctx, &operation.Approvals.Row, oneSession{in.Session})
	}
	return a.perform(ctx, &operation.PendingApprovals.Row, in)
}

type approval struct {
	Session string `json:"session"`
	Call    string `json:"call" jsonschema:"TURN/ITERATION/INDEX, as list_approvals has it"`
	Granted bool   `json:"granted" jsonschema:"true: the call runs; false: it is refused"`
	Reason  string `json:"reason,omitempty" jsonschema:"for the history, and for the session's model, at most 1000 bytes; of a question it is the answer, at most 65536 bytes"`
}

func (a *api) approve(ctx context.Context, _ *mcp.CallToolRequest, in approval) (json.RawMessage, error) {
	_, err := a.perform(ctx, &operation.Approve.Row, in)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(`{"answered":true}`), nil
}

// resource reads the conversation of a session.
func (a *api) resource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, ok := strings.CutPrefix(r.Params.URI, "lash://sessions/")
	id, err := url.PathUnescape(id)
	if !ok || id == "" || err != nil {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	data, err := a.perform(ctx, operation.View, oneSession{id})
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(data)}}}, nil
}
