package task_test

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/task"
)

// TestCallTask checks an id that existing histories have.
func TestCallTask(t *testing.T) {
	t.Parallel()
	if got, want := task.CallTask("s1", "t1/0/1"), events.TaskID("call-7da74edef71491f6b05a24cd7b75e430"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
