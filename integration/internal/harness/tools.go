package harness

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/shell"
)

// WriteFiles writes files below a directory, by path and content.
func WriteFiles(t *testing.T, dir string, list map[string]string) {
	t.Helper()
	for name, content := range list {
		path := filepath.Join(dir, name)
		runtest.WantError(t, "make directory", os.MkdirAll(filepath.Dir(path), 0o700), nil)
		runtest.WantError(t, "write", os.WriteFile(path, []byte(content), 0o600), nil)
	}
}

// ReadFile is the content of a file.
func ReadFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	runtest.WantError(t, "read", err, nil)
	return string(data)
}

// FilesPlugin is the plugin of the file tools.
func FilesPlugin(t *testing.T, cfg files.Config) plugin.Factory {
	t.Helper()
	f, err := files.Factory(cfg)
	runtest.WantError(t, "files", err, nil)
	return f
}

// CallCase is a call of a tool, and the beginning of its result.
type CallCase = struct{ Tool, Args, Want string }

// CheckCalls runs a turn in which the model makes the calls in sequence, and compares the results that it receives.
func CheckCalls(t *testing.T, list []CallCase, factories ...plugin.Factory) (*System, events.SessionID) {
	t.Helper()
	var script []Step
	for i, c := range list {
		script = append(script, Reply(Call(events.CallID(rune('a'+i/26))+events.CallID(rune('a'+i%26)), c.Tool, c.Args)))
	}
	b := StartIdle(t, append(script, Reply(Text("done")))...)
	b.StartNode(factories...)
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", Text("go"))
	for i, c := range list {
		begin, open := strings.CutSuffix(c.Want, "…")
		if got := b.CallResult(id, string(rune('a'+i/26))+string(rune('a'+i%26))); got != c.Want && (!open || !strings.HasPrefix(got, begin)) {
			t.Errorf("%s %s: got %.300q, want %.300q", c.Tool, c.Args, got, c.Want)
		}
	}
	return b, id
}

// DeniedDir makes a directory with a file that rules will deny. It returns the paths of the file.
func DeniedDir(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	WriteFiles(t, dir, map[string]string{"x.env": "hidden\n", "private/key.txt": "hidden\n", "a/b/open.txt": "seen\n"})
	for name, to := range map[string]string{
		"link": "x.env", "chain": "link", "a/up": "../x.env", "absolute": filepath.Join(dir, "x.env"), "round": "a/b/../../x.env",
		"dir": "private", "dirs": "dir", "a/b/dir": "../../private", "here": ".", "a/here": "..",
	} {
		runtest.WantError(t, "link", os.Symlink(to, filepath.Join(dir, name)), nil)
	}
	return dir, []string{
		"x.env", "./x.env", "a/../x.env", ".//x.env", "X.env", "x.ENV", "link", "chain", "a/up", "a/b/../up", "absolute", "round", "here/x.env",
		"here/here/link", "a/here/x.env", "a/here/a/here/chain",
		"private/key.txt", "dir/key.txt", "dirs/key.txt", "a/b/dir/key.txt", "here/dirs/key.txt", "private/../dir/key.txt", "Private/Key.txt", "private/new", "dir/new",
	}
}

// ShellPlugin is the plugin of the shell tools.
func ShellPlugin(t *testing.T, cfg shell.Config) plugin.Factory {
	t.Helper()
	f, err := shell.Factory(cfg)
	runtest.WantError(t, "shell", err, nil)
	return f
}

// CallEach runs a turn that calls each tool once, in order, and returns the recorded results.
func CallEach(t *testing.T, b *System, tools ...string) []events.ToolResult {
	t.Helper()
	var calls []events.Part
	for _, name := range tools {
		calls = append(calls, Call("k", name, "{}"))
	}
	b.Model.Script = []Step{Reply(calls...), Reply(Text("done"))}
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", Text("go")).End, events.EndFinished)
	results := make([]events.ToolResult, len(tools))
	for _, p := range Find[*events.ToolReturned](b, id) {
		for _, r := range p.Results {
			r.Millis = 0
			results[r.Call] = r
		}
	}
	return results
}

// NamedTools registers tools that answer with their names.
func NamedTools(r plugin.ToolAdder, names ...string) {
	for _, name := range names {
		plugin.AddTool(r, plugin.Tool{Name: name}, func(context.Context, plugin.Call, struct{}) (string, error) { return name, nil })
	}
}

// OneNumber is the input of the tools that take one number.
type OneNumber struct {
	A int `json:"a"`
}

// BeforeCallPlugin is a plugin with a hook before tool calls.
func BeforeCallPlugin(id string, hook func(plugin.ToolContext) []plugin.Directive) plugin.Factory {
	return PluginOf(id, func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) { return hook(in), nil })
	})
}

// CountingTools is a plugin of tools that answer with their names and count their runs.
func CountingTools(runs *atomic.Int64, tools ...string) plugin.Factory {
	return PluginOf("answering", func(r *plugin.Registrar) {
		for _, name := range tools {
			plugin.AddTool(r, plugin.Tool{Name: name}, func(_ context.Context, _ plugin.Call, _ OneNumber) (string, error) {
				runs.Add(1)
				return "was " + name, nil
			})
		}
	})
}

// ResultsByPosition lists the results of a turn's calls, by position.
func (b *System) ResultsByPosition(id events.SessionID) []events.ToolResult {
	b.T.Helper()
	var list []events.ToolResult
	for _, p := range Find[*events.ToolReturned](b, id) {
		list = append(list, p.Results...)
	}
	slices.SortFunc(list, func(x, y events.ToolResult) int { return int(x.Call - y.Call) })
	return list
}

// AddTool adds the tool "add", which adds two numbers.
func AddTool(b *System, effects events.Effects) {
	plugin.AddTool(b.Tools, plugin.Tool{Name: "add", Effects: effects}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})
}

// OuterTool registers a repeatable tool that makes these calls, one by one.
func OuterTool(r plugin.ToolAdder, list ...plugin.NestedCall) {
	plugin.AddTool(r, plugin.Tool{Name: "outer", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
		all := ""
		for i := range list {
			got := c.Nested(ctx, i, list[i:i+1])[0]
			if got.Err != nil {
				return "", got.Err
			}
			all += "[" + got.Text + "]"
		}
		return all, nil
	})
}

// SourceOf is a source of tools that answer with their names.
func SourceOf(names ...string) plugin.SourceFunc {
	return func(context.Context) (*plugin.Tools, error) {
		set := plugin.NewTools()
		NamedTools(set, names...)
		return set, nil
	}
}

// AddSource adds a tool source to a session.
func (b *System) AddSource(id events.SessionID, source string) {
	b.T.Helper()
	_, err := b.AddToolSource(b.Ctx, id, source)
	runtest.WantError(b.T, "add "+source, err, nil)
}

// RemoveSource removes a tool source from a session.
func (b *System) RemoveSource(id events.SessionID, source string) {
	b.T.Helper()
	_, err := b.RemoveToolSource(b.Ctx, id, source)
	runtest.WantError(b.T, "remove "+source, err, nil)
}

// Contract is the contract of a recorded tool.
func (b *System) Contract(tool *events.ToolEntry) *events.Contract {
	b.T.Helper()
	list, err := blob.Contracts(b.Ctx, b.Bus, []events.ToolEntry{*tool}, nil)
	runtest.WantError(b.T, "contract", err, nil)
	return list[0].Look()
}
