package system

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TestParentsRefused creates sessions that would be their own ancestors, and one with too many ancestors.
func TestParentsRefused(t *testing.T) {
	t.Parallel()
	b := harness.Start(t)
	refused := func(id, parent events.SessionID) {
		t.Helper()
		_, err := b.Create(b.Ctx, api.CreateRequest{ID: id, Parent: parent})
		if field := new(events.FieldError); !errors.As(err, &field) || field.Field != "parent" {
			t.Errorf("%s below %s: got %v, want the parent refused", id, parent, err)
		}
		_, err = b.State(b.Ctx, id)
		runtest.WantError(t, string(id), err, events.ErrNoSession)
	}
	refused("a", "a")
	b.Open(api.CreateRequest{ID: "x", Parent: "y"}) // which is elsewhere, or not yet
	refused("y", "x")
	b.Open(api.CreateRequest{ID: "z", Parent: "x"})
	refused("y", "z")
	last := events.SessionID("")
	for n := range 65 {
		id := events.SessionID(fmt.Sprintf("c%d", n))
		b.Open(api.CreateRequest{ID: id, Parent: last})
		last = id
	}
	refused("more", last)
}

// TestParentCycle has two sessions that are parents of each other, as two hosts can make them at once, or an
// earlier version. A turn of one ends, and both are idle then.
func TestParentCycle(t *testing.T) {
	t.Parallel()
	used := harness.ReplyStopped(events.StopEnd, events.Usage{Input: 3, Output: 2}, harness.Text("done"))
	b := harness.Start(t, used, used)
	for id, parent := range map[events.SessionID]events.SessionID{"a": "b", "b": "a"} {
		_, err := b.Bus.Log().Append(b.Ctx, &events.Commit{
			ID: events.CommitID("open-" + id), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorClient, ID: "c"},
			Events: []events.Event{events.Of("", &events.SessionOpened{Parent: parent, Relation: events.RelationChild, Config: events.Config{Provider: "scripted", Model: "m"}})},
		}, 0)
		runtest.WantError(t, "open", err, nil)
	}
	runtest.Equal(t, "end", b.RunTurn("a", "t1", harness.Text("go")).End, events.EndFinished)
	last := map[events.SessionID]events.Seq{}
	b.AwaitPolling("quiet", func() bool {
		silent := true
		for _, id := range []events.SessionID{"a", "b"} {
			silent = silent && last[id] == b.LastSeq(id)
			last[id] = b.LastSeq(id)
		}
		return silent && len(b.Wakes()) == 0
	})
	if last["a"]+last["b"] > 20 {
		t.Errorf("commits: got %v, want a few", last)
	}
	runtest.Equal(t, "b", b.StateOf("b").Status, projector.StatusOpen)
}
