package system

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// limitedHost is a host with a limit of queued turns in a session.
func limitedHost(f *harness.Fleet, queued int) *session.Host {
	f.T.Helper()
	h, err := session.New(session.Config{Bus: bustest.Open(f.T, f.Server), MaxQueued: queued, Plugins: session.NoPlugins()})
	harness.WantError(f.T, "host", err, nil)
	return h
}

// isFull checks that a refusal names the limit.
func isFull(t *testing.T, what string, err error, of string, limit int) {
	t.Helper()
	full, ok := errors.AsType[*api.LimitError](err)
	if !ok || full.What != of || full.Limit != limit {
		t.Errorf("%s: got %v, want a refusal of more %s than %d", what, err, of, limit)
	}
}

// TestFleetQueueLimit submits more turns than the limit. A refused turn leaves no trace; a queued turn may be
// submitted again; and when turns end there is capacity again.
func TestFleetQueueLimit(t *testing.T) {
	t.Parallel()
	const limit = 10
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{})
	h := limitedHost(f, limit)
	for i := range limit {
		harness.WantError(t, "submit", harness.SubmitTo(f.System, h, id, harness.TurnRequest(events.TurnID(fmt.Sprintf("t%d", i)), "go")), nil)
	}
	isFull(t, "one more", harness.SubmitTo(f.System, h, id, harness.TurnRequest("more", "go")), "queued turns", limit)
	isFull(t, "by another host", harness.SubmitTo(f.System, limitedHost(f, limit-1), id, harness.TurnRequest("more", "go")), "queued turns", limit-1)
	_, err := h.Run(f.Ctx, id, harness.TurnRequest("more", "go"))
	isFull(t, "run", err, "queued turns", limit)
	harness.WantError(t, "once more", harness.SubmitTo(f.System, h, id, harness.TurnRequest("t3", "go")), nil)
	harness.WantError(t, "other input", harness.SubmitTo(f.System, h, id, harness.TurnRequest("t3", "stop")), api.ErrDifferent)
	_, err = f.Await(f.Ctx, id, "more")
	harness.WantError(t, "await the refused one", err, api.ErrUnknownTurn)
	other := f.Open(api.CreateRequest{})
	harness.WantError(t, "another session", harness.SubmitTo(f.System, h, other, harness.TurnRequest("t", "go")), nil)

	f.Join(workers.Config{})
	harness.Equal(t, "end", f.AwaitTurn(id, "t9").End, events.EndFinished)
	f.AwaitUnqueued(id)
	harness.WantError(t, "when there is room", harness.SubmitTo(f.System, h, id, harness.TurnRequest("more", "go")), nil)
	harness.Equal(t, "end", f.AwaitTurn(id, "more").End, events.EndFinished)
	harness.WantError(t, "one that was done", harness.SubmitTo(f.System, h, id, harness.TurnRequest("t3", "go")), nil)
}

// TestFleetQueueLimitCost counts the cost of submits: one append each, and two hints without a wait.
func TestFleetQueueLimitCost(t *testing.T) {
	t.Parallel()
	const turns = 512
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{})
	on := bustest.Open(t, f.Server)
	h, err := session.New(session.Config{Bus: on, Plugins: session.NoPlugins()})
	harness.WantError(t, "host", err, nil)
	harness.WantError(t, "first", harness.SubmitTo(f.System, h, id, harness.TurnRequest("first", "go")), nil)
	before := on.Conn().Stats().OutMsgs
	for i := range turns {
		harness.WantError(t, "submit", harness.SubmitTo(f.System, h, id, harness.TurnRequest(events.TurnID(fmt.Sprintf("t%d", i)), "go")), nil)
	}
	if sent := on.Conn().Stats().OutMsgs - before; sent > 3*turns {
		t.Errorf("%d submits: got %d messages, want at most %d", turns, sent, 3*turns)
	}
	harness.Equal(t, "commits", f.LastSeq(id), turns+2)
}

// TestFleetHotLimit opens more sessions than the limit of hot ones.
func TestFleetHotLimit(t *testing.T) {
	t.Parallel()
	const limit = 14
	f := harness.StartFleet(t)
	on, err := bus.Open(f.Ctx, bustest.WithKeys(f.T, bus.Config{Options: []nats.Option{f.Server.InProcess()}, MaxHot: limit}))
	harness.WantError(t, "open", err, nil)
	t.Cleanup(on.Close)
	h := f.NewHost(on)
	f.JoinOn(on, workers.Config{})
	before, err := on.Stats(f.Ctx)
	harness.WantError(t, "count the streams that all sessions share", err, nil)
	var opened []events.SessionID
	for err == nil && len(opened) < limit {
		var id events.SessionID
		if id, err = h.Create(f.Ctx, api.CreateRequest{}); err == nil {
			opened = append(opened, id)
		}
	}
	isFull(t, "one more", err, "hot sessions", limit)
	harness.WantError(t, "it is the bus's", err, bus.ErrFull)
	harness.Equal(t, "sessions beside the streams that all share", len(opened), limit-before.Streams)
	if len(opened) < 2 {
		t.Fatalf("opened: got %d, want room for some below a limit of %d", len(opened), limit)
	}
	for _, id := range opened {
		r, err := h.Run(f.Ctx, id, harness.TurnRequest("t", "go"))
		harness.WantError(t, "turn of a session that exists", err, nil)
		harness.Equal(t, "end", r.End, events.EndFinished)
	}
}
