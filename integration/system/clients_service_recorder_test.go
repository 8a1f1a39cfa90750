package system

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// recorder records every request of the session service, and its response.
type recorder struct {
	t         *testing.T
	bus       *bus.Bus
	mu        sync.Mutex
	requests  []*nats.Msg
	responses map[string][]byte // by the request's inbox
	subs      []*nats.Subscription
	received  int64 // messages
}

func record(t *testing.T, on *bus.Bus) *recorder {
	t.Helper()
	r := &recorder{t: t, bus: on, responses: make(map[string][]byte)}
	for subject, handler := range map[string]func(*nats.Msg){
		"lash.api.>": func(m *nats.Msg) { r.requests = append(r.requests, m) },
		"_INBOX.>":   func(m *nats.Msg) { r.responses[m.Subject] = m.Data },
	} {
		sub, err := on.Conn().Subscribe(subject, func(m *nats.Msg) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.received++
			handler(m)
		})
		runtest.NoError(t, err)
		r.subs = append(r.subs, sub)
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	runtest.NoError(t, on.Conn().Flush())
	return r
}

// pending reports whether a message has arrived that is not processed yet.
func (r *recorder) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	came := int64(0)
	for _, sub := range r.subs {
		waiting, _, err := sub.Pending()
		runtest.NoError(r.t, err)
		delivered, err := sub.Delivered()
		runtest.NoError(r.t, err)
		came += delivered + int64(waiting)
	}
	return r.received < came
}

// exchanges lists the requests that were done, with their responses.
func (r *recorder) exchanges() (requests []*nats.Msg, answers []api.Response) {
	r.t.Helper()
	runtest.NoError(r.t, r.bus.Conn().Flush())
	bustest.Eventually(r.t, "all messages are processed", func() bool { return !r.pending() })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.requests {
		var a api.Response
		if err := events.DecodePayload(r.responses[m.Reply], &a); err == nil && a.Error.IsZero() {
			requests, answers = append(requests, m), append(answers, a)
		}
	}
	return requests, answers
}

// lastSeqs are the last sequences of all sessions.
func (r *recorder) lastSeqs(ctx context.Context) map[events.SessionID]events.Seq {
	r.t.Helper()
	ends := make(map[events.SessionID]events.Seq)
	for id, err := range r.bus.Sessions(ctx) {
		if err == nil {
			ends[id], err = r.bus.Log().Last(ctx, id)
		}
		runtest.NoError(r.t, err)
	}
	return ends
}

// asOfNow are operations whose response to a repeat has the current state.
var asOfNow = []operation.Name{
	operation.ToolState.Name, operation.ToolSources.Name, operation.MonitorSnapshot.Name, operation.Actions.Name, operation.CancelTask.Name, operation.AppendNodes.Name,
	operation.RegisterTask.Name, operation.ProgressTask.Name, operation.EndOwnTask.Name, operation.TransitionOwnTask.Name, operation.RequestCancelTask.Name,
}

// repeat sends every request that was done once more, much later, as a client does whose response was lost, and
// expects the same responses and the same histories.
func (r *recorder) repeat(ctx context.Context, seen *sync.Map) {
	r.t.Helper()
	requests, answers := r.exchanges()
	before := r.stableEnds(ctx)
	for i, m := range requests {
		op := operation.Name(strings.TrimPrefix(m.Subject, "lash.api."))
		if op == operation.InvokeAction.Name {
			continue
		}
		seen.Store(op, true)
		reply, err := r.bus.Request(ctx, string(op), m.Data, time.Minute, nil)
		runtest.NoError(r.t, err)
		var again api.Response
		runtest.NoError(r.t, events.DecodePayload(reply, &again))
		switch {
		case op == operation.Submit.Name && again.Error.Code == "different_content":
			continue // it was accepted before any history had the turn, and had no effect
		case op == operation.TakeMonitorUpdates.Name:
			if got, want := updatesOf(r.t, again.Body), updatesOf(r.t, answers[i].Body); !slices.Equal(got, want) {
				r.t.Errorf("updates once more: got %v, want %v", got, want)
			}
			continue
		}
		if !again.Error.IsZero() || !slices.Contains(asOfNow, op) && !bytes.Equal(again.Body, answers[i].Body) {
			r.t.Errorf("%s once more: got %+v, want what was answered first: %+v", op, again, answers[i])
		}
	}
	if after := r.stableEnds(ctx); !maps.Equal(after, before) {
		r.t.Errorf("last sequences after every request once more: got %v, want %v", after, before)
	}
}

// updatesOf are the updates in a response.
func updatesOf(t *testing.T, body []byte) []api.MonitorEvent {
	t.Helper()
	var u api.MonitorUpdates
	runtest.NoError(t, events.DecodePayload(body, &u))
	return u.Events
}

// stableEnds are the last sequences when the queue is empty and no history has grown between ten reads: a wake that
// was just published is not in the queue yet.
func (r *recorder) stableEnds(ctx context.Context) map[events.SessionID]events.Seq {
	r.t.Helper()
	last, same := r.lastSeqs(ctx), 0
	bustest.Eventually(r.t, "no session has work", func() bool {
		now := r.lastSeqs(ctx)
		if same++; !maps.Equal(now, last) || r.queued(ctx) > 0 {
			same = 0
		}
		last = now
		return same == 10
	})
	return last
}

// queued is the number of sessions with a wake.
func (r *recorder) queued(ctx context.Context) int {
	r.t.Helper()
	stream, err := harness.JetStreamOf(r.bus).Stream(ctx, "lash-work")
	runtest.NoError(r.t, err)
	list, err := stream.Info(ctx, jetstream.WithSubjectFilter("lash.work.turn.>"))
	runtest.NoError(r.t, err)
	return len(list.State.Subjects)
}
