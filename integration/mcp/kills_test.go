package mcp

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

var killing = flag.Int("killing", runtest.Of(8, 12), "how many turns of each session TestServersAreKilled runs")

// TestServersAreKilled has servers of two nodes kill themselves again and again, during calls of many sessions. Each turn ends. A call that
// must not run twice runs once where it has a result, at most once where it is lost, and not at all where it is refused. A
// call that may repeat runs at least once where it has a result.
func TestServersAreKilled(t *testing.T) {
	t.Parallel()
	const sessions = 6
	s := start(t)
	server := s.own("srv")
	server.Env[killsVariable] = "20"
	for range 2 {
		s.source(server)
	}
	var work sync.WaitGroup
	ids, turns := make([]events.SessionID, sessions), make([]int, sessions)
	for i := range ids {
		ids[i] = s.Open(api.CreateRequest{})
		work.Go(func() { // ends after its last turn
			for ; turns[i] < *killing && !t.Failed(); turns[i]++ {
				turn := events.TurnID(fmt.Sprintf("%s-%d-%d", []string{"once", "look"}[turns[i]%2], i, turns[i]))
				tool, _, _ := strings.Cut(string(turn), "-")
				text := fmt.Sprintf(`srv__%s {"do":"wait","millis":40,"text":%q}`, tool, turn)
				_, err := s.Run(s.Ctx, ids[i], api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{harness.Text(text)}}})
				runtest.WantError(t, fmt.Sprintf("turn %s", turn), err, nil)
			}
		})
	}
	work.Wait()
	runs := make(map[string]int)
	data, err := os.ReadFile(s.runs)
	runtest.WantError(t, "runs", err, nil)
	for _, line := range strings.Fields(string(data)) {
		runs[line]++
	}
	count, kills := make(map[events.Outcome]int), runs[killed]
	for i, id := range ids {
		ended := 0
		for _, ev := range s.History(id) {
			var outcome events.Outcome
			switch p := ev.Payload.(type) {
			case *events.ToolReturned:
				outcome = p.Results[0].Outcome
			case *events.ToolLost: // told by a node that took the turn over from one that had no time
				outcome = events.OutcomeLost
			default:
				continue
			}
			ended++
			tool, _, _ := strings.Cut(string(ev.Turn), "-")
			n := runs[tool+":"+string(ev.Turn)]
			count[outcome]++
			switch {
			case outcome == events.OutcomeSuccess && (n == 0 || tool == "once" && n > 1), outcome == events.OutcomeLost && (n > 1 || tool == "look"),
				outcome == events.OutcomeFailure && n > 0 && tool == "once":
				t.Errorf("call of turn %s: got %d runs, and %+v", ev.Turn, n, ev.Payload)
			}
		}
		runtest.Equal(t, "results of session "+string(id), ended, turns[i])
		harness.VerifyHistory(t, s.Bus, id)
	}
	t.Logf("%d kills; outcomes %v", kills, count)
	if kills == 0 || count[events.OutcomeSuccess] == 0 {
		t.Errorf("got %d kills and outcomes %v, want kills and successes", kills, count)
	}
}
