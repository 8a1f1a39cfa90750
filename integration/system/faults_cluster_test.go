package system

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// TestSmokeCluster plays recordings on three servers that replicate everything, with one worker and with eight.
func TestSmokeCluster(t *testing.T) {
	t.Parallel()
	convs := recordingtest.Read(recordingtest.Make(1, recording.FormatChat, 10), recordingtest.Make(1, recording.FormatPi, 20))
	if runtest.Long() {
		convs = recordingtest.Read(recordingtest.Each(recording.FormatChat), recordingtest.Each(recording.FormatPi))
	}
	cluster := bustest.StartCluster(t)
	for _, n := range []int{1, 8} {
		t.Run(fmt.Sprintf("workers_%d", n), func(t *testing.T) { // one after the other: each has the machine to itself
			playOnCluster(t, cluster, n, convs)
		})
	}
}

func playOnCluster(t *testing.T, cluster *bustest.Cluster, n int, convs []recording.Conversation) {
	t.Helper()
	b := cluster.Open(t)
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	player := playback.NewPlayer(h)
	plans := make(chan *playback.Plan, len(convs))
	for i := range convs {
		plan := playback.NewPlan(events.SessionID(fmt.Sprintf("w%d-s%d", n, i)), &convs[i])
		runtest.NoError(t, player.Add(plan))
		plans <- plan
	}
	close(plans)
	for range n {
		w, err := workers.NewNode(workers.Config{
			Roles: harness.TurnRoles(),
			Bus:   cluster.Open(t), Provider: "scripted", Tools: player.Tools,
			Providers: map[string]llm.Provider{"scripted": player.Provider()},
		})
		runtest.NoError(t, err)
		runtest.NoError(t, w.Start(t.Context()))
		t.Cleanup(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			w.Stop(now)
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // three servers on one core may take one
	defer cancel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for plan := range plans {
				if err := player.Play(ctx, plan, nil); err != nil {
					t.Errorf("play: %v", err)
					continue
				}
				s, err := h.State(ctx, plan.Session)
				if err != nil {
					t.Error(err)
					continue
				}
				if diff, err := playback.Compare(ctx, b, plan, s); diff != nil || err != nil {
					t.Errorf("compare: got %v, %v", diff, err)
				}
				harness.VerifyHistory(t, b, plan.Session)
			}
		})
	}
	all.Wait()
}
