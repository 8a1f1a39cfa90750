package operation

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Name is the name of an operation over NATS.
type Name string

// Repeat is how the host recognises a repeat of a request whose answer was lost.
type Repeat int

// Values of [Repeat].
const (
	// ReadOnly changes nothing: a repeat needs no key.
	ReadOnly Repeat = iota
	// ByKey: the request's commit stores its key, see [api.RequestMeta]. The repeat finds that commit, and is answered from
	// the state before it; a repeat about a task from the current state. A request that changed nothing stores no key.
	ByKey
	// ByID: what the request creates has its id, or its key as the id. The repeat finds it.
	ByID
	// Once: no repeat can be recognised. A client sends the request again only if no node received it.
	Once
)

// Row describes an operation.
type Row struct {
	Name    Name      // over NATS; empty: a client reads the data itself, or another row performs it
	ID      string    // over HTTP: the operationId of the OpenAPI document; empty with Route
	Needs   api.Right // some requests need a further right, see [api.TakeRequest]
	Repeat  Repeat
	Route   string // over HTTP: the method, and the path below that of a session; empty: another row's route leads to it
	Summary string // one or two sentences, without the last period

	Long    bool // a request can take as long as a model call or a plugin's action: servers limit such requests separately
	Streams bool // clients can receive the answer in deltas

	In, Out any // the zero values of the request and the answer; nil: only HTTP serves the row, with a handler of its own

	perform func(ctx context.Context, h Host, id events.SessionID, decode func(into any) error) (any, error)
}

// sessionPath is the path of a session over HTTP.
const sessionPath = "/v1/sessions/{session}"

// HTTP is the method and the path over HTTP.
func (r *Row) HTTP() (method, path string) {
	method, path, _ = strings.Cut(r.Route, " ")
	if !strings.HasPrefix(path, "/v1/") {
		path = sessionPath + path
	}
	return method, path
}

// anywhere reports whether requests of the row name no session.
func (r *Row) anywhere() bool {
	_, path := r.HTTP()
	return !strings.HasPrefix(path, sessionPath)
}

// Perform decodes a request with the function, performs it, and returns a pointer to the answer.
func (r *Row) Perform(ctx context.Context, h Host, id events.SessionID, decode func(into any) error) (any, error) {
	return r.perform(ctx, h, id, decode)
}

// Serve decodes the body of a request, performs it, and encodes the answer.
func (r *Row) Serve(ctx context.Context, h Host, id events.SessionID, body []byte) ([]byte, error) {
	out, err := r.perform(ctx, h, id, func(in any) error { return api.DecodeStrict(body, in) })
	if err != nil {
		return nil, err
	}
	return events.EncodePayload(out)
}

// Op is a row with request type In and answer type Out.
type Op[In, Out any] struct {
	Row
	Do func(ctx context.Context, h Host, id events.SessionID, in In) (Out, error)
}

// None is the type of an absent argument or result.
type None struct{}

// Host is the host of a process, on which operations are performed.
type Host interface {
	api.Service
	// SubmitTurn is Submit with the sequence of the turn's acceptance.
	SubmitTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.SubmitResponse, error)
	// WatchTurn gives the events of a turn that was submitted before, from its
	// first to done, and writes nothing. For a turn that was never submitted the error is [api.ErrUnknownTurn].
	WatchTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (iter.Seq2[api.SessionEvent, error], error)
	// RestoreSnapshot builds a complete state from a snapshot's head and segments. Segments may be left out
	// while the snapshot's session is there.
	RestoreSnapshot(ctx context.Context, head []byte, segments [][]byte) (*projector.State, error)
	// TakeMonitorUpdatesTo drains updates up to a sequence.
	TakeMonitorUpdatesTo(ctx context.Context, id events.SessionID, upto int64) (api.MonitorUpdates, error)
	Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error)
	ExternalPlugins(ctx context.Context) ([]api.ExternalPlugin, error)
	Actions(ctx context.Context, id events.SessionID) ([]plugin.ActionDef, error)
	InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (plugin.Result, error)
}

// streamKey is the context key of the stream function of a completion.
type streamKey struct{}

// WithStream attaches a function that receives the deltas of a completion requested with the context: see
// [plugin.CompletionRequest]. An encoded request cannot contain the function.
func WithStream(ctx context.Context, stream func(plugin.CompletionDelta)) context.Context {
	return context.WithValue(ctx, streamKey{}, stream)
}

// StreamOf returns the function that [WithStream] attached; nil: none.
func StreamOf(ctx context.Context) func(plugin.CompletionDelta) {
	stream, _ := ctx.Value(streamKey{}).(func(plugin.CompletionDelta))
	return stream
}

// rows is what the table makes while the package is initialised, and nothing changes later.
//
//nolint:gochecknoglobals // read-only
var rows []*Row

// register adds a row. A row without rights does not compile.
func register[In, Out any](needs api.Right, r Row, do func(context.Context, Host, events.SessionID, In) (Out, error)) *Op[In, Out] {
	o := &Op[In, Out]{Row: r, Do: do}
	o.Needs, o.In, o.Out = needs, *new(In), *new(Out)
	o.perform = func(ctx context.Context, h Host, id events.SessionID, decode func(into any) error) (any, error) {
		var in In
		if err := decode(&in); err != nil {
			return nil, err
		}
		out, err := do(ctx, h, id, in)
		return &out, err
	}
	rows = append(rows, &o.Row)
	return o
}

// httpOnly is a row that only HTTP serves, with a handler of its own: its parameters, stream or bytes have no Go type
// in the host.
func httpOnly(needs api.Right, r Row) *Row {
	r.Needs = needs
	rows = append(rows, &r)
	return &r
}

// withInput is a row of a host method with a request and an answer.
func withInput[In, Out any](needs api.Right, r Row, do func(Host, context.Context, events.SessionID, In) (Out, error)) *Op[In, Out] {
	return register(needs, r, func(ctx context.Context, h Host, id events.SessionID, in In) (Out, error) { return do(h, ctx, id, in) })
}

// withoutResult is a row of a host method without an answer.
func withoutResult[In any](needs api.Right, r Row, do func(Host, context.Context, events.SessionID, In) error) *Op[In, None] {
	return register(needs, r, func(ctx context.Context, h Host, id events.SessionID, in In) (None, error) {
		return None{}, do(h, ctx, id, in)
	})
}

// withoutInput is a row of a host method without a request body.
func withoutInput[Out any](needs api.Right, r Row, do func(Host, context.Context, events.SessionID) (Out, error)) *Op[None, Out] {
	return register(needs, r, func(ctx context.Context, h Host, id events.SessionID, _ None) (Out, error) { return do(h, ctx, id) })
}

// All returns the rows.
func All() []*Row { return slices.Clone(rows) }

// Named returns the rows that are served over NATS.
func Named() map[Name]*Row {
	named := make(map[Name]*Row)
	for _, r := range rows {
		if r.Name != "" {
			named[r.Name] = r
		}
	}
	return named
}

// Short names for the table.
const (
	read      = api.RightRead
	write     = api.RightWrite
	approve   = api.RightApprove
	configure = api.RightConfigure
	command   = api.RightCommand
	grant     = api.RightGrant

	get    = http.MethodGet + " "
	post   = http.MethodPost + " "
	put    = http.MethodPut + " "
	patch  = http.MethodPatch + " "
	remove = http.MethodDelete + " "
)
