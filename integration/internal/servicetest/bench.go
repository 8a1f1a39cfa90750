package servicetest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Service is the session service with direct completions and the plugins' actions, whose types package api does not
// have.
type Service interface {
	api.Service
	ExternalPlugins(ctx context.Context) ([]api.ExternalPlugin, error)
	Actions(ctx context.Context, id events.SessionID) ([]plugin.ActionDef, error)
	Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error)
	InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (plugin.Result, error)
}

// Started is a service for one case. Its sessions have the plugin [Plugin], and their model answers with [Reply].
type Started struct {
	Service
	// Caller is the name that the HTTP server authenticated. It replaces the origin in a request, and may refer only
	// to bodies that the session's history names. Empty: the service is not over HTTP.
	Caller string
	// Finish, which may be nil, is called at the end of the case, while everything still runs.
	Finish func()
}

// Test runs every case on a service of its own.
func Test(t *testing.T, start func(t *testing.T) Started) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c.run(&bench{Service: s.Service, caller: s.Caller, t: t, ctx: ctx})
			if s.Finish != nil && !t.Failed() {
				s.Finish()
			}
		})
	}
}

// bench is the service and the context of one case.
type bench struct {
	Service
	caller string
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the one case
}

func equal[T any](b *bench, what string, got, want T) {
	b.t.Helper()
	if !reflect.DeepEqual(got, want) {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// must stops the test at an error other than want; nil for none.
func (b *bench) must(what string, got, want error) {
	b.t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		b.t.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

// as stops unless the error has the data of type E.
func as[E error](b *bench, what string, got error) E {
	b.t.Helper()
	e, ok := errors.AsType[E](got)
	if !ok {
		b.t.Fatalf("%s: got error %v, want a %T", what, got, e)
	}
	return e
}

// open creates a session.
func (b *bench) open(texts ...string) events.SessionID {
	b.t.Helper()
	id, err := b.Create(b.ctx, api.CreateRequest{Nodes: says(texts...)})
	b.must("create", err, nil)
	return id
}

// says are user messages with their texts as ids.
func says(texts ...string) []api.AppendNode {
	var list []api.AppendNode
	for _, s := range texts {
		list = append(list, api.AppendNode{Message: &events.Message{ID: events.MessageID(s), Role: events.RoleUser, Parts: text(s)}})
	}
	return list
}

func asks(turn events.TurnID, said string) api.TurnRequest {
	return api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: text(said)}}
}

// run runs turn t1 to its end.
func (b *bench) run(id events.SessionID, said string) api.TurnResult {
	b.t.Helper()
	r, err := b.Run(b.ctx, id, asks("t1", said))
	b.must("run", err, nil)
	return r
}

func (b *bench) submit(id events.SessionID, turn events.TurnID, said string) {
	b.t.Helper()
	got, err := b.Submit(b.ctx, id, asks(turn, said))
	b.must("submit", err, nil)
	equal(b, "turn", got, turn)
}

func (b *bench) state(id events.SessionID) *projector.State {
	b.t.Helper()
	s, err := b.State(b.ctx, id)
	b.must("state", err, nil)
	return s
}

// await waits until the session is as wanted. It checks after every commit.
func (b *bench) await(id events.SessionID, what string, wanted func(*projector.State) bool) *projector.State {
	b.t.Helper()
	for seen, err := range b.Observe(b.ctx, id, 0) {
		b.must("observe until "+what, err, nil)
		if seen.Commit == nil {
			continue
		}
		if s := b.state(id); wanted(s) {
			return s
		}
	}
	b.t.Fatalf("%s: never came", what)
	return nil
}

// hangs starts turn t1, whose model call blocks.
func (b *bench) hangs(id events.SessionID) {
	b.t.Helper()
	b.submit(id, "t1", "hang")
	b.await(id, "running turn", func(s *projector.State) bool { return s.Turn() != nil })
}

// cancels ends turn t1, so that no wait for it remains.
func (b *bench) cancels(id events.SessionID) {
	b.t.Helper()
	_, _, err := b.Cancel(b.ctx, id, "t1", api.CancelRequest{})
	b.must("cancel", err, nil)
	_, err = b.Await(b.ctx, id, "t1")
	b.must("await", err, nil)
}

// texts are the texts of the session's visible messages.
func (b *bench) texts(id events.SessionID) []string {
	b.t.Helper()
	v, err := b.View(b.ctx, id)
	b.must("view", err, nil)
	list := []string{}
	for _, m := range v.Messages {
		list = append(list, m.Text())
	}
	return list
}
