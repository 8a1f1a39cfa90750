package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestSubmitStarves has 64 clients and a monitor of about 1 000 lines a second
// write into one session, whose turn goes on meanwhile: every submit ends, and
// the turn makes progress.
func TestSubmitStarves(t *testing.T) { // alone: it is about who gets how much of the machine
	const clients, each = 64, 12
	f := setupFleet(t)
	release := make(chan struct{})
	var calls atomic.Int64
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Turn != "t0" {
			return reply(text("done"))(ctx, req)
		}
		calls.Add(1)
		select {
		case <-release:
			return reply(text("done"))(ctx, req)
		case <-ctx.Done():
			return scripted.Answer{}, context.Cause(ctx)
		case <-time.After(5 * time.Millisecond): // a model takes a while
			return reply(call("k", "look", `{}`))(ctx, req)
		}
	}
	f.join(workers.Config{Tools: func(events.SessionID) *plugin.Tools {
		tools := plugin.NewTools()
		plugin.AddTool(tools, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "seen", nil })
		return tools
	}})
	id := f.open(session.CreateRequest{})
	f.submit(id, "t0", text("go"))
	f.start(id, events.MonitorSpec{ID: "m", Command: "while true; do seq 50; sleep 0.05; done", Persistent: true, Wake: events.WakeNotify})
	f.await(id, "the monitor's lines", func(s *projector.State) bool { return s.Feed.Sequence > 100 })

	by := make([]session.Submitter, clients)
	for n := range by {
		if by[n] = f.otherHost(); n%2 == 1 {
			by[n] = f.dialled()
		}
	}
	before, lines := calls.Load(), f.state(id).Feed.Sequence
	took, errs := make([][]time.Duration, clients), make([]error, clients)
	var all sync.WaitGroup
	start := time.Now()
	for n := range clients {
		all.Go(func() {
			for k := range each {
				began := time.Now()
				if _, err := by[n].SubmitTurn(f.ctx, id, asksTurn(events.TurnID(fmt.Sprintf("c%02d-%d", n, k)), "hello")); err != nil {
					errs[n] = err
					return
				}
				took[n] = append(took[n], time.Since(began))
			}
		})
	}
	all.Wait()
	flood := time.Since(start)
	for n := range clients {
		must(t, fmt.Sprintf("client %d", n), errs[n], nil)
	}
	progress, written := calls.Load()-before, f.state(id).Feed.Sequence-lines
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	t.Logf("%d submits in %v: median %v, p99 %v, longest %v; meanwhile %d lines and %d model calls of the turn",
		len(sorted), flood, sorted[len(sorted)/2], sorted[len(sorted)*99/100], sorted[len(sorted)-1], written, progress)
	if progress == 0 || written == 0 {
		t.Errorf("meanwhile: got %d model calls and %d lines, want some of each", progress, written)
	}
	close(release)
	must(t, "stop", f.StopMonitor(f.ctx, id, "m"), nil)
	for n := range clients {
		for k := range each {
			equal(t, "end", f.ended(id, events.TurnID(fmt.Sprintf("c%02d-%d", n, k))).End, events.EndFinished)
		}
	}
	verified(t, f.bus.Log(), id)
}
