package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lash-go/lash/bus/bustest"
)

func TestMain(m *testing.M) {
	testscript.Main(bustest.LeakChecked{M: m}, map[string]func(){"soak": main})
}

// TestLongScripts runs the program for some seconds.
func TestLongScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

// TestVerdict: a run is bad where something was lost or doubled, or takeovers were late.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report Report
		want   error
	}{
		"in_time":        {Report{TakeoverP99: 2000, LostWakeP99: 10000}, nil},
		"late":           {Report{TakeoverP99: 2000.1}, errLate},
		"late_wake_lost": {Report{LostWakeP99: 10000.1}, errLate},
		"lost":           {Report{Lost: 1, LostWakeP99: 10000.1}, errSoaked},
		"doubled":        {Report{Doubled: 1}, errSoaked},
	} {
		if got := c.report.verdict(); got != c.want { //nolint:errorlint // it is the error itself
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
