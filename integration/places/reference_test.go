package places

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// broken names, in the environment of a test, what does nothing.
const broken = "LASH_BROKEN"

// breaks says what does the work of a symbol that is no function, or of all methods of an interface: FOLDER.TYPE.METHOD.
var breaks = map[string][]string{
	"CatalogHost": {"session.Host"}, "GraphHost": {"session.Host"}, "SnapshotHost": {"session.runtimeHost"}, "CompletionHost": {"session.runtimeHost"},
	"ToolStateHost": {"session.runtimeHost", "session.Host"}, "LifecycleHost": {"session.runtimeHost", "session.Host"}, "TurnHost": {"session.runtimeHost"},
	"TaskHost": {"session.runtimeHost", "session.Host", "session/internal/reader.Reader"}, "MonitorHost": {"session.runtimeHost", "session.Host"}, "TraceHost": {"session.runtimeHost"},
	"BodyHost": {"session.runtimeHost"}, "ClockHost": {"session.runtimeHost"}, "OutputHost": {"session/internal/reader.Reader"}, "TimerHost": {"session.Host"},
	"Protocol": {"session/plugin.containedProtocol"}, "CodeExecutor": {"workers/builtin/code.executor"}, "Driver": {"session/plugin.Stack"},

	"BuildContext.Extensions": {"session/plugin.Builder.extensions"}, "BuilderConfig.Probe": {"session/plugin.containFor"}, "CatalogKey": {"session/plugin.Stack.keyLocked"},
	"CatalogEntry.Tools": {"session/plugin.lists.of"}, "CatalogEntry.Preamble": {"session/plugin.Stack.Preamble"}, "ExecContext": {"workers/internal/call.dispatch.execContext"},
	"api.PluginsFork": {"session.creation.inherited"},
	"wire.Registered": {"session/plugin/remote.Instance.registered"}, "wire.HookCall": {"session/plugin/remote.Instance.hook"}, "wire.Call": {"session/plugin/remote.Instance.call"},
	"wire.Cancel": {"session/plugin/remote.Instance.cancelCall"}, "wire.SessionStart": {"session/plugin/remote.Instance.startSession"}, "wire.Idle": {"session/plugin/remote.Instance.idle"},
}

// more are the methods of a plugin's host that the reference lacks, and the tests that fail without them.
var more = map[string]string{
	"BodyHost.StoreBody": "X24", "BodyHost.ReadBody": "P33", "ClockHost.Now": "T33", "OutputHost.ToolOutput": "integration/system.TestBudget",
	"TimerHost.ResolveAt": "integration/system.TestTimerWait", "TurnHost.AnswerByTurn": "integration/system.TestSmokeSubagent",
	"ToolStateHost.ToolSources": "integration/system.TestToolSourceElsewhere", "ToolStateHost.AddToolSource": "integration/system.TestToolSourceElsewhere",
	"ToolStateHost.RemoveToolSource": "integration/system.TestToolSourceElsewhere", "ToolStateHost.RefreshCatalog": "integration/system.TestHostCatalogRefreshed",
}

// TestLongReferenceRowsAreTested has each method that REFERENCE.md names, and each other one of a plugin's host, do nothing, and wants its test to fail.
func TestLongReferenceRowsAreTested(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../session/plugin/REFERENCE.md")
	runtest.WantError(t, "table", err, nil)
	tests := make(map[string][]string) // by symbol
	for _, cells := range regexp.MustCompile("(?m)^\\| `[^`]+` \\| `([^`]+)` \\| .+ \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(table), -1) {
		if !slices.Contains(tests[cells[1]], cells[2]) {
			tests[cells[1]] = append(tests[cells[1]], cells[2])
		}
	}
	for symbol, test := range more {
		tests[symbol] = []string{test}
	}
	symbols, host := slices.Collect(maps.Keys(tests)), reflect.TypeFor[plugin.RuntimeHost]()
	for i := range host.NumMethod() {
		name := host.Method(i).Name
		if !slices.ContainsFunc(symbols, func(s string) bool { return strings.HasSuffix(s, "Host."+name) }) {
			t.Errorf("%s of a plugin's host: got no test", name)
		}
	}
	programs := buildBroken(t, tests)
	limit := errgroup.Group{}
	limit.SetLimit(12 * runtime.GOMAXPROCS(0)) // many wait for what does not come
	for symbol, list := range tests {
		for _, test := range list {
			limit.Go(func() error {
				dir, pattern := runOf(test)
				cmd := exec.CommandContext(t.Context(), programs[dir], "-test.run", pattern, "-test.timeout", "60s")
				cmd.Dir, cmd.Env = filepath.Join("../..", dir), append(os.Environ(), "LASH_LONG=1", broken+"="+symbol)
				cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, time.Second
				if out, err := cmd.CombinedOutput(); err == nil {
					t.Errorf("%s does nothing, and %s passes: %s", symbol, test, bytes.TrimSpace(out))
				}
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // programs of a test that ended early
				return nil
			})
		}
	}
	_ = limit.Wait() // it has no errors
}

// runOf is the folder of a test, and the pattern of its name.
func runOf(test string) (dir, pattern string) {
	at := strings.LastIndex(test, ".")
	if at < 0 {
		return "integration/catalogue", "^TestCatalogue$/^" + test + "_"
	}
	name, of, _ := strings.Cut(test[at+1:], "/")
	if of != "" {
		of = "/^" + of + "_"
	}
	return test[:at], "^" + name + "$" + of
}

