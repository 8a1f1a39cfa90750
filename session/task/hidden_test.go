package task_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// TestHidden: hidden tasks are in no list, cannot be cancelled, and are removed when they complete.
func TestHidden(t *testing.T) {
	t.Parallel()
	h := begin(t, "s")
	for i := range task.MaxHidden {
		h.add(task.Hide(h.State, events.TaskID(fmt.Sprintf("h%d", i)), "", "", "w1"))
	}
	_, err := task.Hide(h.State, "more", "", "", "w1")
	if limit, ok := errors.AsType[*api.LimitError](err); !ok || limit.Limit != task.MaxHidden {
		t.Errorf("one more: got %v, want the limit", err)
	}
	runtest.EqualLists(t, "live", task.Live(h.State), nil)
	if got, err := task.Leaving(h.State, []events.TaskID{"h0"}); err != nil || len(got) != 0 {
		t.Errorf("leaving: got %v, %v, want nothing", got, err)
	}
	runtest.WantError(t, "visible", task.Validate(h.State, []events.TaskID{"h0"}), api.ErrUnknownTask)
	h.add(task.Close(h.State, "over"), nil)
	h.add(task.End(h.State, "h0", events.TaskCompleted, ""), nil)
	h.add(task.End(h.State, "h1", events.TaskFailed, "broken"), nil)
	if list := task.Hidden(h.State, ""); len(list) != task.MaxHidden-1 || list[0].ID != "h1" || list[0].Live() || !list[1].Live() {
		t.Errorf("after one has completed and one failed: got %d, first %+v", len(list), list[0])
	}
	h.add(task.Hide(h.State, "inner", "h2", "", "w1"))
	if list := task.Hidden(h.State, "h2"); len(list) != 1 || list[0].ID != "inner" {
		t.Errorf("of h2: got %v, want what it spawned", list)
	}
	h.add(task.Detach(h.State, []events.TaskID{"h1", "h2", "gone"}), nil)
	if list := task.Hidden(h.State, ""); list[0].ID != "h3" {
		t.Errorf("first: got %s, want h3", list[0].ID)
	}
	_, err = task.Hide(h.State, "h1", "", strings.Repeat("x", events.MaxTaskText+1), "w1")
	if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != "label" {
		t.Errorf("long label: got %v, want it refused", err)
	}
}
