package integration

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// limitedHost lets so many turns wait in a session.
func (f *fleet) limitedHost(queued int) *session.Host {
	f.t.Helper()
	h, err := session.New(session.Config{Bus: bustest.Open(f.t, f.server), MaxQueued: queued, NoPlugins: true})
	must(f.t, "host", err, nil)
	return h
}

// isFull wants a refusal that names the limit.
func isFull(t *testing.T, what string, err error, of string, limit int) {
	t.Helper()
	full, ok := errors.AsType[*api.LimitError](err)
	if !ok || full.What != of || full.Limit != limit {
		t.Errorf("%s: got %v, want a refusal of more %s than %d", what, err, of, limit)
	}
}

// TestFleetQueueLimit submits more turns than may wait. The refused ones were
// never there; what waits may be asked for once more; and when it was done there is room again.
func TestFleetQueueLimit(t *testing.T) {
	t.Parallel()
	const limit = 10
	f := setupFleet(t)
	id := f.open(api.CreateRequest{})
	h := f.limitedHost(limit)
	for i := range limit {
		must(t, "submit", submitOn(f.bundle, h, id, asksTurn(events.TurnID(fmt.Sprintf("t%d", i)), "go")), nil)
	}
	isFull(t, "one more", submitOn(f.bundle, h, id, asksTurn("more", "go")), "queued turns", limit)
	isFull(t, "by another host", submitOn(f.bundle, f.limitedHost(limit-1), id, asksTurn("more", "go")), "queued turns", limit-1)
	_, err := h.Run(f.ctx, id, asksTurn("more", "go"))
	isFull(t, "run", err, "queued turns", limit)
	must(t, "once more", submitOn(f.bundle, h, id, asksTurn("t3", "go")), nil)
	must(t, "other input", submitOn(f.bundle, h, id, asksTurn("t3", "stop")), api.ErrDifferent)
	_, err = f.Await(f.ctx, id, "more")
	must(t, "await the refused one", err, api.ErrUnknownTurn)
	other := f.open(api.CreateRequest{})
	must(t, "another session", submitOn(f.bundle, h, other, asksTurn("t", "go")), nil)

	f.join(workers.Config{})
	equal(t, "end", f.ended(id, "t9").End, events.EndFinished)
	f.unqueued(id)
	must(t, "when there is room", submitOn(f.bundle, h, id, asksTurn("more", "go")), nil)
	equal(t, "end", f.ended(id, "more").End, events.EndFinished)
	must(t, "one that was done", submitOn(f.bundle, h, id, asksTurn("t3", "go")), nil)
}

// TestFleetQueueLimitCost counts what submits cost: one append each, and two hints that are not waited for.
func TestFleetQueueLimitCost(t *testing.T) {
	t.Parallel()
	const turns = 512
	f := setupFleet(t)
	id := f.open(api.CreateRequest{})
	on := bustest.Open(t, f.server)
	h, err := session.New(session.Config{Bus: on, NoPlugins: true})
	must(t, "host", err, nil)
	must(t, "first", submitOn(f.bundle, h, id, asksTurn("first", "go")), nil)
	before := on.Conn().Stats().OutMsgs
	for i := range turns {
		must(t, "submit", submitOn(f.bundle, h, id, asksTurn(events.TurnID(fmt.Sprintf("t%d", i)), "go")), nil)
	}
	if sent := on.Conn().Stats().OutMsgs - before; sent > 3*turns {
		t.Errorf("%d submits: got %d messages, want at most %d", turns, sent, 3*turns)
	}
	equal(t, "commits", f.last(id), turns+2)
}

// TestFleetHotLimit opens more sessions than may be hot.
func TestFleetHotLimit(t *testing.T) {
	t.Parallel()
	const limit = 14
	f := setupFleet(t)
	on, err := bus.Open(f.ctx, bus.Config{Options: []nats.Option{f.server.InProcess()}, MaxHot: limit})
	must(t, "open", err, nil)
	t.Cleanup(on.Close)
	h := f.newHost(on)
	f.joinOn(on, workers.Config{})
	before, err := on.Stats(f.ctx)
	must(t, "count the streams that all sessions share", err, nil)
	var opened []events.SessionID
	for err == nil && len(opened) < limit {
		var id events.SessionID
		if id, err = h.Create(f.ctx, api.CreateRequest{}); err == nil {
			opened = append(opened, id)
		}
	}
	isFull(t, "one more", err, "hot sessions", limit)
	must(t, "it is the bus's", err, bus.ErrFull)
	equal(t, "sessions beside the streams that all share", len(opened), limit-before.Streams)
	if len(opened) < 2 {
		t.Fatalf("opened: got %d, want room for some below a limit of %d", len(opened), limit)
	}
	for _, id := range opened {
		r, err := h.Run(f.ctx, id, asksTurn("t", "go"))
		must(t, "turn of a session that exists", err, nil)
		equal(t, "end", r.End, events.EndFinished)
	}
}
