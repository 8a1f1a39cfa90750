package catalogue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
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

// testCrashAnywhere disconnects the node that runs a turn at its k-th write, for every k, or one of four in the default tests, before the
// write arrives and after it. Another node finishes the turn.
func testCrashAnywhere(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "after"}[late], func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{}, 6) // so many at once
			step := runtest.Of(4, 1)
			var finished atomic.Bool
			for from := 1; !finished.Load(); from += step * cap(gate) {
				var group sync.WaitGroup
				for k := from; k < from+step*cap(gate); k += step {
					gate <- struct{}{}
					group.Go(func() {
						defer func() { <-gate }()
						if crashAt(t, k, late) {
							finished.Store(true)
						}
					})
				}
				group.Wait()
				if from > 200 {
					t.Fatal("a turn takes more than 200 writes: it does not end")
				}
			}
		})
	}
}

// crashAt reports whether the turn had ended before the k-th write.
func crashAt(t *testing.T, k int, late bool) (over bool) {
	t.Helper()
	b := harness.StartIdle(t)
	var mu sync.Mutex
	done := make(map[events.EffectID]int)
	record := func(e events.EffectID) {
		mu.Lock()
		defer mu.Unlock()
		done[e]++
	}
	plugin.AddTool(b.Tools, plugin.Tool{Name: "once"}, func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
		record(c.Effect)
		return "1", nil
	})
	calls := make(map[int64][]string) // by whom, of each iteration
	model := func(who string, req llm.Request) (scripted.Answer, error) {
		mu.Lock()
		calls[req.Iteration] = append(calls[req.Iteration], who)
		mu.Unlock()
		r := llm.Response{Stop: events.StopEnd, Parts: []events.Part{harness.Text("done")}}
		if req.Iteration == 0 {
			r.Parts = []events.Part{harness.Call("k", "once", "{}")}
		}
		return scripted.Answer{Response: r}, nil
	}
	node := func(who string, on *bus.Bus) *workers.Node {
		return scriptedNode(b, on, func(_ context.Context, req llm.Request) (scripted.Answer, error) { return model(who, req) })
	}
	id := b.Open(api.CreateRequest{})
	_, err := b.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("and this")}}) // for the checkpoint
	runtest.WantError(t, "inject", err, nil)
	b.StartTurn(id, "t1", harness.Text("go"))
	over = bustest.KilledAt(t, b.Server, k, late, func(ctx context.Context, victim *bus.Bus) error {
		w := node("victim", victim)
		if err := w.Start(ctx); err != nil {
			return err
		}
		var err error
		looks := time.NewTicker(5 * time.Millisecond)
		defer looks.Stop()
		for over := false; !over && err == nil && ctx.Err() == nil; {
			var r *projector.TurnRecord
			r, err = b.StateOf(id).Record("t1")
			over = r != nil
			select {
			case <-ctx.Done():
			case <-looks.C:
			}
		}
		stopNow(w)
		return errors.Join(err, ctx.Err())
	})
	w := node("successor", b.Bus)
	runtest.WantError(t, "start", w.Start(b.Ctx), nil)
	defer stopNow(w)
	runtest.Equal(t, fmt.Sprintf("end after a crash at write %d", k), b.AwaitTurn(id, "t1").End, events.EndFinished)
	for e, n := range done {
		runtest.Equal(t, fmt.Sprintf("executions of %s after a crash at write %d", e, k), n, 1)
	}
	checkRequests(t, fmt.Sprintf("with a crash at write %d", k), b.History(id), calls)
	replies, settled := make(map[int64]int), 0
	for _, p := range harness.Find[*events.ModelReplied](b, id) {
		replies[p.Iteration]++
	}
	for _, p := range harness.Find[*events.ToolReturned](b, id) {
		settled += len(p.Results)
	}
	for _, p := range harness.Find[*events.ToolLost](b, id) {
		settled += len(p.Calls)
	}
	runtest.Equal(t, fmt.Sprintf("replies recorded after a crash at write %d", k), fmt.Sprint(replies[0], replies[1]), "1 1")
	runtest.Equal(t, fmt.Sprintf("results recorded after a crash at write %d", k), settled, 1)
	runtest.Equal(t, fmt.Sprintf("ends recorded after a crash at write %d", k), len(harness.Find[*events.TurnCompleted](b, id)), 1)
	runtest.Equal(t, fmt.Sprintf("inputs taken after a crash at write %d", k), strings.Count(strings.Join(b.Messages(id), "\n"), "and this"), 1)
	harness.VerifyHistory(t, b.Bus, id)
	return over
}

// scriptedNode is a worker with the system's tools and this model.
func scriptedNode(b *harness.System, on *bus.Bus, model scripted.Script) *workers.Node {
	b.T.Helper()
	w, err := workers.NewNode(workers.Config{
		Roles: harness.TurnRoles(),
		Bus:   on, Providers: map[string]llm.Provider{"scripted": scripted.New(model)}, Provider: "scripted",
		Tools: func(events.SessionID) *plugin.Tools { return b.Tools }, Logger: zap.NewNop(),
	})
	runtest.WantError(b.T, "new worker", err, nil)
	return w
}

// stopNow stops a worker at once.
func stopNow(w *workers.Node) {
	now, cancel := context.WithCancel(context.Background()) // of its own: the test's may have ended
	cancel()
	w.Stop(now)
}

// checkRequests checks the model calls: each worker requests a reply that it records once, and a node that takes over
// later does not request it again.
func checkRequests(t *testing.T, when string, history []events.Event, calls map[int64][]string) {
	t.Helper()
	claims := 0
	for i := range history {
		if history[i].Kind == events.KindTurnStarted {
			claims++
		}
	}
	wanted := map[[2]int][]string{ // by the claim that it was recorded under, and how many there were
		{1, 1}: {"victim", "successor"},
		{1, 2}: {"victim"},
		{2, 2}: {"successor", "victim successor"},
	}
	claim := 0
	for i := range history {
		switch p := history[i].Payload.(type) {
		case *events.TurnStarted:
			claim++
		case *events.ModelReplied:
			want, got := wanted[[2]int{claim, claims}], strings.Join(calls[p.Iteration], " ")
			if !slices.Contains(want, got) {
				t.Errorf("who was asked for reply %d %s, recorded under claim %d of %d: got %q, want one of %q", p.Iteration, when, claim, claims, got, want)
			}
		}
	}
}
