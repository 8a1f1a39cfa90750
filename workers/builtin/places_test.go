package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/shell"
	"github.com/lash-go/lash/workers/internal/process"
)

// turnedVariable names the directory in which [TestChildTurnsLinks] turns links.
const turnedVariable = "LASH_TEST_TURNED"

// TestChildTurnsLinks turns links from an open directory and its file to a private one and back, and puts a link in the place of a
// directory, until its input ends.
func TestChildTurnsLinks(t *testing.T) {
	dir, err := os.OpenRoot(os.Getenv(turnedVariable))
	runtest.NoError(t, err)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	link := func(name, to string) {
		must(dir.Symlink(to, ".turned"))
		must(dir.Rename(".turned", name))
	}
	for {
		for _, to := range []string{"private", "open"} {
			link("dir", to)
			link("file", to+"/key.txt")
		}
		must(dir.Rename("swap", ".away"))
		_ = dir.Symlink("private", "swap") // a call may have made the directory
		for dir.Rename(".away", "swap") != nil {
			_ = dir.RemoveAll("swap") // a call may write below it
		}
	}
}

// turned starts the process of [TestChildTurnsLinks] in a new directory.
func turned(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"open/key.txt": "seen\n", "swap/key.txt": "seen\n", "private/key.txt": "hidden\n", "private/secret.txt": "hidden\n"} {
		runtest.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		runtest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := runtest.Child(t.Context(), "TestChildTurnsLinks", turnedVariable+"="+dir)
	var output strings.Builder
	cmd.Stdout = &output
	input, err := cmd.StdinPipe()
	runtest.NoError(t, err)
	runtest.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait() // killed with the test
		if output.Len() > 0 {
			t.Errorf("the process that turns links: %s", output.String())
		}
	})
	return dir
}

// placeArgument is one argument of a tool that names a file or a directory.
type placeArgument struct{ tool, argument string }

// placeArguments are those of all tools of a stack, by their schemas.
func placeArguments(t *testing.T, s *plugin.Stack) (list []placeArgument) {
	t.Helper()
	for _, entry := range s.Tools().Entries() {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		runtest.NoError(t, json.Unmarshal(entry.Look().Schema, &schema))
		for _, name := range []string{"path", "cwd"} {
			if schema.Properties[name] != nil {
				list = append(list, placeArgument{entry.Name, name})
			}
		}
	}
	return list
}

// others are the arguments of tools beside those of places.
var others = map[string]map[string]string{
	"read_file": {}, "list_files": {}, "search_files": {"pattern": "."}, "write_file": {"content": "seen\n"}, "edit_file": {"old": "seen", "new": "seen"},
	"run_command": {"command": "cat key.txt; ls"}, "task_start": {"command": "cat key.txt; ls", "id": "k"}, "monitor_start": {"command": "cat key.txt; ls", "id": "m"},
}

func (p placeArgument) args(t *testing.T, name string) string {
	t.Helper()
	args := map[string]string{p.argument: name}
	for key, value := range others[p.tool] {
		args[key] = value
	}
	data, err := json.Marshal(args)
	if err != nil || others[p.tool] == nil {
		t.Fatalf("%s: got %v, and no arguments for it", p.tool, err)
	}
	return string(data)
}

// judgedCall makes a call as a node does: the gate judges it, and it runs with the places of that. turn runs between.
func judgedCall(t *testing.T, s *plugin.Stack, call plugin.Call, tool, args string, turn func()) (plugin.Result, error) {
	t.Helper()
	list, err := s.BeforeToolCall(t.Context(), plugin.ToolContext{Call: call, Tool: tool, Args: json.RawMessage(args), Host: call.Host})
	runtest.NoError(t, err)
	for _, d := range list {
		switch d.Value.Kind { //nolint:exhaustive // the gate has no others
		case events.DirectiveAbort:
			return plugin.Result{}, &plugin.Failure{Message: d.Value.Message}
		case events.DirectiveJudgePlaces:
			runtest.NoError(t, json.Unmarshal(d.Value.Payload, &call.Places))
		}
	}
	turn()
	return builtintest.Call(t, s, call, tool, args)
}

// placesHost runs the commands of tasks and monitors to their end, and keeps what they print.
type placesHost struct {
	plugin.Absent
	said strings.Builder
}

func (h *placesHost) StartMonitor(ctx context.Context, _ events.SessionID, spec events.MonitorSpec) (api.MonitorSnapshot, error) {
	out, err := process.Run(ctx, process.Command{Script: spec.Command, Dir: spec.Cwd, Place: spec.Place}, 1000)
	h.said.WriteString(out.Text)
	return api.MonitorSnapshot{}, err
}

func (*placesHost) MonitorSnapshot(context.Context, events.SessionID) (api.MonitorSnapshot, error) {
	return api.MonitorSnapshot{}, nil
}

