package mcp

import (
	"testing"
	"time"
)

// TestNextStart has servers fail again and again: a command is started six times in ten minutes, and a server over HTTP is tried after waits
// that grow to 30 s.
func TestNextStart(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		var starts []time.Time
		now, began := time.Unix(0, 0), time.Unix(0, 0)
		for now.Sub(began) < startWindow {
			starts = append(starts, now)
			wait := nextStart(starts, now, remote)
			if wait < startBase || remote && wait > startLimit {
				t.Errorf("over HTTP %v, start %d: got a wait of %v", remote, len(starts), wait)
			}
			now = now.Add(wait)
		}
		if n := len(starts); remote != (n > maxStarts) || n > 40 || n < maxStarts {
			t.Errorf("over HTTP %v: got %d starts in %v", remote, n, startWindow)
		}
	}
}
