package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// TestHiddenElsewhere awaits a session's hidden tasks from everywhere but the
// node that runs them: no await answers before they have ended, and each tells how they did.
func TestHiddenElsewhere(t *testing.T) {
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
	awaits := map[string]func(b *bundle, id events.SessionID) func(context.Context) error{
		"node": func(b *bundle, id events.SessionID) func(context.Context) error {
			other, _ := b.tasks(bustest.Open(b.t, b.server), nil)
			return func(ctx context.Context) error { return other.AwaitHiddenTasks(ctx, id) }
		},
		"host": func(b *bundle, id events.SessionID) func(context.Context) error {
			services := b.otherHost().Services(id, nil, "")
			b.tasks(bustest.Open(b.t, b.server), nil) // which finds that the other one is dead
			return func(ctx context.Context) error { return services.AwaitHiddenTasks(ctx, id) }
		},
	}
	for how, c := range ends {
		for where, await := range awaits {
			t.Run(where+"_"+how, func(t *testing.T) {
				t.Parallel()
				b := setupIdle(t)
				s, kill := b.tasks(bustest.Open(t, b.server), nil)
				id, gate, inner := b.open(api.CreateRequest{}), make(chan struct{}), make(chan struct{})
				must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "outer", func(ctx context.Context) error {
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
				b.wait("inner task", inner)
				b.await(id, "the outer task's end", func(s *projector.State) bool { return len(task.Hidden(s, "")) == 1 })
				answered := make(chan error, 1)
				wait := await(b, id)
				go func() { answered <- wait(b.ctx) }()
				short, cancel := context.WithCancel(b.ctx)
				cancel()
				if err := wait(short); !errors.Is(err, context.Canceled) {
					t.Errorf("await that is cut off: got %v, want %v", err, context.Canceled)
				}
				equal(t, "answered before the end", len(answered), 0)
				if c.kill {
					kill()
				} else {
					close(gate)
				}
				err := receive(b, "the answer", answered)
				if c.want == "" {
					must(t, "await", err, nil)
				} else if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "inner") {
					t.Errorf("await: got %v, want inner: %s", err, c.want)
				}
				must(t, "next await", wait(b.ctx), nil)
			})
		}
	}
}

// TestHiddenIsHidden asks for a hidden task by every method of a host that names tasks: none has it, and none stops it.
func TestHiddenIsHidden(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	s, _ := b.tasks(bustest.Open(t, b.server), nil)
	id, other, gate := b.open(api.CreateRequest{}), b.open(api.CreateRequest{}), make(chan struct{})
	must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "h", func(ctx context.Context) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}), nil)
	name := b.state(id).Tasks[0].ID
	list, err := b.Tasks(b.ctx, id)
	must(t, "list", err, nil)
	equal(t, "listed", len(list), 0)
	_, err = b.CancelTask(b.ctx, id, name)
	must(t, "cancel", err, task.ErrUnknown)
	_, err = b.RequestCancelTask(b.ctx, id, name, "")
	must(t, "request", err, task.ErrUnknown)
	list, err = b.CancelAllBackgroundTasks(b.ctx, id)
	must(t, "cancel all", err, nil)
	equal(t, "cancelled", len(list), 0)
	must(t, "unregister", b.UnregisterBackgroundTask(b.ctx, id, name), nil)
	must(t, "complete", b.CompleteBackgroundTask(b.ctx, id, name, events.TaskFailed, ""), nil)
	must(t, "transition", b.TransitionBackgroundTask(b.ctx, id, name, events.TaskWaiting), nil)
	must(t, "transfer", b.TransferAsyncHandles(b.ctx, id, other, []events.TaskID{name}), nil)
	must(t, "visible", b.ValidateAsyncHandlesVisible(b.ctx, id, []events.TaskID{name}), task.ErrUnknown)
	equal(t, "state", b.state(id).Tasks[0].State, events.TaskRunning)
	close(gate)
	must(t, "await", s.AwaitHiddenTasks(b.ctx, id), nil)
	equal(t, "tasks", len(b.state(id).Tasks), 0)
}
