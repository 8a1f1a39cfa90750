package operation

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Name is what an operation is called over NATS.
type Name string

// Repeat says how a request that is sent again, since its answer was lost, is known.
type Repeat int

// The ways.
const (
	// Looks changes nothing: asking again is as good.
	Looks Repeat = iota
	// ByKey: the commit that the request leads to keeps its key, see [api.Asked].
	// The repeat finds that commit, and is answered from the state before it; one
	// about a task, or of AppendNodes, with the present state. A request that
	// changed nothing keeps no key.
	ByKey
	// ByID: what the request makes has its id, or its key as the id. The repeat finds it.
	ByID
	// Once: no repeat can be recognised. A client sends the request again only if no node received it.
	Once
)

// Row is what an operation says of itself.
type Row struct {
	Name    Name      // over NATS; empty: a client reads that by itself, or another row does it
	ID      string    // over HTTP: the operationId of the OpenAPI document; empty with Route
	Needs   api.Right // what some requests say needs more: see [api.TakeRequest]
	Repeat  Repeat
	Route   string // over HTTP: the method, and the path below that of a session; empty: another row's route leads to it
	Summary string // in one sentence
}

// session is the path of a session over HTTP.
const session = "/v1/sessions/{session}"

// HTTP is the method and the path over HTTP.
func (r *Row) HTTP() (method, path string) {
	method, path, _ = strings.Cut(r.Route, " ")
	if !strings.HasPrefix(path, "/v1/") {
		path = session + path
	}
	return method, path
}

// Anywhere reports whether requests name no session.
func (r *Row) Anywhere() bool {
	_, path := r.HTTP()
	return !strings.HasPrefix(path, session)
}

// Op is an operation that takes In and gives Out.
type Op[In, Out any] struct {
	Row
	Do      func(ctx context.Context, h Host, id events.SessionID, in In) (Out, error)
	streams bool
	long    bool // see [Served]
}

// None is the type of an absent argument or result.
type None struct{}

// Served is an operation as a server over NATS has it.
type Served interface {
	// Described is the row.
	Described() *Row
	// TakesLong reports whether a request takes as long as a model, or an action of a plugin, takes. A server bounds such
	// requests apart from the others, which are short.
	TakesLong() bool
	// Serve decodes the body of a request, does what it asks for, and encodes the result.
	Serve(ctx context.Context, h Host, id events.SessionID, body []byte) ([]byte, error)
	// Streams reports whether clients may take the answer in pieces, as it comes.
	Streams() bool
	// Types are the zero values of what it takes and gives.
	Types() (in, out any)
}

// Described implements [Served].
func (o *Op[In, Out]) Described() *Row { return &o.Row }

// Streams implements [Served].
func (o *Op[In, Out]) Streams() bool { return o.streams }

// TakesLong implements [Served].
func (o *Op[In, Out]) TakesLong() bool { return o.long }

// Types implements [Served].
func (o *Op[In, Out]) Types() (in, out any) { return *new(In), *new(Out) }

// Serve implements [Served].
func (o *Op[In, Out]) Serve(ctx context.Context, h Host, id events.SessionID, body []byte) ([]byte, error) {
	var in In
	if err := api.DecodeStrict(body, &in); err != nil {
		return nil, err
	}
	out, err := o.Do(ctx, h, id, in)
	if err != nil {
		return nil, err
	}
	return events.EncodePayload(&out)
}

// Host is what operations are done on: the host of a process.
type Host interface {
	api.Service
	// SubmitTurn is Submit that tells where the turn was accepted.
	SubmitTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.SubmitAnswer, error)
	// WatchTurn gives the events of a turn that was submitted before, from its
	// first to done, and writes nothing. For a turn that was never submitted the error is [api.ErrUnknownTurn].
	WatchTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (iter.Seq2[api.SessionEvent, error], error)
	// RestoreSnapshot makes a state whole from a snapshot's head and segments, of
	// which those that are in blobs may be left out.
	RestoreSnapshot(ctx context.Context, head []byte, segments [][]byte) (*projector.State, error)
	// TakeMonitorUpdatesTo takes updates up to a sequence.
	TakeMonitorUpdatesTo(ctx context.Context, id events.SessionID, upto int64) (api.MonitorUpdates, error)
	Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error)
	Actions(ctx context.Context, id events.SessionID) ([]plugin.ActionDef, error)
	InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (plugin.Result, error)
}

// streamKey is where a context has what gets the pieces of a completion.
type streamKey struct{}

// WithStream has a completion that is asked for with the context handed to stream as it comes: see [plugin.CompletionRequest].
// A request that travels has no function in it.
func WithStream(ctx context.Context, stream func(plugin.CompletionDelta)) context.Context {
	return context.WithValue(ctx, streamKey{}, stream)
}

// StreamOf is what [WithStream] put into a context; nil: nothing.
func StreamOf(ctx context.Context) func(plugin.CompletionDelta) {
	stream, _ := ctx.Value(streamKey{}).(func(plugin.CompletionDelta))
	return stream
}

// What the table below makes while the package is initialised, and nothing changes later.
//
//nolint:gochecknoglobals // read-only
var (
	rows  []*Row
	named = make(map[Name]Served)
)

func row[In, Out any](r Row, do func(context.Context, Host, events.SessionID, In) (Out, error)) *Op[In, Out] {
	o := &Op[In, Out]{Row: r, Do: do}
	rows = append(rows, &o.Row)
	if r.Name != "" {
		named[r.Name] = o
	}
	return o
}

// inPieces is an operation whose answer comes in pieces, where a client takes them.
func inPieces[In, Out any](o *Op[In, Out]) *Op[In, Out] {
	o.streams = true
	return o
}

// long is a row whose operation takes long, see [Served].
func long[In, Out any](o *Op[In, Out]) *Op[In, Out] {
	o.long = true
	return o
}

// webOnly is a row that is served over HTTP by a handler of its own: what it
// reads has parameters, a stream or bytes that no Go type of the host says.
func webOnly(r Row) *Row {
	rows = append(rows, &r)
	return &r
}

// asks is a row whose operation is a method of the host.
func asks[In, Out any](r Row, do func(Host, context.Context, events.SessionID, In) (Out, error)) *Op[In, Out] {
	return row(r, func(ctx context.Context, h Host, id events.SessionID, in In) (Out, error) { return do(h, ctx, id, in) })
}

// tells is a row whose operation is a method that gives nothing.
func tells[In any](r Row, do func(Host, context.Context, events.SessionID, In) error) *Op[In, None] {
	return row(r, func(ctx context.Context, h Host, id events.SessionID, in In) (None, error) {
		return None{}, do(h, ctx, id, in)
	})
}

// takesNone is a row whose operation is a method that takes nothing.
func takesNone[Out any](r Row, do func(Host, context.Context, events.SessionID) (Out, error)) *Op[None, Out] {
	return row(r, func(ctx context.Context, h Host, id events.SessionID, _ None) (Out, error) { return do(h, ctx, id) })
}

// All are the rows.
func All() []*Row { return slices.Clone(rows) }

// Named are the rows that are served over NATS.
func Named() map[Name]Served { return maps.Clone(named) }

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
