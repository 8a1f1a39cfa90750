package integration

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestCodeTaskTooLarge goes on with a task that no event could hold.
func TestCodeTaskTooLarge(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, program(`continue_as("x" * 1000000)`), reply(text("so be it")))
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equal(t, "output", strings.Contains(b.outputs(id)[0], "continue_as: the task is too long"), true)
	equal(t, "frames", len(b.state(id).Frames), 1)
}
