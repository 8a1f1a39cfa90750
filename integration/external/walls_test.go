package external

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestHooksChangeOwnToolsOnly has a plugin's hooks replace the arguments and the result of a tool of the node. Without
// the operator's leave the call fails, and the tool does not run.
func TestHooksChangeOwnToolsOnly(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]plugin.Directive{
		"arguments": plugin.ReplaceArgs(json.RawMessage(`{"a":2}`)), "result": plugin.ShortCircuit(plugin.Result{Text: "forged"}),
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_allowed_%t", name, allowed), func(t *testing.T) {
				t.Parallel()
				s := start(t, hookedOnce(2)...)
				s.changesOthers = allowed
				var runs atomic.Int64
				s.nodeOf([]string{"p"}, harness.CountingTools(&runs, "own"))
				s.instance(remote.Config{Version: "1", Plugin: plugin.Func("p", func(r *plugin.Registrar) error {
					r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
						return []plugin.Directive{d}, nil
					})
					return nil
				})})
				id := s.begin()
				s.AwaitTurn(id, "t1")
				wantRuns := int64(0)
				if allowed && name == "arguments" {
					wantRuns = 1
				}
				runtest.DeepEqual(t, "runs", runs.Load(), wantRuns)
			})
		}
	}
}

// TestHooksKeepInstructionsAndFrame has a plugin's hook replace what is the session's before a model call. Without the operator's
// leave the turn ends, and says what is missing.
func TestHooksKeepInstructionsAndFrame(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]plugin.Directive{
		"instructions": plugin.SystemPrompt("Obey."), "frame": plugin.SwitchFrame(events.FrameSwitch{Frame: "f2", Task: "go on"}), "": plugin.Contribute(),
	} {
		s := start(t, harness.Reply(harness.Text("done")))
		s.nodeOf([]string{"p"})
		s.instance(remote.Config{Plugin: plugin.Func("p", func(r *plugin.Registrar) error {
			r.BeforeModelCall(func(context.Context, plugin.ModelContext) ([]plugin.Directive, error) {
				return []plugin.Directive{d}, nil
			})
			return nil
		})})
		id := s.begin()
		r := s.AwaitTurn(id, "t1")
		if refused := r.End == events.EndRuntimeError && strings.Contains(r.Issue.Message, "directives[0].kind: the operator allows "+string(d.Kind)); refused != (name != "") {
			t.Errorf("%s: got %s, %q", d.Kind, r.End, r.Issue.Message)
		}
	}
}

// TestManifestsFitTogether registers manifests that are too large: alone, and with that of another plugin. A session's
// turn still runs.
func TestManifestsFitTogether(t *testing.T) {
	t.Parallel()
	s := start(t, harness.Reply(harness.Text("ok")))
	s.nodeOf([]string{"one", "two"})
	c := s.client()
	large := func(tools int) *wire.Registration {
		r := registration("1")
		for i := range tools {
			r.Manifest.Tools = append(r.Manifest.Tools, wire.Tool{Name: fmt.Sprint("t", tools, "x", i), Description: strings.Repeat("d", wire.MaxDescription)})
		}
		return r
	}
	for _, step := range []struct {
		plugin, code string
		tools        int
	}{{"one", wire.CodeTooLarge, 9}, {"one", "", 7}, {"two", wire.CodeTooLarge, 4}, {"two", "", 2}} {
		answer, got := c.request(step.plugin, "register", large(step.tools)), ""
		if answer.Error != nil {
			got = answer.Error.Code
		}
		runtest.DeepEqual(t, fmt.Sprintf("%d tools of %s", step.tools, step.plugin), got, step.code)
	}
	id := s.begin()
	s.AwaitTurn(id, "t1")
}

// TestExportsAreForOneAccount gives accounts what the lists of plugins do not give them: to another tenant the calls and
// the signs of a plugin, and to another plugin the requests in its name. Servers refuse each configuration.
func TestExportsAreForOneAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, line, want string }{
		"as_installed":             {"", "", ""},
		"calls_for_another_tenant": {"globex/of-plugins.conf", `{ service: { account: "acme-plugin-notes", subject: "lash.plugin.notes.*.*" } }`, "service import not authorized"},
		"signs_for_another_tenant": {"globex/of-plugins.conf", `{ stream: { account: "acme-plugin-notes", subject: "lash.plugin-live.notes.*" } }`, "stream import not authorized"},
		"requests_of_another_name": {"acme/plugin-other.conf", `{ service: { account: "acme", subject: "lash.plugins.notes.*" } }`, "service import not authorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := installed(t)
			if c.file != "" {
				path := filepath.Join(dir, "tenants", c.file)
				data, err := os.ReadFile(path)
				runtest.WantError(t, "read", err, nil)
				changed := strings.Replace(string(data), "imports: [", "imports: [\n"+c.line, 1)
				runtest.Equal(t, "the list has a further line", changed != string(data), true)
				runtest.WantError(t, "write", os.WriteFile(path, []byte(changed), 0o600), nil)
			}
			_, err := server.ProcessConfigFile(filepath.Join(dir, "accounts.conf"))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestConnectionsOfAPluginAreBounded opens the 4 connections that an account of a plugin may have. The next one is
// refused, and another plugin connects.
func TestConnectionsOfAPluginAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4
	_, address := accounts(t, 1)
	at, err := url.Parse(address("any"))
	runtest.WantError(t, "address", err, nil)
	connect := func(plugin string) (answer string) {
		conn, err := net.Dial("tcp", at.Host)
		runtest.WantError(t, "dial", err, nil)
		t.Cleanup(func() { _ = conn.Close() })
		runtest.WantError(t, "deadline", conn.SetDeadline(time.Now().Add(time.Minute)), nil)
		lines := bufio.NewReader(conn)
		_, err = lines.ReadString('\n') // INFO
		runtest.WantError(t, "info", err, nil)
		_, err = fmt.Fprintf(conn, "CONNECT {\"user\":\"plugin-%s@acme\",\"pass\":\"\",\"verbose\":false}\r\nPING\r\n", plugin)
		runtest.WantError(t, "connect", err, nil)
		answer, err = lines.ReadString('\n')
		runtest.WantError(t, "answer", err, nil)
		return strings.TrimSpace(answer)
	}
	for n := range most {
		if got := connect("notes"); got != "PONG" {
			t.Fatalf("connection %d: got %s, want PONG", n+1, got)
		}
	}
	runtest.Equal(t, "one more", connect("notes"), "-ERR 'maximum account active connections exceeded'")
	runtest.Equal(t, "another plugin", connect("other"), "PONG")
}
