package external

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/workers/external"
)

// TestInnerCallOutlivesSettings has a node with other settings take over code, whose next call the history says must not
// run twice. The instance of that call dies: it is lost, and does not run again.
func TestInnerCallOutlivesSettings(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.coded("nested", "")
	s.Model.Rescript(harness.Program("a = attempt(look, text=\"first\", hold=True)\nb = attempt(look, text=\"second\", hold=True)\nprint(b.ok, b.value, b.error)"), harness.Reply(harness.Text("done")))
	s.config.Plugins = []external.Plugin{{Name: "notes", Effects: map[string]events.Effects{"look": "non_idempotent"}}}
	kill := s.node()
	programs := map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
	id := s.Open(harness.CodeSession())
	s.StartTurn(id, "t1", harness.Text("go"))
	s.logged("began", 1)
	s.config.Plugins = []external.Plugin{{Name: "notes"}}
	s.node()
	kill()
	holder := strings.Fields(last(s.logged("began", 2), "began"))[2]
	programs[holder].kill()
	s.AwaitTurn(id, "t1")
	if got := s.Outputs(id)[0]; !strings.HasPrefix(got, "False None "+projector.LostText) {
		t.Errorf("output: got %q, want the second call lost", got)
	}
	runtest.DeepEqual(t, "runs", s.began(), 2)
	harness.VerifyHistory(t, s.Bus, id)
}
