package workers_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/workers"
)

// TestConfig expects all invalid fields in one error.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := workers.NewNode(workers.Config{ID: "\xff", MaxQueued: session.MostQueued + 1, MaxSessionsPerCaller: -1, Provider: "none", Concurrency: -1, ModelRetry: workers.ModelRetry{Max: -1}, JobRetry: workers.JobRetry{Base: -1}, Model: "big", Locks: lock.Locks{Providers: []string{"some"}, Models: []string{"small"}, MaxIterations: -1}})
	for _, want := range []string{"bus is required", "actor: ", "max queued: 4097", "max sessions per caller: -1", "locks: max iterations: is negative", `provider "none" is not among the providers`, "concurrency: -1 is negative", "model retry: ", "job retry: ", "locks: the node's own provider none is not among", "model big is not among"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
