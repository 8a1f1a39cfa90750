package integration

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/check"
)

// TestParentsRefused has sessions that would be above themselves, and one with too many above it.
func TestParentsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused := func(id, parent events.SessionID) {
		t.Helper()
		_, err := b.Create(b.ctx, api.CreateRequest{ID: id, Parent: parent})
		if field := new(events.FieldError); !errors.As(err, &field) || field.Field != "parent" {
			t.Errorf("%s below %s: got %v, want the parent refused", id, parent, err)
		}
		if _, err := b.State(b.ctx, id); !errors.Is(err, events.ErrNoSession) {
			t.Errorf("%s: got %v, want that there is none", id, err)
		}
	}
	refused("a", "a")
	b.open(api.CreateRequest{ID: "x", Parent: "y"}) // which is elsewhere, or not yet
	refused("y", "x")
	b.open(api.CreateRequest{ID: "z", Parent: "x"})
	refused("y", "z")
	last := events.SessionID("")
	for n := range check.MaxParents + 1 {
		id := events.SessionID(fmt.Sprintf("c%d", n))
		b.open(api.CreateRequest{ID: id, Parent: last})
		last = id
	}
	refused("more", last)
}

// TestParentCycle has two sessions above each other, as two hosts can make them
// that create them at once, or an earlier version. A turn of one ends, and both
// are quiet then.
func TestParentCycle(t *testing.T) {
	t.Parallel()
	used := stopped(events.StopEnd, events.Usage{Input: 3, Output: 2}, text("done"))
	b := setup(t, used, used)
	for id, parent := range map[events.SessionID]events.SessionID{"a": "b", "b": "a"} {
		_, err := b.bus.Log().Append(b.ctx, &events.Commit{
			ID: events.CommitID("open-" + id), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorClient, ID: "c"},
			Events: []events.Event{events.Of("", &events.SessionOpened{Parent: parent, Relation: events.RelationChild, Config: events.Config{Provider: "scripted", Model: "m"}})},
		}, 0)
		must(t, "open", err, nil)
	}
	equal(t, "end", b.run("a", "t1", text("go")).End, events.EndFinished)
	last := map[events.SessionID]events.Seq{}
	b.until("quiet", func() bool {
		quiet := true
		for _, id := range []events.SessionID{"a", "b"} {
			quiet = quiet && last[id] == b.last(id)
			last[id] = b.last(id)
		}
		return quiet && len(b.wakes()) == 0
	})
	if last["a"]+last["b"] > 20 {
		t.Errorf("commits: got %v, want a few", last)
	}
	equal(t, "b", b.state("b").Status, projector.StatusOpen)
}
