package system

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// TestEraseRunning erases a session in the middle of a turn: the worker's later records are refused, and the
// worker is free for other sessions.
func TestEraseRunning(t *testing.T) {
	t.Parallel()
	inTool, goOn := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("other")))
	stack := harness.PluginOf("slow", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "add"}, func(context.Context, plugin.Call, struct{ A, B int }) (int, error) {
			close(inTool)
			<-goOn
			return 3, nil
		})
	})
	b.StartNodeOn(b.Bus, stack)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("1+2?"))
	b.StartTurn(id, "t2", harness.Text("and?"))
	<-inTool
	h := b.OtherHost()
	tomb, err := h.Erase(b.Ctx, id, "asked to")
	runtest.WantError(t, "erase", err, nil)
	close(goOn)
	for _, host := range []*session.Host{h, b.Host} {
		_, err := host.State(b.Ctx, id)
		erased, ok := errors.AsType[*events.ErasedError](err)
		if !ok || erased.Reason != "asked to" || erased.At != tomb.At {
			t.Errorf("state: got %v, want an erased error", err)
		}
	}
	_, err = b.Create(b.Ctx, api.CreateRequest{ID: id})
	if !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("create: got %v, want an erased error", err)
	}
	again, err := b.Erase(b.Ctx, id, "once more")
	runtest.WantError(t, "erase again", err, nil)
	runtest.Equal(t, "tombstone", again, tomb)
	other := b.Open(api.CreateRequest{})
	runtest.Equal(t, "another session's turn", b.RunTurn(other, "t1", harness.Text("hello")).Text, "other")
	b.AwaitPolling("its wake is gone", func() bool { return !b.HasWake(id) })
	row := b.DirectoryRow(b.Ctx, id)
	runtest.Equal(t, "row", row.Status, projector.StatusErased)
	runtest.Equal(t, "age of the tombstone", time.Since(row.Erased.At.Time()) < time.Minute, true)
	runtest.Equal(t, "hot sessions", hot(b), 1)
}

// TestEraseLateWakes has wakes of an erased session arrive late: they are removed without a dead letter.
func TestEraseLateWakes(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{})
	_, err := f.Erase(f.Ctx, id, "asked to")
	runtest.WantError(t, "erase", err, nil)
	keys := []bus.WakeKey{{Class: bus.ClassTurn, Session: id}, {Class: bus.ClassTask, Session: id, Task: "k"}, {Class: bus.ClassTool, Session: id, Task: "c"}}
	for _, key := range keys {
		for _, repair := range []bool{false, true} {
			runtest.WantError(t, "wake", f.Bus.PublishWake(key, bus.WakeHint{Repair: repair}), nil)
		}
	}
	f.Join(workers.Config{})
	f.AwaitPolling("every wake is acked", func() bool {
		wakes, err := f.Bus.Wakes(f.Ctx)
		runtest.WantError(t, "wakes", err, nil)
		return len(wakes) == 0
	})
	runtest.Equal(t, "dead letters", len(f.DeadLetters()), 0)
}

// TestEraseTask erases a session with a running task, and one that ignores its cancellation: both end.
func TestEraseTask(t *testing.T) {
	t.Parallel()
	b, id, s := harness.StartWithTasks(t)
	outcomes, stubborn, returned := make(chan error, 1), make(chan struct{}), make(chan struct{})
	b.Spawn(s, id, "a", func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		<-ctx.Done()
		outcomes <- context.Cause(ctx)
		return "", context.Cause(ctx)
	})
	b.Spawn(s, id, "b", func(context.Context, *workers.RunningTask) (string, error) {
		<-stubborn
		return "done", nil
	})
	_, err := b.Erase(b.Ctx, id, "asked to")
	runtest.WantError(t, "erase", err, nil)
	close(stubborn)
	runtest.WantError(t, "cause", harness.Receive(b, "end of the work's context", outcomes), workers.ErrTaskCancelled)
	go func() { defer close(returned); s.Stop(b.Ctx) }()
	harness.Receive(b, "end of what ran", returned)
}

// TestEraseLeavesForks erases a session of which another is a copy.
func TestEraseLeavesForks(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, echo, echo)
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hello"))
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	_, err = b.Erase(b.Ctx, id, "asked to")
	runtest.WantError(t, "erase", err, nil)
	b.RunTurn(fork, "t2", harness.Text("again"))
	runtest.EqualLists(t, "messages", b.Messages(fork), []string{"user hello", "assistant re: hello", "user again", "assistant re: again"})
	_, err = b.Fork(b.Ctx, id, api.CreateRequest{})
	if !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("fork of an erased session: got %v, want an erased error", err)
	}
	_, err = b.Erase(b.Ctx, "nobody", "asked to")
	runtest.WantError(t, "erase nobody", err, events.ErrNoSession)
}
