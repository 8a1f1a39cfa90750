package places

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// addition is what CONTRIBUTING.md promises for a goal.
type addition struct {
	name  string   // of the file in testdata
	edits int      // at most; a file may have several
	files []string // that are edited or added, sorted
}

// additions has the goals of CONTRIBUTING.md by their words there.
var additions = map[string]addition{
	"a tool":           {"tool", 1, []string{"workers/builtin/greet/greet.go"}},
	"a model provider": {"provider", 2, []string{"workers/llm/echo/echo.go", "workers/llm/echo/echo_test.go"}},
	"a command":        {"command", 2, []string{"cmd/lash-node/hello.go", "cmd/lash-node/main.go"}},
	"a hook point": {"hook", 6, []string{
		"session/plugin/collect.go", "session/plugin/declare.go", "session/plugin/hook.go", "session/plugin/registrar.go", "workers/internal/call/attempt.go",
	}},
	"an operation that reads, answered by a node": {"operation", 7, []string{
		"integration/internal/servicetest/graph.go", "session/api/service.go", "session/doc.go", "session/nodecount.go",
		"session/operation/requests.go", "session/operation/table.go",
	}},
	"an operation that changes a session": {"change", 12, []string{
		"integration/system/clients_http_conflicts_test.go", "integration/system/clients_http_scope_test.go", "integration/internal/harness/http.go", "integration/internal/servicetest/graph.go", "integration/security/keys_cases_test.go",
		"integration/security/rights_test.go", "session/api/service.go", "session/doc.go", "session/effort.go",
		"session/operation/requests.go", "session/operation/table.go",
	}},
	"an event kind": {"kind", 11, []string{
		"events/FORMAT.md", "events/eventstest/gen.go", "events/kinds.go", "events/literals_test.go", "events/session.go",
		"events/testdata/golden/session.labelled.v1.hex", "projector/apply.go", "projector/golden_test.go", "projector/state.go",
	}},
}

// notAdded are the goals that no addition stands for.
var notAdded = map[string]string{
	"a hook, a prompt contribution, an action, a protocol, state": "the packages of examples show one each",
	"an operation that reads, answered from the history":          "the compiler asks for the methods of the reader and of the client",
	"a metric":                "a counter of one file",
	"a setting of the host":   "a field and its use",
	"a capability of plugins": "a method, which the compiler asks for",
	"a directive":             "its cases are in the tests of the directives there are",
}

// someKinds are the rows of places that not every event kind needs.
var someKinds = regexp.MustCompile(`^ (some kinds:|the kinds marked)`)

// promises reads the tables of CONTRIBUTING.md: by goal, patterns of the files that its table names, of files in folders that it
// names, and in packages of those. "the same" stands for all of the goal above.
func promises(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	runtest.WantError(t, "CONTRIBUTING.md", err, nil)
	_, tables, found := strings.Cut(string(text), "## Where new behaviour goes\n")
	runtest.Equal(t, "tables in CONTRIBUTING.md", found, true)
	quoted, list := regexp.MustCompile("(a package of )?`([^`]+)`"), make(map[string][]string)
	goal, above := "", ""
	for line := range strings.Lines(tables) {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			heading = strings.TrimSpace(heading)
			goal, above = strings.ToLower(heading[:1])+heading[1:], goal
			list[goal] = []string{}
		}
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "-") || someKinds.MatchString(cells[1]) {
			continue
		}
		if strings.Contains(cells[2], "the same") {
			list[goal] = slices.Clone(list[above])
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			info, err := os.Stat(filepath.Join(root, m[2]))
			switch {
			case err != nil: // a name in Go
			case m[1] != "":
				list[goal] = append(list[goal], m[2]+"/*/*")
			case info.IsDir():
				list[goal] = append(list[goal], m[2]+"/*")
			default:
				list[goal] = append(list[goal], m[2])
			}
		}
	}
	return list
}

