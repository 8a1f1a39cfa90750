package external

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lash-go/lash/integration/harness"
)

// TestPluginInJavaScript runs a plugin that has no SDK: a NATS client and JSON. Its calls return, and a call outlives
// the node that sent it.
func TestPluginInJavaScript(t *testing.T) {
	t.Parallel()
	modules := os.Getenv("LASH_NODE_MODULES")
	if modules == "" {
		t.Skip("LASH_NODE_MODULES names a folder with what integration/clients/testdata/typescript/package.json lists, as .ci/run installs it")
	}
	dir := t.TempDir()
	harness.WantError(t, "link the modules", os.Symlink(modules, filepath.Join(dir, "node_modules")), nil)
	program, err := os.ReadFile(filepath.Join("testdata", "notes.mjs"))
	harness.WantError(t, "program", err, nil)
	path := filepath.Join(dir, "notes.mjs")
	harness.WantError(t, "program", os.WriteFile(path, program, 0o600), nil)
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
