package system

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// BenchmarkNeighboursOfAgents runs turns of other sessions, whose model takes 100 ms, on a node with one place, alone and beside 3 000
// agents in three levels, whose model takes no time.
func BenchmarkNeighboursOfAgents(b *testing.B) {
	on := bustest.Open(b, bustest.Server(b, busembed.Config{}))
	host, err := session.New(session.Config{Bus: on, Plugins: session.NoPlugins()})
	runtest.WantError(b, "host", err, nil)
	n, err := agentNode(b, on, 1, func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Messages[0].Text() != "slow" {
			return delegating(ctx, req)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{harness.Text("done")}, Stop: events.StopEnd}}, nil
	})
	runtest.WantError(b, "node", err, nil)
	runtest.WantError(b, "start", n.Start(b.Context()), nil)
	defer n.Stop(context.WithoutCancel(b.Context()))
	run := func(id, task string) {
		_, err := host.Create(b.Context(), api.CreateRequest{ID: events.SessionID(id)})
		runtest.WantError(b, "create", err, nil)
		_, err = host.Run(b.Context(), events.SessionID(id), harness.TurnRequest("t1", task))
		runtest.WantError(b, "run", err, nil)
	}
	median := map[string]time.Duration{}
	for _, place := range []string{"alone", "beside"} {
		over := make(chan struct{})
		if place == "beside" {
			go func() {
				defer close(over)
				run("root", "12 15 16")
			}()
		}
		var took []time.Duration
		for k := 0; k < 20 || place == "beside" && !closed(over); k++ {
			began := time.Now()
			run(fmt.Sprint(place, k), "slow")
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		median[place] = took[len(took)/2]
		b.ReportMetric(float64(median[place].Microseconds())/1000, place+"-p50-ms")
		b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, place+"-max-ms")
		b.ReportMetric(float64(len(took)), place+"-turns")
	}
	b.ReportMetric(float64(median["beside"])/float64(median["alone"]), "ratio")
	b.ReportMetric(0, "ns/op")
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
