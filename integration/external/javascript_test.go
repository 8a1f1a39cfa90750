package external

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPluginInJavaScript runs a plugin that has no SDK: a NATS client and JSON. Its calls return, and a call outlives
// the node that sent it.
func TestPluginInJavaScript(t *testing.T) {
	t.Parallel()
	path := copyInto(t, modules(t), filepath.Join("testdata", "notes.mjs"))
	for name, millis := range map[string]string{"call_returns": "0", "node_dies_during_call": "1500"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, calling("write", `{"text":"milk","millis":`+millis+`}`)...)
			kill := s.node()
			s.run("js1", exec.CommandContext(s.Ctx, "node", path)) //nolint:gosec // a file of this test
			id := s.begin()
			if millis != "0" {
				s.AwaitPolling("the call", func() bool { return len(s.holders(id)) > 0 })
				s.node()
				kill()
			}
			s.AwaitTurn(id, "t1")
			if got := s.CallResult(id, "k"); got != "noted: milk" {
				t.Errorf("result: got %q, want that of the plugin", got)
			}
		})
	}
}