// buildBroken builds the tests with code that does nothing where the environment says so.
func buildBroken(t *testing.T, tests map[string][]string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	replaced, programs := breakAll(t, dir, slices.Sorted(maps.Keys(tests))), make(map[string]string)
	data, err := json.Marshal(map[string]any{"Replace": replaced})
	runtest.WantError(t, "overlay", err, nil)
	overlay := filepath.Join(dir, "overlay.json")
	runtest.WantError(t, "overlay", os.WriteFile(overlay, data, 0o600), nil)
	for _, list := range tests {
		for _, test := range list {
			folder, _ := runOf(test)
			if programs[folder] != "" {
				continue
			}
			programs[folder] = filepath.Join(dir, strings.ReplaceAll(folder, "/", "-")+".test")
			out, err := harness.Go(t.Context(), "test", "-C", "../..", "-c", "-vet=off", "-overlay", overlay, "-o", programs[folder], "./"+folder).CombinedOutput()
			if err != nil {
				t.Fatalf("build: %v: %s", err, out)
			}
		}
	}
	return programs
}

// breakAll writes the files that have the symbols, with an early return in each, and returns their new names.
func breakAll(t *testing.T, dir string, symbols []string) map[string]string {
	t.Helper()
	wanted := make(map[string][]string) // symbols by what does their work
	for _, symbol := range symbols {
		for _, at := range workers(symbol) {
			wanted[at] = append(wanted[at], symbol)
		}
	}
	folders := make(map[string]bool)
	for at := range wanted {
		folder, _, _ := strings.Cut(at, ".")
		folders[folder] = true
	}
	folders["session/internal/stack"], folders["workers/internal/call"] = true, true // they make what plugins get
	found, replaced := make(map[string]bool), make(map[string]string)
	for folder := range folders {
		files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
		runtest.WantError(t, "files", err, nil)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text := breakFile(t, folder, name, wanted, symbols, found)
			if text == nil {
				continue
			}
			full, err := filepath.Abs(name)
			runtest.WantError(t, "file", err, nil)
			replaced[full] = filepath.Join(dir, strings.ReplaceAll(folder, "/", "-")+"-"+filepath.Base(name))
			runtest.WantError(t, "file", os.WriteFile(replaced[full], text, 0o600), nil)
		}
	}
	for _, symbol := range symbols {
		if !found[symbol] {
			t.Errorf("%s: got nothing that does its work", symbol)
		}
	}
	return replaced
}

// workers are the functions that do the work of a symbol.
func workers(symbol string) []string {
	if list := breaks[symbol]; list != nil {
		return list
	}
	of, method, isMethod := cutLast(symbol)
	if list := breaks[of]; list != nil {
		var all []string
		for _, typ := range list {
			all = append(all, typ+"."+method)
		}
		return all
	}
	for prefix, folder := range map[string]string{"session.": "session", "projector.": "projector"} {
		if name, ok := strings.CutPrefix(symbol, prefix); ok && isMethod {
			return []string{folder + "." + name}
		}
	}
	return []string{"session/plugin." + symbol}
}

func cutLast(s string) (before, after string, ok bool) {
	at := strings.LastIndex(s, ".")
	if at < 0 {
		return "", s, false
	}
	return s[:at], s[at+1:], true
}

// breakFile is a file with an early return in each function that does the work of a symbol, and with no value for the fields that are
// symbols; nil: it has none of them.
func breakFile(t *testing.T, folder, name string, wanted map[string][]string, symbols []string, found map[string]bool) []byte {
	t.Helper()
	source, err := os.ReadFile(name)
	runtest.WantError(t, "file", err, nil)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, 0)
	runtest.WantError(t, "parse", err, nil)
	added, wrapper := make(map[int]string), "broken_"+strings.TrimSuffix(filepath.Base(name), ".go") // by offset
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	text := func(n ast.Node) string { return string(source[at(n.Pos()):at(n.End())]) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			for _, symbol := range wanted[folder+"."+nameOfFunc(n)] {
				found[symbol] = true
				added[at(n.Body.Lbrace)+1] += fmt.Sprintf("if brokenos.Getenv(%q) == %q { return %s };", broken, symbol, zeros(n, text))
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok || n.Type == nil {
					continue
				}
				symbol := strings.TrimPrefix(text(n.Type), "plugin.") + "." + text(kv.Key)
				if slices.Contains(symbols, symbol) && breaks[symbol] == nil {
					found[symbol] = true
					added[at(kv.Value.Pos())] += fmt.Sprintf("%s(%q, ", wrapper, symbol)
					added[at(kv.Value.End())] += ")"
				}
			}
		}
		return true
	})
	if len(added) == 0 {
		return nil
	}
	added[at(file.Name.End())] = "; import brokenos \"os\""
	added[len(source)] += "\nvar _ = brokenos.Getenv\n"
	added[len(source)] += fmt.Sprintf("func %s[T any](name string, v T) T { if brokenos.Getenv(%q) == name { v = *new(T) }; return v }\n", wrapper, broken)
	var out []byte
	last := 0
	for _, offset := range slices.Sorted(maps.Keys(added)) {
		out = append(append(out, source[last:offset]...), added[offset]...)
		last = offset
	}
	return append(out, source[last:]...)
}

func nameOfFunc(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if g, ok := of.(*ast.IndexExpr); ok {
		of = g.X
	}
	return of.(*ast.Ident).Name + "." + d.Name.Name
}

// zeros are the zero values of a function's results.
func zeros(d *ast.FuncDecl, text func(ast.Node) string) string {
	if d.Type.Results == nil {
		return ""
	}
	var list []string
	for _, f := range d.Type.Results.List {
		for range max(len(f.Names), 1) {
			list = append(list, "*new("+text(f.Type)+")")
		}
	}
	return strings.Join(list, ", ")
}
