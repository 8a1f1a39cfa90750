package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/task"
)

// TestListsAreBounded sends every request that contains a list of names, with one more than its limit. Each name
// costs a lookup under the session's lock. The error names the field and the limit, for any names.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owned("other")
	last, err := b.Host.State(t.Context(), sid)
	runtest.NoError(t, err)
	for field, ask := range map[string]struct {
		limit int
		send  func(ctx context.Context, n int) error
	}{
		"keep": {task.MaxLive, func(ctx context.Context, n int) error {
			_, err := b.Host.CancelTasks(ctx, sid, make([]events.TaskID, n))
			return err
		}},
		"tasks": {task.MaxLive, func(ctx context.Context, n int) error {
			return b.Host.TransferTasks(ctx, sid, "other", make([]events.TaskID, n))
		}},
		"inputs": {session.MaxInputs, func(ctx context.Context, n int) error {
			_, err := b.Host.CancelInputs(ctx, sid, make([]events.InputID, n)...)
			return err
		}},
		"names": {check.MaxToolNames, func(ctx context.Context, n int) error {
			_, err := b.Host.SetToolsAvailability(ctx, sid, make([]string, n), "off")
			return err
		}},
	} {
		for more := range 2 {
			refused, _ := errors.AsType[*events.FieldError](ask.send(t.Context(), ask.limit+more))
			if got := refused != nil && refused.Field == field && errors.Is(refused, events.ErrTooLarge); got != (more > 0) {
				t.Errorf("%d %s: got %v, want it refused: %t", ask.limit+more, field, refused, more > 0)
			}
		}
	}
	if now, err := b.Host.State(t.Context(), sid); err != nil || now.Seq != last.Seq {
		t.Errorf("got %v, %v, want nothing appended", now, err)
	}
}
