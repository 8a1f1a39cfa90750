package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// acts has a plugin with a monitor of session starts, with actions that ask for
// a turn, and that appends when it is told that a session is there.
func acts(told chan<- error) plugin.Factory {
	return plugin.Func("acts", func(r *plugin.Registrar) error {
		r.Monitor(events.MonitorSpec{ID: "m", Command: "true", ArmOn: events.ArmSessionStart})
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
			_, err := e.Host.CreateSession(ctx, api.CreateRequest{ID: events.SessionID("seen-" + fmt.Sprint(len(told)))})
			told <- err
			return nil
		})
		for name, needs := range map[string]api.Right{"go": "", "set": api.RightConfigure, "run": api.RightCommand} {
			plugin.AddAction(r, plugin.ActionDef{Name: name, Needs: needs}, func(ctx context.Context, in plugin.ActionContext, _ struct{}) (string, error) {
				_, _, err := in.Host.StartTurnStream(ctx, in.Session, turnWith("t-"+name, []events.Part{text("go")}))
				return name, err
			})
		}
		return nil
	})
}

// setupActs has a session, and a host with that plugin.
func setupActs(t *testing.T) (b *bundle, id events.SessionID, told chan error) {
	t.Helper()
	told = make(chan error, 100)
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{acts(told)}})
	must(t, "plugins", err, nil)
	b = setupIdle(t)
	b.Host, err = session.New(session.Config{Bus: bustest.Open(t, b.server), Plugins: stack})
	must(t, "host", err, nil)
	return b, b.open(api.CreateRequest{}), told
}

// scoped is a request of a caller with a scope, that reaches every session.
func scoped(ctx context.Context, scope api.Scope, op operation.Name, id events.SessionID) context.Context {
	c := api.Caller{Name: "bob", Reach: api.Reach{Scope: scope}}
	return api.WithAsked(api.WithCaller(ctx, c, operation.Named()[op].Described().Needs, id), api.Asked{Actor: "bob"})
}

// TestLooksAppendNothing asks for what needs the right to read alone, in a
// session with a monitor that is armed: nothing is appended, while what the
// process does for itself goes on. Nor does who takes updates start it, without the right to commands.
func TestLooksAppendNothing(t *testing.T) {
	t.Parallel()
	b, sid, told := setupActs(t)
	looks := map[operation.Name]func(context.Context) error{
		operation.ToolState.Name:       func(ctx context.Context) error { _, err := b.ToolState(ctx, sid); return err },
		operation.Actions.Name:         func(ctx context.Context) error { _, err := b.Actions(ctx, sid); return err },
		operation.MonitorSnapshot.Name: func(ctx context.Context) error { _, err := b.MonitorSnapshot(ctx, sid); return err },
	}
	before := b.last(sid)
	for op, look := range looks {
		for _, scope := range []api.Scope{api.ScopeRead, api.ScopeWrite, api.ScopeAdmin} {
			if err := look(scoped(t.Context(), scope, op, sid)); err != nil {
				t.Errorf("%s with %s: %v", op, scope, err)
			}
			equal(t, fmt.Sprintf("commits after %s with %s", op, scope), b.last(sid), before)
		}
	}
	if err := <-told; err != nil {
		t.Errorf("what the plugin does when it is told: %v", err)
	}
	if _, err := b.TakeMonitorUpdates(scoped(t.Context(), api.ScopeWrite, operation.TakeUpdates.Name, sid), sid); err != nil {
		t.Errorf("updates: %v", err)
	}
	equal(t, "commits after updates without the right to commands", b.last(sid), before)
	if err := b.CloseSession(scoped(t.Context(), api.ScopeAdmin, operation.ToolState.Name, sid), sid, "by a look"); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("an append for a look: got %v, want %v", err, api.ErrForbidden)
	}
	if _, err := b.MonitorSnapshot(scoped(t.Context(), api.ScopeAdmin, operation.MonitorSnapshot.Name, sid), sid); err != nil {
		t.Errorf("how monitors stand, for who may run commands: %v", err)
	}
	equal(t, "commits after a look with every right", b.last(sid), before)
	_, err := b.TakeMonitorUpdates(scoped(t.Context(), api.ScopeAdmin, operation.TakeUpdates.Name, sid), sid)
	if err != nil || len(find[*events.TaskRegistered](b, sid)) != 1 {
		t.Errorf("updates with the right to commands: got %v, want the monitor's task", err)
	}
}

// TestLookMovesNoTasks has who asked for a look close a session whose tasks become the parent's: none of them moves.
func TestLookMovesNoTasks(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	parent := b.open(api.CreateRequest{})
	id := b.open(api.CreateRequest{Parent: parent})
	_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: "k", Close: events.CloseTransfer})
	must(t, "register", err, nil)
	before := [2]events.Seq{b.last(parent), b.last(id)}
	must(t, "close by a look", b.CloseSession(scoped(t.Context(), api.ScopeAdmin, operation.ToolState.Name, id), id, "by a look"), api.ErrForbidden)
	equal(t, "commits after it", [2]events.Seq{b.last(parent), b.last(id)}, before)
	must(t, "close", b.CloseSession(scoped(t.Context(), api.ScopeWrite, operation.Close.Name, id), id, "over"), nil)
	k, _ := b.state(id).Task("k")
	equal(t, "went to", k.To, parent)
}

// TestActionsNeedRights has callers of each right ask for each action. The turn
// that an action asks for is its caller's.
func TestActionsNeedRights(t *testing.T) {
	t.Parallel()
	b, sid, _ := setupActs(t)
	turns := 0
	for scope, allowed := range map[api.Scope][]string{
		"read": nil, "read,approve": nil, "read,write": {"go"}, "read,write,configure": {"go", "set"}, "admin": {"go", "set", "run"},
	} {
		for _, name := range []string{"go", "set", "run"} {
			before := b.last(sid)
			_, err := b.InvokeAction(scoped(t.Context(), scope, operation.InvokeAction.Name, sid), sid, name, []byte("{}"))
			if !slices.Contains(allowed, name) {
				if !errors.Is(err, api.ErrForbidden) {
					t.Errorf("%s with %s: got %v, want %v", name, scope, err, api.ErrForbidden)
				}
				equal(t, "commits after "+name+" with "+string(scope), b.last(sid), before)
				continue
			}
			if err != nil {
				t.Errorf("%s with %s: %v", name, scope, err)
			}
			turns++
		}
	}
	for _, q := range b.state(sid).Queue {
		if !slices.Equal(q.Callers, []string{"bob"}) {
			t.Errorf("turn %s: got callers %v, want bob", q.ID, q.Callers)
		}
	}
	for entry, err := range b.bus.Log().Read(t.Context(), sid, 2) {
		if err != nil {
			t.Fatal(err)
		}
		if want := (events.Actor{Kind: events.ActorClient, ID: "bob"}); entry.Commit.Actor != want {
			t.Errorf("commit %d: got actor %v, want %v", entry.Seq, entry.Commit.Actor, want)
		}
	}
	if turns == 0 || len(b.state(sid).Queue) != 3 {
		t.Errorf("got %d turns, want one of each action", len(b.state(sid).Queue))
	}
}
