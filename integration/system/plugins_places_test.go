package system

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/shell"
)

// placeCalls are calls of all tools that take a path or a directory, and the argument that does. PLACE is the directory.
var placeCalls = map[string]struct{ argument, args string }{
	"read_file": {"path", `{"path":"PLACE/key.txt"}`}, "list_files": {"path", `{"path":"PLACE"}`}, "search_files": {"path", `{"path":"PLACE","pattern":"."}`},
	"write_file": {"path", `{"path":"PLACE/key.txt","content":"changed"}`}, "edit_file": {"path", `{"path":"PLACE/key.txt","old":"kept","new":"changed"}`},
	"run_command": {"cwd", `{"command":"touch ran","cwd":"PLACE"}`}, "task_start": {"cwd", `{"command":"touch ran","cwd":"PLACE","id":"k"}`},
	"monitor_start": {"cwd", `{"command":"touch ran","cwd":"PLACE","id":"m"}`},
}

// insideTool calls another tool inside of its own call.
func insideTool() plugin.Factory {
	return harness.PluginOf("inside", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "inside", Effects: events.EffectsNone}, func(ctx context.Context, call plugin.Call, in struct {
			Tool string `json:"tool"`
			Args string `json:"args"`
		},
		) (string, error) {
			got := call.Nested(ctx, 0, []plugin.NestedCall{{Tool: in.Tool, Args: json.RawMessage(in.Args)}})[0]
			return got.Text, got.Err
		})
	})
}

func placesPlugins(t *testing.T, dir string, rules gate.Options) []plugin.Factory {
	return []plugin.Factory{
		gate.Factory(gate.Config{Options: rules, Root: dir}), harness.FilesPlugin(t, files.Config{Root: dir}), harness.ShellPlugin(t, shell.Config{Dir: dir}),
		background.Factory(background.Config{Dir: dir}), insideTool(),
	}
}

// TestPlacesOfApprovals asks about a call of each tool, of a model and inside of another call. The question and the history have the
// place where a link leads. The node dies, the link is turned, the calls are approved, and another node runs them: each is refused
// with both places, and nothing is changed at either.
func TestPlacesOfApprovals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFiles(t, dir, map[string]string{"docs/key.txt": "kept", "prod/key.txt": "kept"})
	link := filepath.Join(dir, "lnk")
	runtest.WantError(t, "link", os.Symlink("docs", link), nil)
	var calls []events.Part
	for tool, c := range placeCalls {
		args := strings.ReplaceAll(c.args, "PLACE", "lnk")
		inner, err := json.Marshal(map[string]string{"tool": tool, "args": args})
		runtest.WantError(t, "arguments", err, nil)
		calls = append(calls, harness.Call(events.CallID(tool), tool, args), harness.Call(events.CallID("in_"+tool), "inside", string(inner)))
	}
	b := harness.StartIdle(t, harness.Reply(calls...), harness.Reply(harness.Text("done")))
	start := func() (kill func()) {
		n, kill := b.StartNodeOn(bustest.Open(t, b.Server), placesPlugins(t, dir, gate.Options{Allow: []string{"inside"}, Ask: []string{"*"}})...)
		b.Host = n.Host()
		return kill
	}
	kill := start()
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	s := b.AwaitState(id, "all questions", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) == len(calls) })
	for _, asked := range s.Turn().Asks {
		c := placeCalls[asked.Tool]
		rest := ""
		if strings.Contains(c.args, "PLACE/") {
			rest = "/key.txt"
		}
		if want := "lnk" + rest + ", which is docs" + rest; !strings.HasSuffix(asked.Question, want) {
			t.Errorf("%s: got the question %q, want %q at its end", asked.Tool, asked.Question, want)
		}
		runtest.Equal(t, "places of "+asked.Tool, string(asked.Places), fmt.Sprintf(`{%q:%q}`, c.argument, "docs"+rest))
	}
	kill()
	runtest.WantError(t, "turn", os.Remove(link), nil)
	runtest.WantError(t, "turn", os.Symlink("prod", link), nil)
	b.Host = b.OtherHost()
	for _, asked := range s.Turn().Asks {
		runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: asked.Effect, Granted: true}), nil)
	}
	start()
	b.AwaitTurn(id, "t1")
	for tool, c := range placeCalls {
		for _, call := range []string{tool, "in_" + tool} {
			if got := b.CallResult(id, call); !strings.Contains(got, c.argument+": lnk") || !strings.Contains(got, " was docs") || !strings.Contains(got, " is prod") {
				t.Errorf("%s: got %q, want a refusal with both places", call, got)
			}
		}
	}
	for _, name := range []string{"docs", "prod"} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		runtest.WantError(t, "read", err, nil)
		runtest.Equal(t, "entries of "+name, len(entries), 1)
		runtest.Equal(t, name, harness.ReadFile(t, filepath.Join(dir, name, "key.txt")), "kept")
	}
}

