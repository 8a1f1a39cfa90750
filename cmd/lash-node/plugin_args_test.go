package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestPluginArguments runs commands of plugins with arguments that are missing, or that do not go together. Each error
// names what is wrong, and what to type.
func TestPluginArguments(t *testing.T) {
	t.Parallel()
	servers := file(t, "mcp.json", []byte(`{"mcpServers": {"notes": {"command": "true"}}}`))
	for want, args := range map[string][]string{
		"lash-node plugin check -- ./my-plugin": {"check"},
		"see lash-node plugin check --help":     {"check", "--nothing"},
		"see lash-node plugin run --help":       {"run"},
		"or --mcp FILE":                         {"run", "notes"},
		"--env is for a program after --":       {"run", "notes", "--mcp", servers, "--env", "A=b"},
		"--dir is for a program after --":       {"run", "notes", "--mcp", servers, "--dir", filepath.Dir(servers)},
		"--sandbox is for a program after --":   {"run", "notes", "--mcp", servers, "--sandbox", "bwrap"},
		"--idle is for a program after --":      {"run", "notes", "--mcp", servers, "--idle", "30s"},
		"--register-wait is for a program":      {"run", "notes", "--mcp", servers, "--register-wait", "10s"},
		"--rollback is for a program after --":  {"run", "notes", "--mcp", servers, "--rollback"},
		"--connection, --nats, LASH_PLUGIN":     {"run", "notes", "--mcp", servers, "--grace", "1s"}, // which applies
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), append([]string{"plugin"}, args...), &streams{Out: &bytes.Buffer{}, Err: &stderr, Env: func(string) string { return "" }})
		if code != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: got %d and %q, want %q", args, code, stderr.String(), want)
		}
	}
}
