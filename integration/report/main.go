// Command report reads the output of go test -json and says what a person needs of it: each package as it ends, the output of
// what failed, and the number of tests. It fails where a test failed, where other tests were skipped than the list says, and
// where one package took more than its share of the processor time.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/lash-go/lash/"

func main() {
	skips := flag.String("skips", "", "`file` of the tests that may be skipped, one a line: package, test, and what it needs: chromium, npm or root; compared where it is set")
	times := flag.String("times", "", "`file` that .ci/timed has written: processor seconds and folder of each package's tests")
	failed := flag.String("failed", "", "`file` for the tests that failed, one a line: package and test; it gets none where anything else is wrong")
	share := flag.Float64("share", 0.1, "most of the processor time that one package may take, where -times is set")
	flag.Parse()
	r := newReport(os.Stdout)
	err := r.read(os.Stdin)
	if err == nil && *skips != "" {
		err = r.compareSkips(*skips, absent())
	}
	if err == nil && *times != "" {
		err = r.compareTimes(*times, *share)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(2)
	}
	good := r.end()
	if *failed != "" {
		if err := os.WriteFile(*failed, []byte(strings.Join(r.again(), "")), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			os.Exit(2)
		}
	}
	if !good {
		os.Exit(1)
	}
}

// again are the tests to run again, one a line; none where a test alone is not what is wrong: a build, a list, a race, the end of a process.
func (r *report) again() []string {
	tests, packages := make(map[string]bool), make(map[string]bool)
	for _, key := range r.failed {
		if name, test, ok := strings.Cut(key, " "); ok {
			top, _, _ := strings.Cut(test, "/")
			tests[module+name+" "+top+"\n"], packages[name] = true, true
		}
	}
	if slices.ContainsFunc(r.failed, func(key string) bool { return !strings.Contains(key, " ") && !packages[key] }) || len(r.problems) > 0 || r.raced {
		return nil
	}
	return slices.Sorted(maps.Keys(tests))
}

// absent are the reasons for which tests are skipped here.
func absent() map[string]bool {
	_, err := exec.LookPath("chromium")
	return map[string]bool{"chromium": err != nil, "npm": os.Getenv("LASH_NODE_MODULES") == "", "root": os.Getuid() != 0}
}

// event is a line of go test -json, as go doc test2json has it.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

type report struct {
	to       io.Writer
	output   map[string][]string // of packages, and of tests that have not ended
	passed   int
	failed   []string
	skipped  []string
	problems []string
	raced    bool // a test failed by a race, which another run may not show
}

func newReport(to io.Writer) *report { return &report{to: to, output: make(map[string][]string)} }

func (r *report) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for lines.Buffer(nil, 64<<20); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil { // a line that go test itself prints
			_, _ = fmt.Fprintln(r.to, lines.Text())
			continue
		}
		r.take(&e)
	}
	return lines.Err()
}

func (r *report) take(e *event) {
	name := strings.TrimPrefix(cmp.Or(e.Package, e.ImportPath), module)
	key := strings.TrimSuffix(name+" "+e.Test, " ")
	switch e.Action {
	case "output", "build-output":
		r.output[key] = append(r.output[key], e.Output)
		return
	case "pass":
		if e.Test != "" {
			r.passed++
		} else {
			_, _ = fmt.Fprintf(r.to, "ok  %s %.1fs\n", name, e.Elapsed)
		}
	case "skip":
		if e.Test != "" {
			r.skipped = append(r.skipped, key)
		}
	case "fail", "build-fail":
		r.failed = append(r.failed, key)
		r.raced = r.raced || slices.ContainsFunc(r.output[key], func(line string) bool { return strings.Contains(line, "race detected during execution of test") })
		_, _ = fmt.Fprintf(r.to, "FAIL %s %.1fs\n%s", key, e.Elapsed, strings.Join(r.output[key], ""))
		for _, running := range slices.Sorted(maps.Keys(r.output)) { // tests that the end of their process interrupted
			if e.Test == "" && strings.HasPrefix(running, name+" ") {
				_, _ = fmt.Fprintf(r.to, "ran until then: %s\n%s", running, strings.Join(r.output[running], ""))
				delete(r.output, running)
			}
		}
	default:
		return
	}
	delete(r.output, key)
}

// compareSkips compares the skipped tests with those of the list whose reason is absent.
func (r *report) compareSkips(file string, absent map[string]bool) error {
	list, err := os.ReadFile(file) //nolint:gosec // the command line names it
	if err != nil {
		return err
	}
	want := make(map[string]bool)
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 3 {
			return fmt.Errorf("%s: %q: want a package, a test and what it needs", file, strings.TrimSpace(line))
		}
		gone, known := absent[fields[2]]
		if !known {
			return fmt.Errorf("%s: %q: want one of %v", file, fields[2], slices.Sorted(maps.Keys(absent)))
		}
		if gone {
			want[fields[0]+" "+fields[1]] = true
		}
	}
	for _, test := range r.skipped {
		if !want[test] {
			r.problems = append(r.problems, "skipped, and not in "+file+" with a reason that holds here: "+test)
		}
		delete(want, test)
	}
	for _, test := range slices.Sorted(maps.Keys(want)) {
		r.problems = append(r.problems, "in "+file+", and not skipped: "+test)
	}
	return nil
}

// compareTimes fails where one package took more than its share of the processor time, and prints the five that took the most.
func (r *report) compareTimes(file string, share float64) error {
	data, err := os.ReadFile(file) //nolint:gosec // the command line names it
	if err != nil {
		return err
	}
	type spent struct {
		seconds float64
		in      string
	}
	var list []spent
	sum := 0.0
	for line := range strings.Lines(string(data)) {
		var s spent
		if _, err := fmt.Sscan(line, &s.seconds, &s.in); err != nil {
			return fmt.Errorf("%s: %q: %w", file, line, err)
		}
		sum += s.seconds
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b spent) int { return cmp.Compare(b.seconds, a.seconds) })
	_, _ = fmt.Fprintf(r.to, "tests ran for %.0f s of processor time in %d packages\n", sum, len(list))
	for i, s := range list {
		if s.seconds > share*sum {
			r.problems = append(r.problems, fmt.Sprintf("%s takes %.1f s of processor time, more than %.0f %% of all", s.in, s.seconds, share*100))
		}
		if i < 5 {
			_, _ = fmt.Fprintf(r.to, "%6.1f s %s\n", s.seconds, s.in)
		}
	}
	return nil
}

// end prints the sums, and reports whether all is well.
func (r *report) end() bool {
	for _, problem := range r.problems {
		_, _ = fmt.Fprintln(r.to, "PROBLEM", problem)
	}
	_, _ = fmt.Fprintf(r.to, "%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), len(r.skipped))
	return len(r.failed)+len(r.problems) == 0 && r.passed > 0
}
