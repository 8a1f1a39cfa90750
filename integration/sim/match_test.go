package sim

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// match is a function of a package of workers, and the one of the simulation for it: "TYPE.METHOD" or "FUNCTION".
// Both make the same calls in the same order, as far as the names of [matched] say. Calls of packages turn and follow
// all count.
type match struct {
	real, sim string
	skips     []string // calls of real that sim lacks at this place: each leaves out one, the first
	adds      []string // the same for sim
	loose     bool     // the steps differ; only the names are compared
}

// matched is what the simulation has of a package of workers.
type matched struct {
	names   map[string]string // calls in the package, and the same in the simulation
	omitted []string          // methods and functions that the simulation does not have
	list    []match
}

// matches are the packages of workers by folder.
var matches = map[string]matched{
	"run": {
		names: map[string]string{
			"AppendAs": "Append", "Last": "Last", "SetTimer": "setTimer", "TakeState": "cached",
			"add": "add", "flushOrDo": "byItself", "branchOff": "branchOff", "branching": "turn.Branching", "catchUp": "catchUp",
			"checkEffect": "isCurrent", "claim": "claim", "claimNext": "claimNext", "commit": "commit", "committed": "committed",
			"handleResult": "complete", "decide": "decide", "endForStop": "handOver", "fail": "giveUp", "flush": "flush", "giveUp": "giveUp",
			"hasNewEffect": "starts", "hasPrompt": "prompts", "hasStartedCall": "hasOpenCall", "isAged": "aged", "isOurs": "ours",
			"logMovedLocked": "markMoved", "foldNextCommit": "turn.NeedsWorker", "promptOf": "turn.Reply", "readLog": "catchUp", "record": "record",
			"handleRecordRequest": "recordFact", "release": "release", "removeInflight": "removeInflight", "renewState": "renew", "rest": "checkEndOfLog",
			"rollBack": "rollBack", "setClaim": "claimAs", "start": "start", "step": "stepMachine", "stepAgain": "redo", "stop": "stopTurn",
			"takeOver": "takeOver", "transferOrTakeOver": "meet", "yield": "yields",
		},
		omitted: []string{
			// plugins
			"abandoned", "checkPatience", "closeStack", "declared", "discard", "extraOf", "notificationReturned", "notifiedEvents", "notifyPlugins",
			"openStack", "providerIssue", "reopen", "restoreStack", "stackCommitted", "unsaved",
			// bodies, and events that the log rejects
			"checkInput", "endIfRejected", "first",
			// goroutines, clocks and the log of the program: the world has its own
			"callsRecorded", "cancelEffects", "currentWake", "logCommit", "now", "reportProgress", "setClaimEarly", "signal", "tick",
			// parts of a step
			"endTransferred", "reachedFairShare", "runsElsewhere", "unlessStale",
		},
		list: []match{
			{real: "run.advanceOnce", sim: "run.advance"},
			{real: "run.flushOrDo", sim: "run.byItself"},
			{real: "run.rest", sim: "run.checkEndOfLog", skips: []string{"record", "endForStop"}},
			{real: "run.end", sim: "run.setTimer"},
			{real: "run.step", sim: "run.stepMachine"},
			{real: "run.decide", sim: "run.decide"},
			{real: "run.record", sim: "run.record"},
			{real: "run.flush", sim: "run.flush"},
			{real: "run.stepAgain", sim: "run.redo"},
			{real: "run.committed", sim: "run.committed", adds: []string{"claimAs"}}, // setClaimEarly does it
			{real: "run.rollBack", sim: "run.rollBack"},
			{real: "run.claimNext", sim: "run.claimNext", skips: []string{"giveUp", "add"}},
			{real: "run.transferOrTakeOver", sim: "run.meet"},
			{real: "run.takeOver", sim: "run.takeOver", skips: []string{"giveUp", "fail"}},
			{real: "run.fail", sim: "run.giveUp"},
			{real: "run.release", sim: "run.release"},
			{real: "run.claim", sim: "run.claim", skips: []string{"turn.Claim"}},
			{real: "run.wait", sim: "run.wait"},
			{real: "run.catchUp", sim: "run.catchUp"},
			{real: "run.renewState", sim: "run.renew"},
			{real: "run.stop", sim: "run.stopTurn", skips: []string{"handleRecordRequest", "turn.Next"}},
			{real: "run.hasNewEffect", sim: "run.starts"},
			{real: "run.handleRecordRequest", sim: "run.recordFact", skips: []string{"isAged"}},
			{real: "run.checkEffect", sim: "run.isCurrent", skips: []string{"turn.ErrStale"}},
			{real: "run.load", sim: "run.load", skips: []string{"follow.Whole"}},
			{real: "run.dropTurn", sim: "run.forget"},
			{real: "run.replaceWakeLocked", sim: "run.receive"},
			{real: "unlessStale", sim: "unlessStale"},
			{real: "run.branchOff", sim: "run.branchOff", loose: true},
			{real: "run.handleResult", sim: "run.complete", loose: true},
			{real: "run.removeInflight", sim: "run.removeInflight", loose: true},
			{real: "run.start", sim: "run.start", loose: true},
			{real: "Pool.finish", sim: "run.returnWake", loose: true},
			{real: "Pool.respond", sim: "node.receiveWake", loose: true},
			{real: "Pool.NeedsWorker", sim: "node.hinted", loose: true},
			{real: "Pool.Drain", sim: "node.drain", loose: true},
		},
	},
	"task": {
		names: map[string]string{
			"AbandonTask": "task.Abandon", "CancelTaskAs": "task.Cancel", "ClaimTask": "task.ClaimFor", "hint.TaskNeedsWorker": "hint.TaskNeedsWorker",
			"ackWake": "finishWake", "cancelledCall": "cancelledCall", "gone": "workerGone", "launch": "launch", "move": "moves",
			"resolveCall": "resolve", "resolveEnded": "resolveEnded", "returnWake": "nak", "startTask": "begin", "takeOver": "takeOver",
		},
		omitted: []string{
			"abandonFailing", "adopt", "cancelChild", "leaveToOwner", "listen", "newRun", "notify", "reserve", "resolve", "resolveLost",
			"unlistLocked", "unreserve",
		},
		list: []match{
			{real: "Service.decide", sim: "taskRun.decideOnWake"},
			{real: "Service.takeOver", sim: "taskRun.takeOver"},
			{real: "Service.startTask", sim: "taskRun.begin"},
			{real: "Service.resolveEnded", sim: "taskRun.resolveEnded", skips: []string{"turn.ToolEffect"}},
			{real: "taskRun.compare", sim: "taskRun.compare", skips: []string{"ackWake"}}, // an erased session
			{real: "taskRun.move", sim: "taskRun.moves", skips: []string{"ackWake"}},
			{real: "Service.gone", sim: "taskRun.workerGone", loose: true},
			{real: "taskRun.endMonitor", sim: "taskRun.endMonitor", loose: true},
			{real: "taskRun.finish", sim: "taskRun.finish", loose: true},
			{real: "taskRun.record", sim: "taskRun.recordEnd", loose: true},
			{real: "taskRun.report", sim: "taskRun.report", loose: true},
			{real: "taskRun.storeWake", sim: "taskRun.receive", loose: true},
		},
	},
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

// implied reports whether a name counts without an entry in names.
func implied(name string) bool {
	return strings.HasPrefix(name, "turn.") || strings.HasPrefix(name, "follow.")
}

// differences compares a package with the simulation.
func (m *matched) differences(real, sim functions) (list []string) {
	known := make(map[string]bool) // methods and functions of the package without their type
	for name := range real {
		known[name[strings.Index(name, ".")+1:]] = true
	}
	for name := range m.names {
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
		name, has := m.names[s.name]
		switch i := slices.Index(skips, s.name); {
		case i >= 0:
			skips = slices.Delete(skips, i, i+1)
		case has:
			want = append(want, name)
		case implied(s.name):
			want = append(want, s.name)
		case real[s.own] != nil && !slices.Contains(m.omitted, s.name):
			list = append(list, pair.real+" calls "+s.name+", which the simulation neither has nor omits")
		}
	}
	for _, s := range sim {
		has := implied(s.name)
		for _, name := range m.names {
			has = has || name == s.name
		}
		if i := slices.Index(adds, s.name); i >= 0 {
			adds = slices.Delete(adds, i, i+1)
		} else if has {
			got = append(got, s.name)
		}
	}
	if len(skips)+len(adds) > 0 || !slices.Equal(want, got) {
		list = append(list, fmt.Sprintf("%s and %s differ, without %v and %v:\n\treal %v\n\tsim  %v", pair.real, pair.sim, skips, adds, want, got))
	}
	return list
}

// TestSimulationMatchesWorkers compares the decisions of the simulation with those of packages run and task, in their
// source. After a change of these, change the simulation too, or write down in [matches] what it leaves out.
func TestSimulationMatchesWorkers(t *testing.T) {
	t.Parallel()
	sim := read(t, "*.go", true, "", "")
	for name, m := range matches {
		for _, d := range m.differences(read(t, "../../workers/internal/"+name+"/*.go", false, "", ""), sim) {
			t.Errorf("package %s: %s", name, d)
		}
	}
}

// TestChangedDecisionIsNoticed changes decisions of the packages. Each change is a difference.
func TestChangedDecisionIsNoticed(t *testing.T) {
	t.Parallel()
	sim := read(t, "*.go", true, "", "")
	for _, c := range []struct{ pkg, old, text string }{
		{"run", "turn.Claimable(r.state)", "turn.NeedsWorker(r.state, now)"},
		{"run", "case r.hasNewEffect(needs) && r.logEnd.isAged(time.Now()):", "case r.hasNewEffect(needs):"},
		{"run", "if !r.logEnd.hasNews() {", "if !r.logEnd.hasNews() || r.releaseLate() {"},
		{"run", "func (r *run) dropTurn()", "func (r *run) drop()"},
		{"task", "case !hint.TaskNeedsWorker(&rec), ", "case "},
		{"task", "func (r *taskRun) storeWake(", "func (r *taskRun) keepWake("},
	} {
		m := matches[c.pkg]
		got := m.differences(read(t, "../../workers/internal/"+c.pkg+"/*.go", false, c.old, c.text), sim)
		if len(got) == 0 {
			t.Errorf("%q instead of %q: got no difference", c.text, c.old)
		}
	}
}
