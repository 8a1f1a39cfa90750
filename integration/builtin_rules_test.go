package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/shell"
)

// denied makes a directory with a file that rules will deny, and gives the names by which it can be reached.
func denied(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	put(t, dir, map[string]string{"x.env": "hidden\n", "private/key.txt": "hidden\n", "a/b/open.txt": "seen\n"})
	for name, to := range map[string]string{
		"link": "x.env", "chain": "link", "a/up": "../x.env", "absolute": filepath.Join(dir, "x.env"), "round": "a/b/../../x.env",
		"dir": "private", "dirs": "dir", "a/b/dir": "../../private", "here": ".", "a/here": "..",
	} {
		must(t, "link", os.Symlink(to, filepath.Join(dir, name)), nil)
	}
	return dir, []string{
		"x.env", "./x.env", "a/../x.env", ".//x.env", "X.env", "x.ENV", "link", "chain", "a/up", "a/b/../up", "absolute", "round", "here/x.env",
		"here/here/link", "a/here/x.env", "a/here/a/here/chain",
		"private/key.txt", "dir/key.txt", "dirs/key.txt", "a/b/dir/key.txt", "here/dirs/key.txt", "private/../dir/key.txt", "Private/Key.txt", "private/new", "dir/new",
	}
}

// TestRulesAreOfFiles has each tool of files name each denied file in each way, behind a gate and without one,
// by the rules of the node and of the session.
func TestRulesAreOfFiles(t *testing.T) {
	t.Parallel()
	rules := gate.Options{Allow: []string{"*"}, Deny: []string{"*:*.env", "*:private/*"}}
	for name, stack := range map[string]func(dir string) []plugin.Factory{
		"gate": func(dir string) []plugin.Factory {
			return []plugin.Factory{gate.Factory(gate.Config{Options: rules, Root: dir}), filesIn(t, files.Config{Root: dir})}
		},
		"files": func(dir string) []plugin.Factory {
			return []plugin.Factory{filesIn(t, files.Config{Root: dir, Rules: rules})}
		},
		"both": func(dir string) []plugin.Factory {
			return []plugin.Factory{gate.Factory(gate.Config{Options: rules, Root: dir}), filesIn(t, files.Config{Root: dir, Rules: rules})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, names := denied(t)
			var list []asked
			for _, name := range names {
				for tool, args := range map[string]map[string]string{
					"read_file": {}, "list_files": {}, "search_files": {"pattern": "hidden"}, "write_file": {"content": "changed"}, "edit_file": {"old": "hidden", "new": "changed"},
				} {
					args["path"] = name
					data, err := json.Marshal(args)
					must(t, "arguments", err, nil)
					list = append(list, asked{tool, string(data), "[failed] " + tool + " is not allowed here …"})
				}
			}
			results(t, list, stack(dir)...)
			equal(t, "the file", fileText(t, filepath.Join(dir, "x.env")), "hidden\n")
			equal(t, "the other", fileText(t, filepath.Join(dir, "private/key.txt")), "hidden\n")
			_, err := os.Stat(filepath.Join(dir, "private/new"))
			equal(t, "a new one is there", err == nil, false)
		})
	}
}

// TestDeniedFilesAreNotSearched leaves them out, and says how many.
func TestDeniedFilesAreNotSearched(t *testing.T) {
	t.Parallel()
	dir, _ := denied(t)
	for _, deny := range []string{"*", "search_files", "read_file"} {
		results(t, []asked{
			{"search_files", `{"pattern":"hidden|seen"}`, "a/b/open.txt:1: seen\n[2 files are not allowed here, and not searched]\n"},
			{"search_files", `{"pattern":"hidden","path":"here"}`, "[nothing found]\n[2 files are not allowed here, and not searched]\n"},
			{"search_files", `{"pattern":"hidden","path":"dirs"}`, "[nothing found]\n[1 files are not allowed here, and not searched]\n"},
		}, filesIn(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{deny + ":*.env", deny + ":private/*"}}}))
	}
	results(t, []asked{
		{"list_files", `{"path":"private"}`, "key.txt (not allowed here)\n"},
		{"list_files", `{"path":"dirs"}`, "key.txt (not allowed here)\n"},
		{"list_files", `{}`, "a/\nabsolute (not allowed here)\nchain (not allowed here)\n…"},
	}, filesIn(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{"*:*.env", "*:private/*"}}}))
}

