package system

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/shell"
)

// TestRulesAreOfFiles has each file tool name each denied file in each way, behind a gate and without one, by the
// rules of the node and of the session.
func TestRulesAreOfFiles(t *testing.T) {
	t.Parallel()
	rules := gate.Options{Allow: []string{"*"}, Deny: []string{"*:*.env", "*:private/*"}}
	for name, stack := range map[string]func(dir string) []plugin.Factory{
		"gate": func(dir string) []plugin.Factory {
			return []plugin.Factory{gate.Factory(gate.Config{Options: rules, Root: dir}), harness.FilesPlugin(t, files.Config{Root: dir})}
		},
		"files": func(dir string) []plugin.Factory {
			return []plugin.Factory{harness.FilesPlugin(t, files.Config{Root: dir, Rules: rules})}
		},
		"both": func(dir string) []plugin.Factory {
			return []plugin.Factory{gate.Factory(gate.Config{Options: rules, Root: dir}), harness.FilesPlugin(t, files.Config{Root: dir, Rules: rules})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, names := harness.DeniedDir(t)
			var list []harness.CallCase
			for _, name := range names {
				for tool, args := range map[string]map[string]string{
					"read_file": {}, "list_files": {}, "search_files": {"pattern": "hidden"}, "write_file": {"content": "changed"}, "edit_file": {"old": "hidden", "new": "changed"},
				} {
					args["path"] = name
					data, err := json.Marshal(args)
					runtest.WantError(t, "arguments", err, nil)
					list = append(list, harness.CallCase{tool, string(data), "[failed] " + tool + " is not allowed here …"})
				}
			}
			harness.CheckCalls(t, list, stack(dir)...)
			runtest.Equal(t, "the file", harness.ReadFile(t, filepath.Join(dir, "x.env")), "hidden\n")
			runtest.Equal(t, "the other", harness.ReadFile(t, filepath.Join(dir, "private/key.txt")), "hidden\n")
			_, err := os.Stat(filepath.Join(dir, "private/new"))
			runtest.Equal(t, "a new one is there", err == nil, false)
		})
	}
}

// TestDeniedFilesAreNotSearched leaves denied files out of searches, and reports their number.
func TestDeniedFilesAreNotSearched(t *testing.T) {
	t.Parallel()
	dir, _ := harness.DeniedDir(t)
	for _, deny := range []string{"*", "search_files", "read_file"} {
		harness.CheckCalls(t, []harness.CallCase{
			{"search_files", `{"pattern":"hidden|seen"}`, "a/b/open.txt:1: seen\n[2 files are not allowed here, and not searched]\n[not searched, a link: absolute, chain, dir, dirs, here and 5 more]\n"},
			{"search_files", `{"pattern":"hidden","path":"here"}`, "[nothing found; files searched: 1]\n[2 files are not allowed here, and not searched]\n[not searched, a link: absolute, chain, dir, dirs, here and 5 more]\n"},
			{"search_files", `{"pattern":"hidden","path":"dirs"}`, "[no file was searched]\n[1 files are not allowed here, and not searched]\n"},
		}, harness.FilesPlugin(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{deny + ":*.env", deny + ":private/*"}}}))
	}
	harness.CheckCalls(t, []harness.CallCase{
		{"list_files", `{"path":"private"}`, "key.txt (not allowed here)\n"},
		{"list_files", `{"path":"dirs"}`, "key.txt (not allowed here)\n"},
		{"list_files", `{}`, "a/\nabsolute (not allowed here)\nchain (not allowed here)\n…"},
	}, harness.FilesPlugin(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{"*:*.env", "*:private/*"}}}))
}

