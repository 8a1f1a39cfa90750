package integration

import (
	"context"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// teller is a node whose plugin is told of the ends of turns, and holds that up until the test lets it go.
type teller struct {
	*workers.Node
	told chan events.TurnID
	free chan struct{} // closed: nothing is held up
	kill func()
}

// tells starts a node with such a plugin.
func (b *bundle) tells(held bool) *teller {
	b.t.Helper()
	n := &teller{told: make(chan events.TurnID, 16), free: make(chan struct{})}
	if !held {
		close(n.free)
	}
	n.Node, n.kill = b.nodeOn(bustest.Open(b.t, b.server), declares("diary", func(r *plugin.Registrar) {
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
			if e.Kind != plugin.TurnPersisted {
				return nil
			}
			n.told <- e.Turn
			record, err := e.State.Record(e.Turn)
			if err != nil || record == nil {
				b.t.Errorf("turn %s: got record %v, %v, want one", e.Turn, record, err)
			}
			select {
			case <-n.free:
			case <-ctx.Done():
			}
			return nil
		})
	}))
	return n
}

func toldAll(s *projector.State) bool { return s.Idle() && len(s.Untold) == 0 }

// TestPersistedIsToldAfterDeath kills the node that tells plugins of a turn's end, at every place where it may
// be: the next worker tells the plugins again, and no worker after it does.
func TestPersistedIsToldAfterDeath(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(b *bundle, id events.SessionID, dead *teller) *teller{
		"another_node": func(b *bundle, _ events.SessionID, dead *teller) *teller {
			next := b.tells(false)
			dead.kill()
			return next
		},
		"started_later": func(b *bundle, _ events.SessionID, dead *teller) *teller {
			dead.kill()
			return b.tells(false)
		},
		"no_wake": func(b *bundle, id events.SessionID, dead *teller) *teller {
			dead.kill()
			stream, err := jetstreamOf(b.bus).Stream(b.ctx, workStream)
			must(b.t, "work stream", err, nil)
			must(b.t, "purge", stream.Purge(b.ctx), nil)
			return b.tells(false)
		},
		"closed": func(b *bundle, id events.SessionID, dead *teller) *teller {
			must(b.t, "close", b.CloseSession(b.ctx, id, "done"), nil)
			dead.kill()
			return b.tells(false)
		},
		"next_turn": func(b *bundle, id events.SessionID, dead *teller) *teller {
			dead.kill()
			b.submit(id, "t2", text("go on"))
			return b.tells(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, reply(text("one")), reply(text("two")))
			dead := b.tells(true)
			id := b.open(api.CreateRequest{})
			b.run(id, "t1", text("go"))
			equal(t, "told", receive(b, "a callback", dead.told), "t1")
			next := test(b, id, dead)
			equal(t, "told by the next", receive(b, "the callback of the next node", next.told), "t1")
			b.await(id, "that all were told", toldAll)
			last := find[*events.TurnTold](b, id)
			equal(t, "teller", last[len(last)-1].Worker, next.ID())
			turns := int(b.state(id).Turns)
			equal(t, "answers in the history", len(last), turns)
			b.unqueued(id)
			equal(t, "callbacks beside", len(next.told), turns-1)
		})
	}
}

// TestPersistedHoldsNothingUp has plugins that are still told of one turn while the next one runs, on the same node.
func TestPersistedHoldsNothingUp(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("one")), reply(text("two")), reply(text("three")))
	n := b.tells(true)
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	b.run(id, "t2", text("go"))
	equal(t, "untold", len(b.state(id).Untold), 2)
	close(n.free)
	b.run(id, "t3", text("go"))
	b.await(id, "that all were told", toldAll)
	equal(t, "callbacks", len(n.told), 3)
	equal(t, "answers in the history", len(find[*events.TurnTold](b, id)), 3)
}
