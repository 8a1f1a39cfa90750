package system

import (
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestTurnResultCalls checks the model calls of turns, with the failed attempts, and the last failure, over every
// API.
func TestTurnResultCalls(t *testing.T) {
	t.Parallel()
	busy, down, denied := llmtest.Refuse(llm.KindRateLimit), llmtest.Refuse(llm.KindServer), llmtest.Refuse(llm.KindAuth)
	replies := []llmtest.Reply{busy, llmtest.Text("ok"), down, busy, down, down, denied}
	b, _ := startEndpoint(t, append(append(replies, replies...), replies...))
	for name, w := range routesOf(b) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one endpoint
			id, hi := w.Create(events.Config{}), events.TurnInput{Parts: []events.Part{harness.Text("hi")}}
			good, down, denied := w.Run(id, hi), w.Run(id, hi), w.Run(id, hi)

			runtest.Equal(t, "protocol", good.Protocol, "standard")
			runtest.Equal(t, "calls", len(good.ModelCalls), 1)
			call := good.ModelCalls[0]
			runtest.Equal(t, "tries", call.Attempts, 2)
			runtest.Equal(t, "stop", call.Stop, events.StopEnd)
			runtest.Equal(t, "model", call.Provider+" "+call.Model, "openai model-1")
			runtest.Equal(t, "failed tries", len(call.Failed), 1)
			f := call.Failed[0]
			runtest.Equal(t, "failed try", api.FailedTry{Kind: f.Kind, Status: f.Status, Code: f.Code, Message: f.Message}, api.FailedTry{Kind: "rate_limit", Status: 429, Code: "rate_limit_exceeded", Message: "scripted rate_limit"})
			runtest.Equal(t, "wait is told", f.WaitSeconds > 0, true)
			runtest.Equal(t, "errors", len(good.Errors), 0)

			kinds := []string{}
			for _, f := range down.ModelCalls[0].Failed {
				kinds = append(kinds, f.Kind)
			}
			runtest.EqualLists(t, "tries of a failure", kinds, []string{"server", "rate_limit", "server", "server"})
			runtest.Equal(t, "failed call", down.ModelCalls[0].Provider+" "+down.ModelCalls[0].Model, "openai m")
			for what, errorCase := range map[string]struct {
				turn      api.AssembledTurn
				retryable bool
				raw       string
			}{"down": {down, true, `"message":"scripted server"`}, "denied": {denied, false, `"code":"invalid_api_key"`}} {
				e := errorCase.turn.Errors[0]
				if e.Retryable == nil || *e.Retryable != errorCase.retryable || !strings.Contains(e.Raw, errorCase.raw) {
					t.Errorf("%s: got %+v, want retryable %v, raw with %s", what, e, errorCase.retryable, errorCase.raw)
				}
				runtest.Equal(t, what+" output", errorCase.turn.Output.State, api.OutputEmpty)
			}
		})
	}
}

// TestTurnResultCancelled checks that every cancelled turn has the evidence, wherever the cancel stopped it, and
// no other turn has.
func TestTurnResultCancelled(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	b := harness.Start(t, harness.Hang(started), harness.Reply(harness.Text("done")))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "running", harness.Text("go"))
	harness.Receive(b, "the model call", started)
	b.StartTurn(id, "queued", harness.Text("go"))
	_, err := b.SubmitAt(b.Ctx, id, time.Now().Add(time.Hour), api.TurnRequest{ID: "scheduled", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
	runtest.WantError(t, "submit at", err, nil)
	for _, turn := range []events.TurnID{"scheduled", "queued", "running"} {
		for _, n := range []string{"1", "2"} { // the first counts
			_, _, err := b.Cancel(b.Ctx, id, turn, api.CancelRequest{ID: string(turn) + n, Origin: "ann", Reason: "enough " + n})
			runtest.WantError(t, "cancel", err, nil)
		}
	}
	for _, turn := range []events.TurnID{"scheduled", "queued", "running"} {
		b.AwaitTurn(id, turn)
		got, err := b.AssembledTurn(b.Ctx, id, turn)
		runtest.WantError(t, "assemble", err, nil)
		runtest.Equal(t, string(turn), got.Outcome.Reason, events.EndCancelled)
		if got.Cancellation == nil || *got.Cancellation != (api.Cancellation{ID: string(turn) + "1", Origin: "ann", Reason: "enough 1"}) {
			t.Errorf("%s: got %+v, want the first request", turn, got.Cancellation)
		}
	}
	b.RunTurn(id, "t4", harness.Text("go"))
	got, err := b.AssembledTurn(b.Ctx, id, "t4")
	runtest.WantError(t, "assemble", err, nil)
	if got.Cancellation != nil {
		t.Errorf("got %+v, want no evidence of a turn that finished", got.Cancellation)
	}
}

// TestTurnResultOutput checks the output of turns whose programs fail.
func TestTurnResultOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script []harness.Step
		want   api.OutputState
	}{
		"answer":         {[]harness.Step{harness.Program("1"), harness.Reply(harness.Text("one"))}, api.OutputUsable},
		"no_answer":      {[]harness.Step{harness.Program("1"), harness.Fail(llm.KindAuth, "no_key")}, api.OutputEmpty},
		"only_traceback": {[]harness.Step{harness.Program("1/0"), harness.Fail(llm.KindAuth, "no_key")}, api.OutputTraceback},
		"recovered":      {[]harness.Step{harness.Program("1/0"), harness.Program("1"), harness.Reply(harness.Text("one"))}, api.OutputRecovered},
		"value":          {[]harness.Step{harness.Program("finish(1)")}, api.OutputUsable},
		"late_value":     {[]harness.Step{harness.Program("1/0"), harness.Program("finish(1)")}, api.OutputRecovered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, id, _ := harness.StartCode(t, c.script...)
			b.RunTurn(id, "t1", harness.Text("go"))
			got, err := b.AssembledTurn(b.Ctx, id, "t1")
			runtest.WantError(t, "assemble", err, nil)
			runtest.Equal(t, "state", got.Output.State, c.want)
			runtest.Equal(t, "protocol", got.Protocol, "code")
		})
	}
}
