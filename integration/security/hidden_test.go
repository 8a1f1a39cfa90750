package security

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// TestHiddenTasksOfOtherNodes awaits a session's hidden tasks on every node but the one that runs them: no await returns
// before they have ended, and each returns their outcome.
func TestHiddenTasksOfOtherNodes(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	ends := map[string]struct {
		result error
		kill   bool
		want   string // of the error
	}{
		"completes": {},
		"fails":     {result: broken, want: broken.Error()},
		"dies":      {kill: true, want: "abandoned"},
	}
	awaits := map[string]func(b *harness.System, id events.SessionID) func(context.Context) error{
		"node": func(b *harness.System, id events.SessionID) func(context.Context) error {
			other, _ := b.StartTasks(bustest.Open(b.T, b.Server), nil)
			return func(ctx context.Context) error { return other.AwaitHiddenTasks(ctx, id) }
		},
		"host": func(b *harness.System, id events.SessionID) func(context.Context) error {
			services := b.OtherHost().Worker().RuntimeHost(id, nil, "")
			b.StartTasks(bustest.Open(b.T, b.Server), nil) // which finds that the other one is dead
			return func(ctx context.Context) error { return services.AwaitHiddenTasks(ctx, id) }
		},
	}
	for how, c := range ends {
		for where, await := range awaits {
			t.Run(where+"_"+how, func(t *testing.T) {
				t.Parallel()
				b := harness.StartIdle(t)
				s, kill := b.StartTasks(bustest.Open(t, b.Server), nil)
				id, gate, inner := b.Open(api.CreateRequest{}), make(chan struct{}), make(chan struct{})
				runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "outer", func(ctx context.Context) error {
					return s.SpawnHiddenTask(ctx, id, "inner", func(ctx context.Context) error {
						close(inner)
						select {
						case <-gate:
							return c.result
						case <-ctx.Done():
							return context.Cause(ctx)
						}
					})
				}), nil)
				b.Wait("inner task", inner)
				b.AwaitState(id, "the outer task's end", func(s *projector.State) bool { return len(task.Hidden(s, "")) == 1 })
				answered := make(chan error, 1)
				wait := await(b, id)
				go func() { answered <- wait(b.Ctx) }()
				short, cancel := context.WithCancel(b.Ctx)
				cancel()
				runtest.WantError(t, "await that is cut off", wait(short), context.Canceled)
				runtest.Equal(t, "answered before the end", len(answered), 0)
				if c.kill {
					kill()
				} else {
					close(gate)
				}
				err := harness.Receive(b, "the answer", answered)
				if c.want == "" {
					runtest.WantError(t, "await", err, nil)
				} else if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "inner") {
					t.Errorf("await: got %v, want inner: %s", err, c.want)
				}
				runtest.WantError(t, "next await", wait(b.Ctx), nil)
			})
		}
	}
}

// TestHiddenIsHidden names a hidden task in every method of a host that names tasks: no method finds or stops it.
func TestHiddenIsHidden(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	s, _ := b.StartTasks(bustest.Open(t, b.Server), nil)
	id, other, gate := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{}), make(chan struct{})
	runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "h", func(ctx context.Context) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}), nil)
	name := b.StateOf(id).Tasks[0].ID
	list, err := b.Tasks(b.Ctx, id)
	runtest.WantError(t, "list", err, nil)
	runtest.Equal(t, "listed", len(list), 0)
	_, err = b.CancelTask(b.Ctx, id, name)
	runtest.WantError(t, "cancel", err, api.ErrUnknownTask)
	_, err = b.RequestCancelTask(b.Ctx, id, name, "")
	runtest.WantError(t, "request", err, api.ErrUnknownTask)
	list, err = b.Worker().RuntimeHost(id, nil, "").CancelTasksExcept(b.Ctx, id, nil)
	runtest.WantError(t, "cancel all", err, nil)
	runtest.Equal(t, "cancelled", len(list), 0)
	runtest.WantError(t, "unregister", b.UnregisterTask(b.Ctx, id, name), nil)
	runtest.WantError(t, "complete", b.EndTask(b.Ctx, id, name, events.TaskFailed, ""), nil)
	runtest.WantError(t, "transition", b.TransitionTask(b.Ctx, id, name, events.TaskWaiting), nil)
	runtest.WantError(t, "transfer", b.TransferTasks(b.Ctx, id, other, []events.TaskID{name}), nil)
	runtest.WantError(t, "visible", b.CheckTasks(b.Ctx, id, []events.TaskID{name}), api.ErrUnknownTask)
	runtest.Equal(t, "state", b.StateOf(id).Tasks[0].State, events.TaskRunning)
	close(gate)
	runtest.WantError(t, "await", s.AwaitHiddenTasks(b.Ctx, id), nil)
	runtest.Equal(t, "tasks", len(b.StateOf(id).Tasks), 0)
}