// TestPlaces compares the tables of CONTRIBUTING.md with the additions: each file that an addition touches is named there, or is
// in a folder that is, and the addition touches everything that is named. No addition needs more edits than promised.
func TestPlaces(t *testing.T) {
	t.Parallel()
	named, all := promises(t), make(files)
	runtest.EqualLists(t, "goals", slices.Sorted(maps.Keys(named)), slices.Sorted(slices.Values(slices.Concat(
		slices.Collect(maps.Keys(additions)), slices.Collect(maps.Keys(notAdded))))))
	for goal, a := range additions {
		own, edits := make(files), 0
		for _, e := range additionOf(t, a.name) {
			all.apply(t, e)
			if !e.proof {
				own[e.file] = e.text
				edits++
			}
		}
		runtest.EqualLists(t, goal+": files", slices.Sorted(maps.Keys(own)), slices.Sorted(slices.Values(a.files)))
		runtest.Equal(t, goal+": edits", edits, a.edits)
		for file := range own {
			if !slices.ContainsFunc(named[goal], func(place string) bool { return within(file, place) }) {
				t.Errorf("%s: edits %s, and CONTRIBUTING.md names %v", goal, file, named[goal])
			}
		}
		for _, place := range named[goal] {
			if !slices.ContainsFunc(a.files, func(file string) bool { return within(file, place) }) {
				t.Errorf("%s: CONTRIBUTING.md names %s, where nothing is edited", goal, place)
			}
		}
	}
	all.formatted(t)
}

// within reports whether a file is of the place.
func within(file, place string) bool {
	ok, _ := path.Match(place, file) // the patterns are ours
	return ok
}

