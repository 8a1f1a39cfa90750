package mcp_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp"
)

// TestParse reads a file as editors have it, with fields that lash does not know, and references in each place.
func TestParse(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	runtest.NoError(t, os.WriteFile(secret, []byte(" from a file\n"), 0o600))
	got, err := mcp.Parse([]byte(`{"inputs": [], "mcpServers": {
		"web": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "alwaysAllow": ["x"]},
		"files": {"command": "npx", "args": ["-y", "${DIR:-/tmp}"], "env": {"KEY": "${file:`+secret+`}", "PEM": "-----\nMII\n-----"}, "cwd": "/srv",
			"lash": {"effects": {"write": "non_idempotent"}, "tools": ["read_*"], "by_session": true, "sandbox": ["bwrap", "--"], "timeout_ms": 2000, "start_timeout_ms": 90000}},
		"off": {"command": "x", "disabled": true}}}`), func(name string) string { return map[string]string{"HOST": "h", "TOKEN": "secret"}[name] }, os.ReadFile)
	want := []mcp.Server{
		{
			Name: "files", Command: "npx", Args: []string{"-y", "/tmp"}, Env: map[string]string{"KEY": "from a file", "PEM": "-----\nMII\n-----"}, Dir: "/srv", Sandbox: []string{"bwrap", "--"}, BySession: true,
			Effects: map[string]events.Effects{"write": "non_idempotent"}, Tools: []string{"read_*"}, Timeout: 2 * time.Second, StartTimeout: 90 * time.Second,
		},
		{Name: "web", URL: "https://h/mcp", Headers: map[string]string{"Authorization": "Bearer secret"}, Timeout: mcp.DefaultTimeout, StartTimeout: mcp.DefaultStartTimeout},
	}
	if has, wants := text(t, got), text(t, want); err != nil || has != wants {
		t.Errorf("got %s, %v\nwant %s", has, err, wants)
	}
}

// text is the JSON of servers.
func text(t *testing.T, list []mcp.Server) string {
	t.Helper()
	data, err := json.Marshal(list)
	runtest.NoError(t, err)
	return string(data)
}

// TestParseRefused reads files that are wrong. Each error names the field, and none has a secret.
func TestParseRefused(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		`[]`:                 "mcpServers",
		`{"servers": {}}`:    "mcpServers",
		`{"mcpServers": {}}`: "mcpServers",
		`{"mcpServers": {"a b": {"command":"x"}}}`:                                 "mcpServers.a b",
		`{"mcpServers": {"` + strings.Repeat("a", 33) + `": {"command":"x"}}}`:     "mcpServers." + strings.Repeat("a", 33),
		`{"mcpServers": {"a": {}}}`:                                                "mcpServers.a",
		`{"mcpServers": {"a": {"command":"x","url":"http://h"}}}`:                  "mcpServers.a",
		`{"mcpServers": {"a": {"command":"x","type":"sse"}}}`:                      "mcpServers.a.type",
		`{"mcpServers": {"a": {"url":"ftp://h"}}}`:                                 "mcpServers.a.url",
		`{"mcpServers": {"a": {"command":"x","args":["${NONE}"]}}}`:                "mcpServers.a.args[0]",
		`{"mcpServers": {"a": {"command":"x","env":{"K":"${file:/no/such}"}}}}`:    "mcpServers.a.env.K",
		`{"mcpServers": {"a": {"command":"x","env":{"K=":"v"}}}}`:                  "mcpServers.a.env.K=",
		`{"mcpServers": {"a": {"url":"http://h","headers":{"K":"a\nb"}}}}`:         "mcpServers.a.headers.K",
		`{"mcpServers": {"a": {"command":"x","lash":{"speed":1}}}}`:                "mcpServers.a.lash",
		`{"mcpServers": {"a": {"command":"x","lash":{"effects":{"t":"always"}}}}}`: "mcpServers.a.lash.effects.t",
		`{"mcpServers": {"a": {"command":"x","lash":{"effects":{"t":"none"}}}}}`:   "mcpServers.a.lash.effects.t", // it would tighten nothing
		`{"mcpServers": {"a": {"command":"x","lash":{"timeout_ms":-1}}}}`:          "mcpServers.a.lash.timeout_ms",
		`{"mcpServers": {"a": {"command":"x","lash":{"start_timeout_ms":-1}}}}`:    "mcpServers.a.lash.start_timeout_ms",
		`{"mcpServers": {"a": {"command":"x"}, "a__b": {"command":"x"}}}`:          "mcpServers.a__b", // a may have the tool b__c
		`{"mcpServers": {"a": {"command":"x"}, "a_": {"command":"x"}}}`:            "mcpServers.a_",   // a may have the tool _c
	} {
		_, err := mcp.Parse([]byte(text), func(string) string { return "" }, os.ReadFile)
		refused, ok := errors.AsType[*events.FieldError](err)
		if !ok || refused.Field != field {
			t.Errorf("%s: got %v, want a refusal of %s", text, err, field)
		}
	}
}

// TestToolNames has names that sessions can have, which differ where the server's differ.
func TestToolNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	long := strings.Repeat("x", 80)
	for _, tool := range []string{"read", "read.file", "read/file", "read_file", "ä", "ö", long, long + "y", ""} {
		name := mcp.ToolName("srv", tool)
		if err := events.CheckToken("name", name); err != nil || !strings.HasPrefix(name, "srv__") {
			t.Errorf("%q: got %q, %v, want a name of a tool", tool, name, err)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q: both are %q", tool, other, name)
		}
		seen[name] = tool
	}
	runtest.Equal(t, "tool name", mcp.ToolName("srv", "read"), "srv__read")
}
