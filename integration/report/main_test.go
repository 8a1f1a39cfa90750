package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

const run = `{"Action":"output","Package":"github.com/lash-go/lash/a","Test":"TestBad","Output":"why\n"}
{"Action":"fail","Package":"github.com/lash-go/lash/a","Test":"TestBad","Elapsed":0.5}
{"Action":"pass","Package":"github.com/lash-go/lash/a","Test":"TestGood/sub"}
{"Action":"skip","Package":"github.com/lash-go/lash/a","Test":"TestPage"}
{"Action":"skip","Package":"github.com/lash-go/lash/empty"}
{"Action":"output","Package":"github.com/lash-go/lash/d","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"github.com/lash-go/lash/d","Output":"FAIL\n"}
{"Action":"fail","Package":"github.com/lash-go/lash/d","Elapsed":600}
{"ImportPath":"github.com/lash-go/lash/b","Action":"build-output","Output":"b.go:1: bad\n"}
{"ImportPath":"github.com/lash-go/lash/b","Action":"build-fail"}
{"Action":"pass","Package":"github.com/lash-go/lash/c","Elapsed":2}
a line of go itself
`

// TestReport reads a run with everything that go test -json writes.
func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out)
	runtest.NoError(t, r.read(strings.NewReader(run)))
	if r.end() {
		t.Error("got a good end of a run that failed")
	}
	want := "FAIL a TestBad 0.5s\nwhy\nFAIL d 600.0s\nFAIL\nran until then: d TestHangs\npanic: test timed out\nFAIL b 0.0s\nb.go:1: bad\nok  c 2.0s\na line of go itself\n1 passed, 3 failed, 1 skipped\n"
	runtest.Equal(t, "string", out.String(), want)
}

func TestAgain(t *testing.T) {
	t.Parallel()
	one := module + "a TestBad\n"
	for name, c := range map[string]struct {
		r    report
		want []string
	}{
		"none":    {report{}, nil},
		"tests":   {report{failed: []string{"a TestBad/sub", "a TestBad", "a", "b TestOther", "b"}}, []string{one, module + "b TestOther\n"}},
		"build":   {report{failed: []string{"a TestBad", "a", "b"}}, nil},
		"race":    {report{failed: []string{"a TestBad", "a"}, raced: true}, nil},
		"problem": {report{failed: []string{"a TestBad", "a"}, problems: []string{"skipped"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runtest.EqualLists(t, "again", c.r.again(), c.want)
		})
	}
}

func TestRaceIsTold(t *testing.T) {
	t.Parallel()
	r := newReport(io.Discard)
	r.take(&event{Action: "output", Package: module + "a", Test: "TestBad", Output: "    testing.go:1712: race detected during execution of test\n"})
	r.take(&event{Action: "fail", Package: module + "a", Test: "TestBad"})
	if !r.raced {
		t.Error("got no race")
	}
}

func TestSkips(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list    string
		skipped []string
		want    []string // the tests of the problems
	}{
		"listed":       {"# reasons\na TestPage chromium\na TestRoot root\n", []string{"a TestPage"}, nil},
		"other_reason": {"a TestPage root\n", []string{"a TestPage"}, []string{"a TestPage"}},
		"unlisted":     {"", []string{"a TestPage"}, []string{"a TestPage"}},
		"ran":          {"a TestPage chromium\n", nil, []string{"a TestPage"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "skips")
			runtest.NoError(t, os.WriteFile(file, []byte(c.list), 0o600))
			r := &report{skipped: c.skipped}
			runtest.NoError(t, r.compareSkips(file, map[string]bool{"chromium": true, "root": false}))
			var got []string
			for _, p := range r.problems {
				got = append(got, p[strings.LastIndex(p, ": ")+2:])
			}
			runtest.EqualLists(t, "got", got, c.want)
		})
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "times")
	runtest.NoError(t, os.WriteFile(file, []byte("3.5 /x/big\n1 /x/a\n0.5 /x/b\n"), 0o600))
	var out strings.Builder
	r := newReport(&out)
	runtest.NoError(t, r.compareTimes(file, 0.5))
	if want := []string{"/x/big takes 3.5 s of processor time, more than 50 % of all"}; !slices.Equal(r.problems, want) {
		t.Errorf("got %q, want %q", r.problems, want)
	}
}
