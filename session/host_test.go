package session_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/lock"
)

// TestNewListsInvalidFields makes a host with several invalid fields: the error names each of them.
func TestNewListsInvalidFields(t *testing.T) {
	t.Parallel()
	for _, queued := range []int{-1, session.MostQueued + 1} {
		_, err := session.New(session.Config{Actor: "\xff", MaxQueued: queued, MaxSessionsPerCaller: -1, Locks: lock.Locks{MaxIterations: -1}})
		for _, want := range []string{"bus is required", "max queued", "max sessions per caller", "actor", "locks: max iterations"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("max queued %d: got %v, want an error about %s", queued, err, want)
			}
		}
	}
}