func (*placesHost) SpawnTask(ctx context.Context, _ events.SessionID, _ api.TaskRequest, run plugin.TaskFunc) error {
	return run(ctx)
}

func (h *placesHost) StartTurnStream(_ context.Context, _ events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	h.said.WriteString(events.Message{Parts: req.Input.Parts}.Text())
	return req.ID, nil, nil
}

// placesStack has all tools that take a place, behind a gate.
func placesStack(t *testing.T, dir string, rules gate.Options) *plugin.Stack {
	t.Helper()
	file, err := files.Factory(files.Config{Root: dir})
	runtest.NoError(t, err)
	command, err := shell.Factory(shell.Config{Dir: dir})
	runtest.NoError(t, err)
	return builtintest.Build(t, plugin.BuildContext{}, gate.Factory(gate.Config{Options: rules, Root: dir}), file, command, background.Factory(background.Config{Dir: dir}))
}

// TestLongLinksThatTurn calls every tool that takes a path or a directory while another process turns the links that lead there. No call
// reads or writes what the rules deny.
func TestLongLinksThatTurn(t *testing.T) {
	t.Parallel()
	dir := turned(t)
	s := placesStack(t, dir, gate.Options{Allow: []string{"*"}, Deny: []string{"*:private", "*:private/*"}})
	bad := regexp.MustCompile("hidden|secret")
	all := placeArguments(t, s)
	if len(all) != len(others) {
		t.Errorf("got %v, want one of each of %d tools", all, len(others))
	}
	for _, p := range all {
		tries, seen, names := 1000, 0, []string{"dir/key.txt", "file", "swap/key.txt", "dir", "swap", "dir/new.txt"}
		if p.argument == "cwd" {
			tries, names = 100, []string{"dir", "swap"}
		}
		for i := range tries {
			h := &placesHost{}
			args := p.args(t, names[i%len(names)])
			got, err := judgedCall(t, s, plugin.Call{Host: h, Key: fmt.Sprint(p, i), Attempt: 1}, p.tool, args, func() {})
			text := fmt.Sprint(got.Text, h.said.String(), err)
			if bad.MatchString(text) {
				t.Fatalf("%s %s, try %d: got %s, want nothing of what the rules deny", p.tool, args, i, text)
			}
			if err == nil {
				seen++
			}
		}
		t.Logf("%s: %d of %d calls ran", p.tool, seen, tries)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "private"))
	if err != nil || len(entries) != 2 {
		t.Errorf("private: got %v, %v, want its two files", entries, err)
	}
	for _, e := range entries {
		if data, err := os.ReadFile(filepath.Join(dir, "private", e.Name())); err != nil || string(data) != "hidden\n" {
			t.Errorf("%s: got %q, %v, want it as it was", e.Name(), data, err)
		}
	}
}

// TestPlacesThatChange turns a link between the judgement of a call and its run, for each tool and argument: the call is refused with
// both places, and where the link leads back in time it runs.
func TestPlacesThatChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"docs", "prod", "deep/docs"} {
		runtest.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		runtest.NoError(t, os.WriteFile(filepath.Join(dir, name, "key.txt"), []byte("seen\n"), 0o600))
	}
	link := func(name, to string) {
		_ = os.Remove(filepath.Join(dir, name)) // it may be new
		runtest.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	s := placesStack(t, dir, gate.Options{Allow: []string{"*"}})
	for i, p := range placeArguments(t, s) {
		rest := "/key.txt"
		if p.argument == "cwd" || slices.Contains([]string{"list_files", "search_files"}, p.tool) {
			rest = ""
		}
		for j, c := range []struct{ first, then, was, is string }{
			{"docs", "prod", "docs", "prod"},
			{"docs", "deep/docs", "docs", "deep/docs"},
			{"deep/docs", "../prod", "deep/docs", filepath.ToSlash(filepath.Join(filepath.Dir(dir), "prod"))},
			{"docs", filepath.Join(dir, "prod"), "docs", "prod"},
			{"docs", "docs", "", ""},
			{"docs", "./deep/../docs", "", ""},
			{"docs", filepath.Join(dir, "docs"), "", ""},
		} {
			link("lnk", c.first)
			call := plugin.Call{Host: &placesHost{}, Key: fmt.Sprint(i, j), Attempt: 1}
			args := p.args(t, "lnk"+rest)
			_, err := judgedCall(t, s, call, p.tool, args, func() { link("lnk", c.then) })
			if c.was == "" {
				runtest.WantError(t, fmt.Sprintf("%s %s, from %s to %s", p.tool, args, c.first, c.then), err, nil)
				continue
			}
			want := fmt.Sprintf("%s: lnk%s was %s%[2]s when the call was judged, and is %[4]s%[2]s now: call again", p.argument, rest, c.was, c.is)
			builtintest.Refused(t, p.tool+" "+args, err, plugin.ClassPermissionDenied, want)
		}
	}
}
