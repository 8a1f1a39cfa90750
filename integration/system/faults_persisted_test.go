package system

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// notifiedPlugin is a node whose plugin has a hook at the end of turns and at changes of the configuration, which blocks until the test
// releases it.
type notifiedPlugin struct {
	*workers.Node
	notified chan string   // the turn, or the configuration's model
	free     chan struct{} // closed: nothing blocks
	kill     func()
}

// startNotified starts a node with such a plugin.
func startNotified(b *harness.System, blocked bool) *notifiedPlugin {
	b.T.Helper()
	n := &notifiedPlugin{notified: make(chan string, 16), free: make(chan struct{})}
	if !blocked {
		close(n.free)
	}
	n.Node, n.kill = b.StartNodeOn(bustest.Open(b.T, b.Server), harness.PluginOf("diary", func(r *plugin.Registrar) {
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
			switch e.Kind {
			case plugin.SessionConfigChanged:
				n.notified <- e.Change.Previous.Model + " to " + e.Change.Current.Model
			case plugin.TurnPersisted:
				n.notified <- string(e.Turn)
				record, err := e.State.Record(e.Turn)
				if err != nil || record == nil {
					b.T.Errorf("turn %s: got record %v, %v, want one", e.Turn, record, err)
				}
			default:
				return nil
			}
			if end, ok := ctx.Deadline(); !ok || time.Until(end) < 15*time.Second {
				b.T.Errorf("the hook's time ends at %v, %t, want that of hooks", end, ok)
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

// TestChangesWaitForPlugins changes the configuration while a plugin's hook takes its time: the state has so many changes, and no more. They go on
// when the plugin has heard of them.
func TestChangesWaitForPlugins(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	n := startNotified(b, true)
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	for i := range session.MaxUntold {
		runtest.WantError(t, "change", b.SetModel(id, fmt.Sprint("m", i)), nil)
	}
	limit := new(api.LimitError)
	if err := b.SetModel(id, "more"); !errors.As(err, &limit) || limit.Limit != session.MaxUntold {
		t.Errorf("one more: got %v, want the limit of %d", err, session.MaxUntold)
	}
	close(n.free)
	for range session.MaxUntold {
		bustest.Receive(t, "a notice", n.notified)
	}
	b.AwaitState(id, "that plugins were notified", harness.AllNotified)
	runtest.WantError(t, "change after it", b.SetModel(id, "more"), nil)
	bustest.Receive(t, "its notice", n.notified)
}

// told are the workers that notified plugins, in the order of the history.
func told(b *harness.System, id events.SessionID) (list []events.WorkerID) {
	for _, ev := range b.History(id) {
		switch p := ev.Payload.(type) {
		case *events.TurnTold:
			list = append(list, p.Worker)
		case *events.SessionTold:
			list = append(list, p.Worker)
		}
	}
	return list
}

// TestPersistedHookRunsAfterDeath kills the node that notifies plugins of a turn's end, or of a changed configuration, at every step of
// it. The next worker notifies the plugins again, and no worker after it does.
func TestPersistedHookRunsAfterDeath(t *testing.T) {
	t.Parallel()
	for of, happen := range map[string]func(b *harness.System, id events.SessionID) (want string){
		"turn": func(b *harness.System, id events.SessionID) string {
			b.RunTurn(id, "t1", harness.Text("go"))
			return "t1"
		},
		"config": func(b *harness.System, id events.SessionID) string {
			runtest.WantError(b.T, "configure", b.SetModel(id, "m1"), nil)
			return "m0 to m1"
		},
	} {
		for name, test := range map[string]func(b *harness.System, id events.SessionID, killed *notifiedPlugin) *notifiedPlugin{
			"another_node": func(b *harness.System, _ events.SessionID, killed *notifiedPlugin) *notifiedPlugin {
				next := startNotified(b, false)
				killed.kill()
				return next
			},
			"started_later": func(b *harness.System, _ events.SessionID, killed *notifiedPlugin) *notifiedPlugin {
				killed.kill()
				return startNotified(b, false)
			},
			"no_wake": func(b *harness.System, id events.SessionID, killed *notifiedPlugin) *notifiedPlugin {
				killed.kill()
				stream, err := harness.JetStreamOf(b.Bus).Stream(b.Ctx, workStream)
				runtest.WantError(b.T, "work stream", err, nil)
				runtest.WantError(b.T, "purge", stream.Purge(b.Ctx), nil)
				return startNotified(b, false)
			},
			"closed": func(b *harness.System, id events.SessionID, killed *notifiedPlugin) *notifiedPlugin {
				runtest.WantError(b.T, "close", b.CloseSession(b.Ctx, id, "done"), nil)
				killed.kill()
				return startNotified(b, false)
			},
			"next_turn": func(b *harness.System, id events.SessionID, killed *notifiedPlugin) *notifiedPlugin {
				killed.kill()
				b.StartTurn(id, "t2", harness.Text("go on"))
				return startNotified(b, false)
			},
		} {
			t.Run(of+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
				killed := startNotified(b, true)
				b.Host = killed.Host()
				id := b.Open(api.CreateRequest{Config: events.Config{Model: "m0"}})
				want := happen(b, id)
				runtest.Equal(t, "notified", harness.Receive(b, "a callback", killed.notified), want)
				b.Host = b.NewHost(b.Bus)
				next := test(b, id, killed)
				runtest.Equal(t, "told by the next", harness.Receive(b, "the callback of the next node", next.notified), want)
				b.AwaitState(id, "that all were told", harness.AllNotified)
				tellers := told(b, id)
				runtest.Equal(t, "teller", tellers[0], next.ID())
				b.AwaitUnqueued(id)
				runtest.Equal(t, "callbacks beside", len(next.notified), len(tellers)-1)
			})
		}
	}
}

// TestPersistedHookDelaysNoTurn has plugins whose notification of one turn still runs during the next turn, on the
// same node. The notifications come one after the other, in the order of the turns.
func TestPersistedHookDelaysNoTurn(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), harness.Reply(harness.Text("three")))
	n := startNotified(b, true)
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	b.RunTurn(id, "t2", harness.Text("go"))
	runtest.Equal(t, "untold", len(b.StateOf(id).Unnotified), 2)
	runtest.Equal(t, "first callback", harness.Receive(b, "the first callback", n.notified), "t1")
	runtest.Equal(t, "callbacks beside the first", len(n.notified), 0)
	close(n.free)
	b.RunTurn(id, "t3", harness.Text("go"))
	b.AwaitState(id, "that all were told", harness.AllNotified)
	for _, want := range []string{"t2", "t3"} {
		runtest.Equal(t, "next callback", harness.Receive(b, "a callback", n.notified), want)
	}
	runtest.Equal(t, "callbacks beside these", len(n.notified), 0)
	runtest.Equal(t, "answers in the history", len(harness.Find[*events.TurnTold](b, id)), 3)
}