// golang runs the go command in the module and returns its output.
func golang(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := harness.Go(t.Context(), args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestLongAdditionsWork builds all additions at once, and runs the tests that show that each works.
func TestLongAdditionsWork(t *testing.T) {
	t.Parallel()
	all := make(files)
	for _, a := range additions {
		for _, e := range additionOf(t, a.name) {
			all.apply(t, e)
		}
	}
	overlay := all.overlay(t)
	for name, args := range map[string][]string{
		"event kind in commands": {"./cmd/lash-replay", "-run", "TestEveryLine"},
		"hook point":             {"./session/plugin"},
		"hook point in a turn":   {"./integration/system", "-run", "TestSmokeEveryHookRuns"},
		"operation over HTTP":    {"./session/httpapi", "./session/operation", "-run", "Test.*Routes|TestForms|TestRows|TestEncoding"},
		"operation in the suite": {"./integration/system", "-run", "Test(Service(Host|Client)|SmokeServiceHTTP)/(node_count|set_effort)|TestHTTPDocument"},
		"operation and rights":   {"./integration/security", "-run", "TestSmokeRightsOverNATS|TestReachOverNATS|TestSmokeKeysOfAll|TestLongKeyBelongsToItsRequest"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			args := append([]string{"test", "-overlay", overlay, "-timeout", "20m"}, args...)
			if out, err := golang(t, args...); err != nil || strings.Contains(out, "no tests to run") {
				t.Errorf("go %v: %v\n%s", args, err, out)
			}
		})
	}
	t.Run("event_kind", func(t *testing.T) {
		out, err := inFolder(t, all, overlay, "events", "TestGolden|TestKinds|TestEncoding")
		runtest.WantError(t, "tests of the format: "+out, err, nil)
		out, err = inFolder(t, all, overlay, "projector", "TestApplyEveryKind|TestFoldVersion|TestLabelled")
		runtest.WantError(t, "tests of the fold: "+out, err, nil)
	})
	t.Run("files_of_operations", func(t *testing.T) {
		out, err := inFolder(t, all, overlay, "session", "TestFilesAreListed")
		runtest.WantError(t, "list of files: "+out, err, nil)
	})
	t.Run("tool", func(t *testing.T) {
		out, err := inFolder(t, all, overlay, "workers/builtin/greet", "TestGreet")
		runtest.WantError(t, "turn with the tool: "+out, err, nil)
	})
	t.Run("provider", func(t *testing.T) {
		out, err := inFolder(t, all, overlay, "workers/llm/echo", "TestProvider")
		runtest.WantError(t, "suite of providers: "+out, err, nil)
	})
	t.Run("command", func(t *testing.T) {
		out, err := golang(t, "run", "-overlay", overlay, "./cmd/lash-node", "--help")
		runtest.WantError(t, "help", err, nil)
		runtest.Equal(t, "command in "+out, regexp.MustCompile(`hello +(\[flags\] +)?Print a line`).MatchString(strings.Join(strings.Fields(out), " ")), true)
	})
}

// inFolder runs tests of a package in a folder with its files and the changed ones, because tests read files, and an
// overlay is of the go command only. Without vet, which needs the folder of a new package.
func inFolder(t *testing.T, changed files, overlay, pkg, tests string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	out, err := golang(t, "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./"+pkg)
	runtest.WantError(t, "build "+out, err, nil)
	runtest.WantError(t, "folder", os.MkdirAll(filepath.Join(dir, pkg), 0o700), nil)
	if _, err := os.Stat(filepath.Join(root, pkg)); err == nil {
		runtest.WantError(t, "copy", os.CopyFS(filepath.Join(dir, pkg), os.DirFS(filepath.Join(root, pkg))), nil)
	}
	for name, data := range changed {
		if strings.HasPrefix(name, pkg+"/") {
			runtest.WantError(t, name, os.WriteFile(filepath.Join(dir, name), data, 0o600), nil)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run", tests) //nolint:gosec // that was just built
	cmd.Dir = filepath.Join(dir, pkg)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// TestLongMissingPlaces leaves the other places of an addition out. The tests name what is missing.
func TestLongMissingPlaces(t *testing.T) {
	t.Parallel()
	some := make(files)
	for _, name := range []string{"kind", "hook", "operation", "change"} {
		for _, e := range additionOf(t, name) {
			only := []string{
				"events/kinds.go", "events/session.go", "session/plugin/hook.go", "session/plugin/registrar.go",
				"session/api/service.go", "session/nodecount.go", "session/effort.go", "session/operation/table.go", "session/operation/requests.go",
			}
			if slices.Contains(only, e.file) {
				some.apply(t, e)
			}
		}
	}
	overlay := some.overlay(t)
	wants := func(out string, err error, all ...string) {
		t.Helper()
		for _, want := range all {
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("got %v and no %q in %s", err, want, out)
			}
		}
	}
	out, err := inFolder(t, some, overlay, "events", "TestKinds")
	wants(out, err, "session.labelled has no literal", `FORMAT.md has no section "session.labelled v1"`, "session.labelled version 1 has no golden file", "session.labelled has no generator")
	out, err = inFolder(t, some, overlay, "projector", "TestApplyEveryKind|TestFoldVersion")
	wants(out, err, "session.labelled has no case in apply.go", "session.labelled is not in goldenHistory")
	out, err = golang(t, "test", "-overlay", overlay, "./integration/system", "-run", "TestSmokeEveryHookRuns")
	wants(out, err, "BeforeAttempt: got no call of its hook")
	out, err = golang(t, "test", "-overlay", overlay, "./integration/system", "-run", "TestServiceLateRepeat")
	wants(out, err, "node_count: got no repeat of it", "set_effort: got no repeat of it")
	out, err = golang(t, "test", "-overlay", overlay, "./session/plugin", "-run", "TestDeclaredFields")
	wants(out, err, "attempts: got movable false and the name \"\"")
	out, err = inFolder(t, some, overlay, "session", "TestFilesAreListed")
	wants(out, err, "nodecount.go", "effort.go")
	out, err = golang(t, "test", "-overlay", overlay, "./integration/system", "-run", "TestHTTPDocument")
	wants(out, err, "documented scope of setEffort")
	out, err = golang(t, "test", "-overlay", overlay, "./integration/security", "-run", "TestSmokeRightsOverNATS")
	wants(out, err, "set_effort")
	for _, e := range additionOf(t, "change") { // the keys follow from the rights
		if e.file == "integration/security/rights_test.go" {
			some.apply(t, e)
		}
	}
	out, err = golang(t, "test", "-overlay", some.overlay(t), "./integration/security", "-run", "TestSmokeKeysOfAll")
	wants(out, err, "set_effort")
}
