package session_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TestTurnsOfPluginsHaveCallers: each turn that a plugin requests gets the callers of the turn that the plugin's
// call belongs to, also after that turn has ended and others ran. Without such a turn it gets the callers of the
// running turn, else of the turn that ended last.
func TestTurnsOfPluginsHaveCallers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asks := func(who string, id events.TurnID) {
		t.Helper()
		_, err := b.Host.Submit(api.WithRequestMeta(t.Context(), api.RequestMeta{Actor: who}), sid, ask(id, "go"))
		runtest.NoError(t, err)
		b.Append(id, &events.TurnStarted{Attempt: 1, Worker: "w1"})
	}
	n := 0
	follows := func(effect events.EffectID, want ...string) {
		t.Helper()
		n++
		id := events.TurnID(fmt.Sprint("p", n))
		_, _, err := b.Host.Worker().RuntimeHost(sid, nil, effect).StartTurnStream(t.Context(), sid, ask(id, "on"))
		runtest.NoError(t, err)
		queue := b.State().Queue
		i := slices.IndexFunc(queue, func(q projector.QueuedTurn) bool { return q.ID == id })
		if i < 0 {
			t.Fatalf("turn %s is not in the queue", id)
		}
		runtest.EqualLists(t, fmt.Sprintf("callers of what follows from %q", effect), queue[i].Callers, want)
	}
	follows("")
	asks("alice", "t1") // first, because no worker starts the plugins' turns
	follows("", "alice")
	follows("t1/0/0", "alice")
	b.Append("t1", &events.TurnCompleted{End: events.EndFinished})
	follows("", "alice")
	asks("bob", "t2")
	follows("", "bob")
	follows("t1/0/0", "alice")
	b.Append("t2", &events.TurnCompleted{End: events.EndFinished})
	follows("", "bob")
	follows("t1/0/0", "alice")
	follows("t2/0/0", "bob")
}
