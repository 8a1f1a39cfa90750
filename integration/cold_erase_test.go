package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// verified checks every commit of a history.
func (b *bundle) verified(id events.SessionID) {
	b.t.Helper()
	verified(b.t, b.bus, id)
}

// TestEraseRunning erases a session in the middle of a turn: what the worker
// records then goes nowhere, and the worker is free for others.
func TestEraseRunning(t *testing.T) {
	t.Parallel()
	inTool, goOn := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, theCall(), reply(text("other")))
	stack := declares("slow", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "add"}, func(context.Context, plugin.Call, struct{ A, B int }) (int, error) {
			close(inTool)
			<-goOn
			return 3, nil
		})
	})
	b.nodeOn(b.bus, stack)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("1+2?"))
	b.submit(id, "t2", text("and?"))
	<-inTool
	h := b.otherHost()
	tomb, err := h.Erase(b.ctx, id, "asked to")
	must(t, "erase", err, nil)
	close(goOn)
	for _, host := range []*session.Host{h, b.Host} {
		_, err := host.State(b.ctx, id)
		gone, ok := errors.AsType[*events.ErasedError](err)
		if !ok || gone.Reason != "asked to" || gone.At != tomb.At {
			t.Errorf("state: got %v, want an erased error", err)
		}
	}
	_, err = b.Create(b.ctx, api.CreateRequest{ID: id})
	if !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("create: got %v, want an erased error", err)
	}
	again, err := b.Erase(b.ctx, id, "once more")
	must(t, "erase again", err, nil)
	equal(t, "tombstone", again, tomb)
	other := b.open(api.CreateRequest{})
	equal(t, "another session's turn", b.run(other, "t1", text("hello")).Text, "other")
	b.until("its wake is gone", func() bool { return !b.woken(id) })
	row := b.directory(b.ctx, id)
	equal(t, "row", row.Status, projector.StatusErased)
	equal(t, "age of the tombstone", time.Since(row.Erased.At.Time()) < time.Minute, true)
	equal(t, "hot sessions", b.hot(), 1)
}

// TestEraseLateWakes has wakes of an erased session come late: nothing is kept of them.
func TestEraseLateWakes(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	id := f.open(api.CreateRequest{})
	_, err := f.Erase(f.ctx, id, "asked to")
	must(t, "erase", err, nil)
	keys := []bus.WakeKey{{Class: bus.ClassTurn, Session: id}, {Class: bus.ClassTask, Session: id, Task: "k"}, {Class: bus.ClassTool, Session: id, Task: "c"}}
	for _, key := range keys {
		for _, repair := range []bool{false, true} {
			must(t, "wake", f.bus.PublishWake(key, bus.WakeHint{Repair: repair}), nil)
		}
	}
	f.join(workers.Config{})
	f.until("every wake is acked", func() bool {
		wakes, err := f.bus.Wakes(f.ctx)
		must(t, "wakes", err, nil)
		return len(wakes) == 0
	})
	equal(t, "dead letters", len(f.letters()), 0)
}

// TestEraseTask erases a session while a task of it runs, and one has been asked to and will not: both are told, and end.
func TestEraseTask(t *testing.T) {
	t.Parallel()
	b, id, s := setupTasks(t)
	told, stubborn, returned := make(chan error, 1), make(chan struct{}), make(chan struct{})
	b.spawn(s, id, "a", func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		<-ctx.Done()
		told <- context.Cause(ctx)
		return "", context.Cause(ctx)
	})
	b.spawn(s, id, "b", func(context.Context, *workers.RunningTask) (string, error) {
		<-stubborn
		return "done", nil
	})
	_, err := b.Erase(b.ctx, id, "asked to")
	must(t, "erase", err, nil)
	close(stubborn)
	must(t, "cause", receive(b, "end of the work's context", told), workers.ErrTaskCancelled)
	go func() { defer close(returned); s.Stop(b.ctx) }()
	receive(b, "end of what ran", returned)
}

// TestEraseLeavesForks erases a session of which another is a copy.
func TestEraseLeavesForks(t *testing.T) {
	t.Parallel()
	b := setup(t, echo, echo)
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hello"))
	fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	_, err = b.Erase(b.ctx, id, "asked to")
	must(t, "erase", err, nil)
	b.run(fork, "t2", text("again"))
	equalLists(t, "messages", b.messages(fork), []string{"user hello", "assistant re: hello", "user again", "assistant re: again"})
	_, err = b.Fork(b.ctx, id, api.CreateRequest{})
	if !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("fork of an erased session: got %v, want an erased error", err)
	}
	_, err = b.Erase(b.ctx, "nobody", "asked to")
	must(t, "erase nobody", err, events.ErrNoSession)
}
