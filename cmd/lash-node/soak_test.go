package main

import (
	"bytes"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/soak"
)

// TestSoakVerdict checks the exit code and the message of a run with late takeovers.
func TestSoakVerdict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report  soak.Report
		code    int
		printed bool
	}{
		"in_time":        {soak.Report{TakeoverP99: 2000, LostWakeP99: 10000}, 0, false},
		"late":           {soak.Report{TakeoverP99: 2000.1}, exitDifferent, true},
		"late_wake_lost": {soak.Report{LostWakeP99: 10000.1}, exitDifferent, true},
		"lost":           {soak.Report{Lost: 1, LostWakeP99: 10000.1}, exitDifferent, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := (&soakCmd{}).print(&streams{Out: &out, Err: &out}, &tc.report)
			code, output := 0, false
			if err != nil {
				code, output = program.CodeOf(err)
			}
			if code != tc.code || output != tc.printed {
				t.Errorf("got %v, exit code %d, printed %v, want %d, %v", err, code, output, tc.code, tc.printed)
			}
		})
	}
}