// TestAllowWantsEveryName requests an approval for a file that is allowed by the name of a link only.
func TestAllowWantsEveryName(t *testing.T) {
	t.Parallel()
	dir, _ := harness.DeniedDir(t)
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "write_file", `{"path":"a/b/dir/key.txt","content":"changed"}`), harness.Call("c2", "write_file", `{"path":"a/new.txt","content":"new"}`)), harness.Reply(harness.Text("done")))
	b.StartNode(gate.Factory(gate.Config{Options: gate.Options{Allow: []string{"write_file:a/*"}}, Root: dir}), harness.FilesPlugin(t, files.Config{Root: dir}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	question := answer(b, id, "c1", events.ToolApprovalGiven{Reason: "not that"})
	runtest.Equal(t, "question", question.Question, "Let write_file run? a/b/dir/key.txt, which is private/key.txt")
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "allowed", b.CallResult(id, "c2"), "3 bytes written to a/new.txt")
	runtest.Equal(t, "the file", harness.ReadFile(t, filepath.Join(dir, "private/key.txt")), "hidden\n")
}

// TestRulesOfDirectories has commands run in a denied directory, named in each way.
func TestRulesOfDirectories(t *testing.T) {
	t.Parallel()
	dir, _ := harness.DeniedDir(t)
	rules := gate.Options{Allow: []string{"*"}, Deny: []string{"*:private/*"}}
	var list []harness.CallCase
	for _, cwd := range []string{"private", "./private/", "a/../private", "dir", "dirs", "a/b/dir", "here/dir", "PRIVATE", "/private", "/dirs", filepath.Join(dir, "private"), filepath.Join(dir, "dirs")} {
		data, err := json.Marshal(map[string]string{"command": "cat key.txt", "cwd": cwd, "id": "m"})
		runtest.WantError(t, "arguments", err, nil)
		for _, tool := range []string{"run_command", "monitor_start"} {
			list = append(list, harness.CallCase{tool, string(data), "[failed] " + tool + " is not allowed here cat key.txt"})
		}
	}
	list = append(list, harness.CallCase{"run_command", `{"command":"cat open.txt","cwd":"a/b"}`, "seen\n"})
	harness.CheckCalls(t, list, gate.Factory(gate.Config{Options: rules, Root: dir}), harness.ShellPlugin(t, shell.Config{Dir: dir}), background.Factory(background.Config{Dir: dir}))
	runtest.Equal(t, "tried", len(list) > 20 && strings.HasSuffix(list[0].Want, "key.txt"), true)
}

// TestRulesOfTheSession applies a session's own rules to its files, in addition to the rules of the node.
func TestRulesOfTheSession(t *testing.T) {
	t.Parallel()
	dir, _ := harness.DeniedDir(t)
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "read_file", `{"path":"link"}`), harness.Call("c2", "read_file", `{"path":"private/key.txt"}`), harness.Call("c3", "search_files", `{"pattern":"hidden"}`)), harness.Reply(harness.Text("done")))
	b.StartNode(harness.FilesPlugin(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{"*:private/*"}}}))
	options, err := plugin.OptionsOf(gate.ID, gate.Options{Deny: []string{"*:*.env"}})
	runtest.WantError(t, "options", err, nil)
	id := b.Open(api.CreateRequest{Options: options})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "denied", b.CallResult(id, "c1"), "[failed] read_file is not allowed here link, which is x.env")
	runtest.Equal(t, "the node's own rule", b.CallResult(id, "c2"), "[failed] read_file is not allowed here private/key.txt")
	runtest.Equal(t, "found", b.CallResult(id, "c3"), "[nothing found; files searched: 1]\n[2 files are not allowed here, and not searched]\n[not searched, a link: absolute, chain, dir, dirs, here and 5 more]\n")
}

// TestEditNeedsRead denies only the reading of a file: an edit, whose response would show its content, is refused
// too.
func TestEditNeedsRead(t *testing.T) {
	t.Parallel()
	dir, _ := harness.DeniedDir(t)
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "edit_file", `{"path":"private/key.txt","old":"hidden","new":"hidden"}`)), harness.Reply(harness.Text("done")))
	b.StartNode(harness.FilesPlugin(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{"read_file:private/*"}}}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "edit", b.CallResult(id, "c1"), "[failed] read_file is not allowed here private/key.txt")
}