// TestAllowWantsEveryName asks about a file that is allowed by the name of a link alone.
func TestAllowWantsEveryName(t *testing.T) {
	t.Parallel()
	dir, _ := denied(t)
	b := setupIdle(t, reply(call("c1", "write_file", `{"path":"a/b/dir/key.txt","content":"changed"}`), call("c2", "write_file", `{"path":"a/new.txt","content":"new"}`)), reply(text("done")))
	b.node(gate.Factory(gate.Config{Options: gate.Options{Allow: []string{"write_file:a/*"}}, Root: dir}), filesIn(t, files.Config{Root: dir}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	question := b.answer(id, "c1", events.ToolApprovalGiven{Reason: "not that"})
	equal(t, "question", question.Question, "Let write_file run? a/b/dir/key.txt, which is private/key.txt")
	b.ended(id, "t1")
	equal(t, "allowed", b.result(id, "c2"), "3 bytes written to a/new.txt")
	equal(t, "the file", fileText(t, filepath.Join(dir, "private/key.txt")), "hidden\n")
}

// TestRulesOfDirectories has commands run in a denied directory, named in each way.
func TestRulesOfDirectories(t *testing.T) {
	t.Parallel()
	dir, _ := denied(t)
	rules := gate.Options{Allow: []string{"*"}, Deny: []string{"*:private/*"}}
	var list []asked
	for _, cwd := range []string{"private", "./private/", "a/../private", "dir", "dirs", "a/b/dir", "here/dir", "PRIVATE", "/private", "/dirs", filepath.Join(dir, "private"), filepath.Join(dir, "dirs")} {
		data, err := json.Marshal(map[string]string{"command": "cat key.txt", "cwd": cwd, "id": "m"})
		must(t, "arguments", err, nil)
		for _, tool := range []string{"run_command", "monitor_start"} {
			list = append(list, asked{tool, string(data), "[failed] " + tool + " is not allowed here cat key.txt"})
		}
	}
	list = append(list, asked{"run_command", `{"command":"cat open.txt","cwd":"a/b"}`, "seen\n"})
	results(t, list, gate.Factory(gate.Config{Options: rules, Root: dir}), shellIn(t, shell.Config{Dir: dir}), background.Factory(background.Config{Dir: dir}))
	equal(t, "tried", len(list) > 20 && strings.HasSuffix(list[0].want, "key.txt"), true)
}

// TestRulesOfTheSession has a session's own rules hold for its files, beside what the node denies.
func TestRulesOfTheSession(t *testing.T) {
	t.Parallel()
	dir, _ := denied(t)
	b := setupIdle(t, reply(call("c1", "read_file", `{"path":"link"}`), call("c2", "read_file", `{"path":"private/key.txt"}`), call("c3", "search_files", `{"pattern":"hidden"}`)), reply(text("done")))
	b.node(filesIn(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{"*:private/*"}}}))
	options, err := plugin.OptionsOf(gate.ID, gate.Options{Deny: []string{"*:*.env"}})
	must(t, "options", err, nil)
	id := b.open(api.CreateRequest{Options: options})
	b.run(id, "t1", text("go"))
	equal(t, "denied", b.result(id, "c1"), "[failed] read_file is not allowed here link, which is x.env")
	equal(t, "the node's own rule", b.result(id, "c2"), "[failed] read_file is not allowed here private/key.txt")
	equal(t, "found", b.result(id, "c3"), "[nothing found]\n[2 files are not allowed here, and not searched]\n")
}

// TestEditNeedsRead denies only the reading of a file: an edit, whose answer would tell what is in it, is refused too.
func TestEditNeedsRead(t *testing.T) {
	t.Parallel()
	dir, _ := denied(t)
	b := setupIdle(t, reply(call("c1", "edit_file", `{"path":"private/key.txt","old":"hidden","new":"hidden"}`)), reply(text("done")))
	b.node(filesIn(t, files.Config{Root: dir, Rules: gate.Options{Deny: []string{"read_file:private/*"}}}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	equal(t, "edit", b.result(id, "c1"), "[failed] read_file is not allowed here private/key.txt")
}
