package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lash-go/lash/examples/internal/child"
	"github.com/lash-go/lash/internal/runtest"
)

func TestMain(m *testing.M) { child.Main(m, main) }

// TestLongConformance checks the plugin with lash-node.
func TestLongConformance(t *testing.T) {
	t.Parallel()
	// The build cache keeps programs of go run.
	check := exec.CommandContext(t.Context(), "go", "run", "../../cmd/lash-node", "plugin", "check", "--json", "--timeout", "2m", "--late", "2m", "--name", "conformance", "--", os.Args[0])
	check.Env = append(os.Environ(), "LASH_EXAMPLE=1", "GORACE=atexit_sleep_ms=0")
	check.Stderr = os.Stderr
	out, _ := check.Output() // the lines tell
	n := 0
	for line := range strings.Lines(string(out)) {
		var r struct {
			Check, Reason string
			OK            bool
		}
		runtest.NoError(t, json.Unmarshal([]byte(line), &r))
		if n++; !r.OK {
			t.Errorf("%s: %s", r.Check, r.Reason)
		}
	}
	if n < 40 {
		t.Errorf("got %d checks, want those of the plugin conformance", n)
	}
}