// TestPlacesThatAreAllowed has the history say where a call worked that needed no approval, and links within the root work.
func TestPlacesThatAreAllowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFiles(t, dir, map[string]string{"docs/key.txt": "kept"})
	runtest.WantError(t, "link", os.Symlink("docs", filepath.Join(dir, "lnk")), nil)
	runtest.WantError(t, "link", os.Symlink(filepath.Join(dir, "docs"), filepath.Join(dir, "absolute")), nil)
	b, id := harness.CheckCalls(t, []harness.CallCase{
		{"read_file", `{"path":"lnk/key.txt"}`, "kept"},
		{"read_file", `{"path":"absolute/key.txt"}`, "kept"},
		{"run_command", `{"command":"basename $PWD; cat key.txt","cwd":"lnk"}`, "docs\nkept"},
		{"run_command", `{"command":"basename $PWD","cwd":"` + filepath.Join(dir, "lnk") + `"}`, "docs\n"},
		{"write_file", `{"path":"lnk/new/key.txt","content":"x"}`, "1 bytes written to lnk/new/key.txt"},
	}, placesPlugins(t, dir, gate.Options{Allow: []string{"*"}})...)
	var places []string
	for _, p := range harness.Find[*events.HookRan](b, id) {
		for _, d := range p.Decisions {
			places = append(places, string(d.Kind)+" "+string(d.Body))
		}
	}
	runtest.EqualLists(t, "decisions", places, []string{
		`judge_places {"path":"docs/key.txt"}`, `judge_places {"path":"docs/key.txt"}`, `judge_places {"cwd":"docs"}`, `judge_places {"cwd":"docs"}`, `judge_places {"path":"docs/new/key.txt"}`,
	})
}

// TestPlaceOfMonitor has a monitor run in a directory, whose node dies. A link takes the place of the directory: the monitor does not
// run again where that leads.
func TestPlaceOfMonitor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFiles(t, dir, map[string]string{"docs/key.txt": "kept", "prod/key.txt": "kept"})
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "monitor_start", `{"id":"m","command":"touch ran; echo ran; sleep 1000","cwd":"docs","persistent":true,"notify_only":true}`)), harness.Reply(harness.Text("watching")))
	plugins := placesPlugins(t, dir, gate.Options{Allow: []string{"*"}})
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), plugins...)
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("watch"))
	b.AwaitState(id, "a line", func(s *projector.State) bool { return len(s.Monitors) == 1 && s.Monitors[0].Events == 1 })
	kill()
	docs := filepath.Join(dir, "docs")
	runtest.WantError(t, "move", os.Rename(docs, docs+".old"), nil)
	runtest.WantError(t, "link", os.Symlink("prod", docs), nil)
	b.StartNode(plugins...)
	runtest.Contains(t, "error", b.AwaitMonitor(id, "m", events.MonitorFailed).LastError, "docs leads to prod")
	_, err := os.Stat(filepath.Join(dir, "prod", "ran"))
	runtest.Equal(t, "it ran elsewhere", err == nil, false)
}
