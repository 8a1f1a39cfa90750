package sim

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// match is a function of the package of tasks: "TYPE.METHOD" or "FUNCTION". The simulation has one of the same name that
// makes the same calls in the same order, as far as [matched] names them. Calls of packages turn and follow all count.
type match struct {
	real  string
	sim   string   // its name in the simulation, where that is another one
	skips []string // calls of real that sim lacks at this place: each leaves out one, the first
	adds  []string // the same for sim
	loose bool     // the steps differ; only the names are compared
}

// matched is what the simulation has of a package.
type matched struct {
	same    []string          // calls with the same name in the package and in the simulation
	others  map[string]string // calls of the package for which the simulation calls another part of the product, or of its world
	omitted []string          // methods and functions that the simulation does not have
	list    []match
}

// tasksInWorkers is the folder of the package of tasks.
const tasksInWorkers = "../../workers/internal/task/*.go"

// matches is what the simulation has of it.
var matches = matched{
	same: []string{
		"ackWake", "cancelledCall", "gone", "hint.TaskNeedsWorker", "launch", "move", "resolveCall", "resolveEnded", "returnWake", "startTask", "takeOver",
	},
	others: map[string]string{"AbandonTask": "task.Abandon", "CancelClaimedTask": "task.Cancel", "ClaimTask": "task.ClaimFor"},
	omitted: []string{
		"abandonFailing", "adopt", "leaveToOwner", "listen", "newRun", "notify", "passCancelOn", "reserve", "resolve", "resolveLost",
		"unlistLocked", "unreserve",
	},
	list: []match{
		{real: "Service.decide", sim: "taskRun.decide"},
		{real: "Service.takeOver", sim: "taskRun.takeOver"},
		{real: "Service.startTask", sim: "taskRun.startTask"},
		{real: "Service.resolveEnded", sim: "taskRun.resolveEnded", skips: []string{"turn.ToolEffect"}},
		{real: "taskRun.compare", skips: []string{"ackWake"}}, // an erased session
		{real: "taskRun.move", skips: []string{"ackWake"}},
		{real: "Service.gone", sim: "taskRun.gone", loose: true},
		{real: "taskRun.endMonitor", loose: true},
		{real: "taskRun.finish", loose: true},
		{real: "taskRun.record", loose: true},
		{real: "taskRun.report", loose: true},
		{real: "taskRun.storeWake", loose: true},
	},
}

// nameOf is the name in the simulation of a call of the package; it has none of a call that does not count.
func (m *matched) nameOf(real string) (sim string, has bool) {
	if slices.Contains(m.same, real) || implied(real) {
		return real, true
	}
	sim, has = m.others[real]
	return sim, has
}

// counts reports whether a call of the simulation stands for one of the package.
func (m *matched) counts(sim string) bool {
	return implied(sim) || slices.Contains(m.same, sim) || slices.Contains(slices.Collect(maps.Values(m.others)), sim)
}

// functions are the functions and methods of a package.
type functions map[string]*ast.FuncDecl

// read parses the files that a pattern names, without or only with tests. old is replaced by text in each.
func read(t *testing.T, pattern string, tests bool, old, text string) functions {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: got %v, %v", pattern, names, err)
	}
	f, changed := make(functions), old == ""
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		source, err := os.ReadFile(name) //nolint:gosec // a file of this module
		if err != nil {
			t.Fatal(err)
		}
		changed = changed || strings.Contains(string(source), old)
		file, err := parser.ParseFile(token.NewFileSet(), name, strings.ReplaceAll(string(source), old, text), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				f[receiver(fn, true)+fn.Name.Name] = fn
			}
		}
	}
	if !changed {
		t.Fatalf("%s: no file has %q", pattern, old)
	}
	return f
}

// receiver is the type of a method's receiver with a dot, or the receiver's name. Empty for a function.
func receiver(fn *ast.FuncDecl, typ bool) string {
	if fn.Recv == nil {
		return ""
	}
	field := fn.Recv.List[0]
	if !typ {
		return fmt.Sprint(field.Names[0])
	}
	star, ok := field.Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	return fmt.Sprint(star.X) + "."
}

// step is a call, or another use of a name of the packages of decisions.
type step struct {
	name string
	own  string // key of a method of the receiver, or of a function, if the package has it
	end  token.Pos
}

// decisions are packages whose names count with the package.
var decisions = []string{"turn", "follow", "task", "hint"}

