package security

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// acts is a plugin with a monitor of session starts, with actions that submit a turn, and with an append when a
// session is ready.
func acts(results chan<- error) plugin.Factory {
	return plugin.Func("acts", func(r *plugin.Registrar) error {
		r.Monitor(events.MonitorSpec{ID: "m", Command: "true", ArmOn: events.ArmSessionStart})
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
			_, err := e.Host.CreateSession(ctx, api.CreateRequest{ID: events.SessionID("seen-" + fmt.Sprint(len(results)))})
			results <- err
			return nil
		})
		for name, needs := range map[string]api.Right{"go": "", "set": api.RightConfigure, "run": api.RightCommand} {
			plugin.AddAction(r, plugin.ActionDef{Name: name, Needs: needs}, func(ctx context.Context, in plugin.ActionContext, _ struct{}) (string, error) {
				_, _, err := in.Host.StartTurnStream(ctx, in.Session, turnWith("t-"+name, []events.Part{harness.Text("go")}))
				return name, err
			})
		}
		return nil
	})
}

// setupActs has a session, and a host with that plugin.
func setupActs(t *testing.T) (b *harness.System, id events.SessionID, results chan error) {
	t.Helper()
	results = make(chan error, 100)
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{acts(results)}})
	runtest.WantError(t, "plugins", err, nil)
	b = harness.StartIdle(t)
	b.Host, err = session.New(session.Config{Bus: bustest.Open(t, b.Server), Plugins: session.WithPlugins(builder)})
	runtest.WantError(t, "host", err, nil)
	return b, b.Open(api.CreateRequest{}), results
}

// scoped is a context of a caller with a scope, which reaches every session.
func scoped(ctx context.Context, scope api.Scope, op operation.Name, id events.SessionID) context.Context {
	c := api.Caller{Name: "bob", Reach: api.Reach{Scope: scope}}
	return api.WithRequestMeta(api.WithCaller(ctx, c, operation.Named()[op].Needs, id), api.RequestMeta{Actor: "bob"})
}

// TestReadsAppendNothing sends every request that needs the right to read only, in a session with an armed
// monitor. They append nothing, while the process's own work continues. A caller without the right to commands
// that takes updates does not start the monitor either.
func TestReadsAppendNothing(t *testing.T) {
	t.Parallel()
	b, sid, results := setupActs(t)
	looks := map[operation.Name]func(context.Context) error{
		operation.ToolState.Name:       func(ctx context.Context) error { _, err := b.ToolState(ctx, sid); return err },
		operation.ExternalPlugins.Name: func(ctx context.Context) error { _, err := b.ExternalPlugins(ctx); return err },
		operation.Actions.Name:         func(ctx context.Context) error { _, err := b.Actions(ctx, sid); return err },
		operation.MonitorSnapshot.Name: func(ctx context.Context) error { _, err := b.MonitorSnapshot(ctx, sid); return err },
	}
	before := b.LastSeq(sid)
	for op, read := range looks {
		for _, scope := range []api.Scope{api.ScopeRead, api.ScopeWrite, api.ScopeAdmin} {
			runtest.WantError(t, fmt.Sprintf("%s with %s", op, scope), read(scoped(t.Context(), scope, op, sid)), nil)
			runtest.Equal(t, fmt.Sprintf("commits after %s with %s", op, scope), b.LastSeq(sid), before)
		}
	}
	runtest.WantError(t, "what the plugin does when it is told", <-results, nil)
	if _, err := b.TakeMonitorUpdates(scoped(t.Context(), api.ScopeWrite, operation.TakeMonitorUpdates.Name, sid), sid); err != nil {
		t.Errorf("updates: %v", err)
	}
	runtest.Equal(t, "commits after updates without the right to commands", b.LastSeq(sid), before)
	if err := b.CloseSession(scoped(t.Context(), api.ScopeAdmin, operation.ToolState.Name, sid), sid, "by a look"); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("an append for a look: got %v, want %v", err, api.ErrForbidden)
	}
	if _, err := b.MonitorSnapshot(scoped(t.Context(), api.ScopeAdmin, operation.MonitorSnapshot.Name, sid), sid); err != nil {
		t.Errorf("how monitors stand, for who may run commands: %v", err)
	}
	runtest.Equal(t, "commits after a look with every right", b.LastSeq(sid), before)
	_, err := b.TakeMonitorUpdates(scoped(t.Context(), api.ScopeAdmin, operation.TakeMonitorUpdates.Name, sid), sid)
	if err != nil || len(harness.Find[*events.TaskRegistered](b, sid)) != 1 {
		t.Errorf("updates with the right to commands: got %v, want the monitor's task", err)
	}
}

// TestReadMovesNoTasks closes, with a request to read, a session whose tasks become the parent's: none of them
// moves.
func TestReadMovesNoTasks(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	parent := b.Open(api.CreateRequest{})
	id := b.Open(api.CreateRequest{Parent: parent})
	_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: "k", Close: events.CloseTransfer})
	runtest.WantError(t, "register", err, nil)
	before := [2]events.Seq{b.LastSeq(parent), b.LastSeq(id)}
	runtest.WantError(t, "close by a look", b.CloseSession(scoped(t.Context(), api.ScopeAdmin, operation.ToolState.Name, id), id, "by a look"), api.ErrForbidden)
	runtest.Equal(t, "commits after it", [2]events.Seq{b.LastSeq(parent), b.LastSeq(id)}, before)
	runtest.WantError(t, "close", b.CloseSession(scoped(t.Context(), api.ScopeWrite, operation.CloseSession.Name, id), id, "over"), nil)
	k, _ := b.StateOf(id).Task("k")
	runtest.Equal(t, "went to", k.To, parent)
}

// TestActionsNeedRights has callers of each right invoke each action. A turn that an action submits belongs to its
// caller.
func TestActionsNeedRights(t *testing.T) {
	t.Parallel()
	b, sid, _ := setupActs(t)
	turns := 0
	for scope, allowed := range map[api.Scope][]string{
		"read": nil, "read,approve": nil, "read,write": {"go"}, "read,write,configure": {"go", "set"}, "admin": {"go", "set", "run"},
	} {
		for _, name := range []string{"go", "set", "run"} {
			before := b.LastSeq(sid)
			_, err := b.InvokeAction(scoped(t.Context(), scope, operation.InvokeAction.Name, sid), sid, name, []byte("{}"))
			if !slices.Contains(allowed, name) {
				runtest.WantError(t, fmt.Sprintf("%s with %s", name, scope), err, api.ErrForbidden)
				runtest.Equal(t, "commits after "+name+" with "+string(scope), b.LastSeq(sid), before)
				continue
			}
			runtest.WantError(t, fmt.Sprintf("%s with %s", name, scope), err, nil)
			turns++
		}
	}
	for _, q := range b.StateOf(sid).Queue {
		if !slices.Equal(q.Callers, []string{"bob"}) {
			t.Errorf("turn %s: got callers %v, want bob", q.ID, q.Callers)
		}
	}
	for entry, err := range b.Bus.Log().Read(t.Context(), sid, 2) {
		runtest.NoError(t, err)
		if want := (events.Actor{Kind: events.ActorClient, ID: "bob"}); entry.Commit.Actor != want {
			t.Errorf("commit %d: got actor %v, want %v", entry.Seq, entry.Commit.Actor, want)
		}
	}
	if turns == 0 || len(b.StateOf(sid).Queue) != 3 {
		t.Errorf("got %d turns, want one of each action", len(b.StateOf(sid).Queue))
	}
}
