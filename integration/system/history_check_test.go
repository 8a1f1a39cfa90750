package system

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// TestCheckRecordings runs recorded conversations of all kinds through the runtime. This build decides all of them
// again in the same way. A build with a changed machine, which gives calls of turns that end early no results, does not, and
// check names the first event of such a result.
func TestCheckRecordings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	chats := filepath.Join(dir, "chats.jsonl")
	all := slices.Concat(recordingtest.Each(recording.FormatChat), recordingtest.Each(recording.FormatPi), recordingtest.Make(1, recording.FormatPi, 60))
	runtest.WantError(t, "recordings", os.WriteFile(chats, all, 0o600), nil)
	node, replay := harness.BuildCommand(t, "lash-node"), harness.BuildCommand(t, "lash-replay")
	changed := harness.BuildCommand(t, "lash-replay", "-overlay", unclosed(t))
	store, junit := filepath.Join(dir, "store"), filepath.Join(dir, "report.xml")
	output(t, 0, node, "demo", "--json", "--store", store, "--chats", chats)

	got := output(t, 0, replay, "check", "--store", store, "--junit", junit)
	sessions, want := closedCalls(t, replay, store)
	if !strings.Contains(got, fmt.Sprintf("checked %d session", sessions)) || !strings.HasSuffix(got, ", 0 differences\n") {
		t.Errorf("check of the recordings: got %s, want %d sessions without a difference", got, sessions)
	}
	if report, err := os.ReadFile(junit); err != nil || !strings.Contains(string(report), fmt.Sprintf(`tests="%d" failures="0" errors="0"`, sessions)) {
		t.Errorf("JUnit report: got %s, %v, want %d tests without a failure", report, err, sessions)
	}

	if len(want) == 0 {
		t.Fatal("got no call that ended with its turn, want some: without one the changed machine decides as this one does")
	}
	var report struct {
		Results []struct {
			Session    string
			Difference *struct {
				Seq, Index int // of the event
				Recorded   struct{ Kind string }
			}
		}
	}
	got = output(t, 1, changed, "check", "--json", "--store", store)
	runtest.WantError(t, "report", json.Unmarshal([]byte(got), &report), nil)
	for _, r := range report.Results {
		at := ""
		if d := r.Difference; d != nil {
			at = fmt.Sprintf("%d.%d %s", d.Seq, d.Index, d.Recorded.Kind)
		}
		runtest.Equal(t, fmt.Sprintf("difference of session %s", r.Session), at, want[r.Session])
	}
}

// TestCheckInEnvironment checks a session whose gate judged a path in an execution environment: with the file of the node's environments it is
// decided as it was, and without it the hook fails.
func TestCheckInEnvironment(t *testing.T) {
	t.Parallel()
	dir, root, of := t.TempDir(), t.TempDir(), t.TempDir()
	environments, file := filepath.Join(of, "environments.json"), filepath.Join(of, "s1.lash")
	harness.WriteFiles(t, of, map[string]string{"environments.json": fmt.Sprintf(`{"environments": {"ci": {"directory": %q}}}`, dir)})
	harness.WriteFiles(t, dir, map[string]string{"hidden": "a key"})
	runtest.WantError(t, "link", os.Symlink("hidden", filepath.Join(dir, "link")), nil)
	rules := gate.Options{Deny: []string{"read_file:hidden"}}
	b := harness.StartIdle(t, harness.Reply(harness.Call("a", "read_file", `{"path":"link"}`)), harness.Reply(harness.Text("done")))
	b.Host = b.StartNodeWith(workers.Config{Environments: plugin.Environments{"ci": {Dir: dir}}}, plugin.BuilderConfig{
		Builtins: workers.Builtins(), Factories: []plugin.Factory{gate.Factory(gate.Config{Options: rules, Root: root}), harness.FilesPlugin(t, files.Config{Root: root, Rules: rules})},
	}).Host()
	id := b.Open(api.CreateRequest{ID: "s1", Config: events.Config{Environment: "ci"}})
	b.RunTurn(id, "t1", harness.Text("read it"))
	runtest.Equal(t, "denied: "+b.CallResult(id, "a"), strings.Contains(b.CallResult(id, "a"), "a key"), false)
	var data bytes.Buffer
	_, err := archive.Write(b.Ctx, b.Bus.Log(), b.Bus, id, &data)
	runtest.WantError(t, "archive", err, nil)
	runtest.WantError(t, "archive", os.WriteFile(file, data.Bytes(), 0o600), nil)

	node, args := harness.BuildCommand(t, "lash-node"), []string{"check", file, "--plugins", "gate,files", "--root", root, "--deny", rules.Deny[0]}
	if keys := bustest.EncryptedFile(); keys != "" {
		args = append(args, "--bodies-key", keys)
	}
	if got := output(t, 0, node, append(args, "--set", "environments="+environments)...); !strings.HasSuffix(got, ", 0 differences\n") {
		t.Errorf("with the environments: got %s", got)
	}
	output(t, 1, node, args...)
}

// closedCalls counts the sessions, and finds, by session, the first event with results of the machine for calls that ended
// with their turn.
func closedCalls(t *testing.T, program, store string) (int, map[string]string) {
	t.Helper()
	var list []struct{ ID string }
	runtest.WantError(t, "sessions", json.Unmarshal([]byte(output(t, 0, program, "ls", "--json", "--store", store)), &list), nil)
	found := make(map[string]string)
	for _, s := range list {
		lines := strings.Split(strings.TrimSpace(output(t, 0, program, "events", s.ID, "--json", "--store", store)), "\n")
		for i, line := range lines {
			if strings.Contains(line, `"[cancelled] The call was cancelled`) && i+1 < len(lines) && strings.Contains(lines[i+1], `"turn.completed"`) {
				var ev struct {
					Seq   int
					Index int `json:"pos"`
					Kind  string
				}
				runtest.WantError(t, "event", json.Unmarshal([]byte(line), &ev), nil)
				found[s.ID] = fmt.Sprintf("%d.%d %s", ev.Seq, ev.Index, ev.Kind)
				break
			}
		}
	}
	return len(list), found
}

// unclosed is an overlay for go build, with a changed copy of the turn machine: calls of turns that end early get no
// results.
func unclosed(t *testing.T) string {
	t.Helper()
	const line = "if results := cancelled(calls, nil); len(results) > 0 {"
	path, err := filepath.Abs("../../session/turn/calls.go")
	runtest.WantError(t, "path", err, nil)
	source, err := os.ReadFile(path)
	runtest.WantError(t, "source", err, nil)
	if strings.Count(string(source), line) != 1 {
		t.Fatalf("%s has not one line %q", path, line)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "calls.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	runtest.WantError(t, "overlay", err, nil)
	runtest.WantError(t, "write", os.WriteFile(changed, []byte(strings.Replace(string(source), line, strings.Replace(line, "; len", "; false && len", 1), 1)), 0o600), nil)
	runtest.WantError(t, "write", os.WriteFile(overlay, list, 0o600), nil)
	return overlay
}

// output runs a program, which must end with a code, and returns its standard output.
func output(t *testing.T, code int, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(harness.Context(t), program, args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == code || err == nil && code == 0 {
		return string(out)
	}
	t.Fatalf("%s %q: got %v, want exit code %d\n%s", program, args, err, code, out)
	return ""
}
