package call

import (
	"testing"

	"github.com/lash-go/lash/events"
)

// TestRemoteTask checks an id that existing histories have.
func TestRemoteTask(t *testing.T) {
	t.Parallel()
	if got, want := RemoteTask("s1", "t1/0/1"), events.TaskID("call-7da74edef71491f6b05a24cd7b75e430"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
