package system

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestSubmitStarves has 64 clients and a monitor of about 1 000 lines a second write to one session during its
// turn. Every submit returns, and the turn and the monitor make progress meanwhile.
func TestSubmitStarves(t *testing.T) { // alone: it measures the shares of the machine
	const clients, each, atMost = 64, 12, 200
	f := harness.StartFleet(t)
	release := make(chan struct{})
	var calls atomic.Int64
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Turn != "t0" {
			return harness.Reply(harness.Text("done"))(ctx, req)
		}
		calls.Add(1)
		select {
		case <-release:
			return harness.Reply(harness.Text("done"))(ctx, req)
		case <-ctx.Done():
			return scripted.Answer{}, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond): //nolint:forbidigo // the time of the model's work
			return harness.Reply(harness.Call("k", "look", `{}`))(ctx, req)
		}
	}
	f.Join(workers.Config{Tools: func(events.SessionID) *plugin.Tools {
		tools := plugin.NewTools()
		plugin.AddTool(tools, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "seen", nil })
		return tools
	}})
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t0", harness.Text("go"))
	f.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: "while true; do seq 50; sleep 0.05; done", Persistent: true, Wake: events.WakeNotify})
	f.AwaitState(id, "the monitor's lines", func(s *projector.State) bool { return s.Feed.Sequence > 100 })

	by := make([]api.Service, clients) // half of them on four programs with hosts of their own, half over the node's service
	for n := range by {
		switch {
		case n%2 == 1:
			by[n] = f.Dial()
		case n < 8:
			by[n] = f.OtherHost()
		default:
			by[n] = by[n%8]
		}
	}
	before, lines := calls.Load(), f.StateOf(id).Feed.Sequence
	progress := func() (requests, written int64) {
		return calls.Load() - before, f.StateOf(id).Feed.Sequence - lines
	}
	var moved atomic.Bool
	took, errs := make([][]time.Duration, clients), make([]error, clients)
	var all sync.WaitGroup
	start := time.Now()
	for n := range clients {
		all.Go(func() {
			for k := 0; errs[n] == nil && k < each; k++ {
				began := time.Now()
				_, errs[n] = by[n].Submit(f.Ctx, id, harness.TurnRequest(events.TurnID(fmt.Sprintf("c%02d-%d", n, k)), "hello"))
				took[n] = append(took[n], time.Since(began))
			}
			for k := 0; errs[n] == nil && k < atMost && !moved.Load(); k++ { // a session takes only so many turns
				in := events.InputID(fmt.Sprintf("c%02d-%d", n, k))
				if _, errs[n] = by[n].Inject(f.Ctx, id, api.InjectRequest{ID: in, Parts: []events.Part{harness.Text("hello")}}); errs[n] == nil {
					_, errs[n] = by[n].CancelInputs(f.Ctx, id, in)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	f.AwaitPolling("the end of all clients", func() bool {
		requests, written := progress()
		moved.Store(requests > 0 && written > 0)
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	flood := time.Since(start)
	for n := range clients {
		runtest.WantError(t, fmt.Sprintf("client %d", n), errs[n], nil)
	}
	requests, written := progress()
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	t.Logf("%d submits in %v: median %v, p99 %v, longest %v; meanwhile %d lines and %d model calls of the turn",
		len(sorted), flood, sorted[len(sorted)/2], sorted[len(sorted)*99/100], sorted[len(sorted)-1], written, requests)
	if !moved.Load() {
		t.Errorf("meanwhile: got %d model calls and %d lines, want some of each", requests, written)
	}
	close(release)
	runtest.WantError(t, "stop", f.StopMonitor(f.Ctx, id, "m"), nil)
	for n := range clients {
		for k := range each {
			runtest.Equal(t, "end", f.AwaitTurn(id, events.TurnID(fmt.Sprintf("c%02d-%d", n, k))).End, events.EndFinished)
		}
	}
	harness.VerifyHistory(t, f.Bus, id)
}
