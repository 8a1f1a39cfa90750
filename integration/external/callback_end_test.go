package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/remote"
)

// TestCallbackAtTheEnd has calls that return while a callback of theirs is under way: its answer is what the history has. A callback after
// the outcome is refused by name.
func TestCallbackAtTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.allowing("createSession")
	s.node()
	s.program("i1")
	for n, sent := 0, 0; sent < 3; n++ {
		id := s.Open(api.CreateRequest{})
		child := events.SessionID(events.DerivedID("cb-", string(id), "t1/0/0", "r1"))
		in := acting{Do: "leave", Method: "POST", Path: "/v1/sessions", Body: json.RawMessage(fmt.Sprintf(`{"parent":%q}`, id))}
		args, err := json.Marshal(&in)
		runtest.WantError(t, "arguments", err, nil)
		s.Model.Rescript(calling("act", string(args))...)
		s.RunTurn(id, "t1", harness.Text("go"))
		if got := s.CallResult(id, "k"); got != "left" {
			t.Fatalf("result: got %q, want that of the tool", got)
		}
		text := ""
		bustest.Eventually(t, "the callbacks of the call in "+string(id), func() bool {
			data, _ := os.ReadFile(s.runs)
			text = string(data)
			return strings.Count(text, "late ") == n+1
		})
		left := strings.Split(text, "\n")[3*n+1]
		switch state, err := s.State(s.Ctx, child); {
		case strings.HasPrefix(left, "left 201 <nil> ") && err == nil && state.Parent == id:
			sent++
		case strings.HasPrefix(left, "left 0 "+events.ErrOutcomeUnknown.Error()): // the node is starved, and the program does not claim to know
		case !strings.HasPrefix(left, "left 0 "+remote.ErrCallEnded.Error()) || !errors.Is(err, events.ErrNoSession): // else the outcome was first
			t.Fatalf("callback %d: got %q, and the session: %v", n, left, err)
		}
		if late := strings.Split(text, "\n")[3*n+2]; !strings.HasPrefix(late, "late true ") {
			t.Errorf("callback after the outcome: got %q, want it refused by name", late)
		}
	}
}