// steps are the steps of a function in the order of their execution: arguments before the call.
func steps(fn *ast.FuncDecl) (list []step) {
	ends := make(map[ast.Expr]token.Pos) // of the calls and literals with that function or type
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			ends[n.Fun] = n.End()
			if name, ok := n.Fun.(*ast.Ident); ok {
				list = append(list, step{name.Name, name.Name, n.End()})
			}
		case *ast.CompositeLit:
			ends[n.Type] = n.End()
		case *ast.SelectorExpr:
			x, plain := n.X.(*ast.Ident)
			end, used := ends[n]
			switch {
			case plain && slices.Contains(decisions, x.Name):
				list = append(list, step{x.Name + "." + n.Sel.Name, "", max(end, n.End())})
			case used && plain && x.Name == receiver(fn, false):
				list = append(list, step{n.Sel.Name, receiver(fn, true) + n.Sel.Name, end})
			case used:
				list = append(list, step{n.Sel.Name, "", end})
			}
		}
		return true
	})
	slices.SortStableFunc(list, func(a, b step) int { return int(a.end - b.end) })
	return list
}

// implied reports whether a name counts without an entry in [matched].
func implied(name string) bool {
	return strings.HasPrefix(name, "turn.") || strings.HasPrefix(name, "follow.")
}

// differences compares a package with the simulation.
func (m *matched) differences(real, sim functions) (list []string) {
	known := make(map[string]bool) // methods and functions of the package without their type
	for name := range real {
		known[name[strings.Index(name, ".")+1:]] = true
	}
	for _, name := range slices.Concat(m.same, slices.Collect(maps.Keys(m.others))) {
		if own := !ast.IsExported(name) && !strings.Contains(name, "."); own && !known[name] {
			list = append(list, name+" is matched, and does not exist")
		}
	}
	for _, name := range m.omitted {
		if !known[name] {
			list = append(list, name+" is omitted, and does not exist")
		}
	}
	for _, pair := range m.list {
		pair.sim = cmp.Or(pair.sim, pair.real)
		switch {
		case real[pair.real] == nil:
			list = append(list, pair.real+" does not exist: the simulation has "+pair.sim+" for it")
		case sim[pair.sim] == nil:
			list = append(list, pair.sim+" does not exist in the simulation: it matches "+pair.real)
		case !pair.loose:
			list = append(list, m.compare(&pair, real, steps(sim[pair.sim]))...)
		}
	}
	return list
}

// compare compares the steps of a function with those of the simulation.
func (m *matched) compare(pair *match, real functions, sim []step) (list []string) {
	var want, got []string
	skips, adds := slices.Clone(pair.skips), slices.Clone(pair.adds)
	for _, s := range steps(real[pair.real]) {
		name, has := m.nameOf(s.name)
		switch i := slices.Index(skips, s.name); {
		case i >= 0:
			skips = slices.Delete(skips, i, i+1)
		case has:
			want = append(want, name)
		case real[s.own] != nil && !slices.Contains(m.omitted, s.name):
			list = append(list, pair.real+" calls "+s.name+", which the simulation neither has nor omits")
		}
	}
	for _, s := range sim {
		if i := slices.Index(adds, s.name); i >= 0 {
			adds = slices.Delete(adds, i, i+1)
		} else if m.counts(s.name) {
			got = append(got, s.name)
		}
	}
	if len(skips)+len(adds) > 0 || !slices.Equal(want, got) {
		list = append(list, fmt.Sprintf("%s and %s differ, without %v and %v:\n\treal %v\n\tsim  %v", pair.real, pair.sim, skips, adds, want, got))
	}
	return list
}

// TestSimulationMatchesTasks compares the decisions of the simulation with those of package workers/internal/task, in its
// source. After a change of these, change the simulation too, or write down in [matches] what it leaves out.
func TestSimulationMatchesTasks(t *testing.T) {
	t.Parallel()
	sim := read(t, "*.go", true, "", "")
	for _, d := range matches.differences(read(t, tasksInWorkers, false, "", ""), sim) {
		t.Error(d)
	}
}

// TestChangedDecisionIsNoticed changes decisions of the package. Each change is a difference.
func TestChangedDecisionIsNoticed(t *testing.T) {
	t.Parallel()
	sim := read(t, "*.go", true, "", "")
	for _, c := range []struct{ old, text string }{
		{"case !hint.TaskNeedsWorker(&rec), ", "case "},
		{"func (r *taskRun) storeWake(", "func (r *taskRun) keepWake("},
	} {
		if got := matches.differences(read(t, tasksInWorkers, false, c.old, c.text), sim); len(got) == 0 {
			t.Errorf("%q instead of %q: got no difference", c.text, c.old)
		}
	}
}
