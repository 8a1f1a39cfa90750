package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestTurnResultCalls looks at the model calls of turns, with the tries that failed, and at
// what is told of the last failure, whichever way the result is asked for.
func TestTurnResultCalls(t *testing.T) {
	t.Parallel()
	busy, down, denied := llmtest.Refuse(llm.KindRateLimit), llmtest.Refuse(llm.KindServer), llmtest.Refuse(llm.KindAuth)
	replies := []llmtest.Reply{busy, llmtest.Text("ok"), down, busy, down, down, denied}
	b, _ := setupEndpoint(t, append(append(replies, replies...), replies...))
	for name, w := range b.ways() {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one endpoint
			id, hi := w.create(events.Config{}), events.TurnInput{Parts: []events.Part{text("hi")}}
			good, down, denied := w.run(id, hi), w.run(id, hi), w.run(id, hi)

			equal(t, "protocol", good.Protocol, "standard")
			equal(t, "calls", len(good.ModelCalls), 1)
			call := good.ModelCalls[0]
			equal(t, "tries", call.Attempts, 2)
			equal(t, "stop", call.Stop, events.StopEnd)
			equal(t, "model", call.Provider+" "+call.Model, "openai model-1")
			equal(t, "failed tries", len(call.Failed), 1)
			f := call.Failed[0]
			equal(t, "failed try", api.FailedTry{Kind: f.Kind, Status: f.Status, Code: f.Code, Message: f.Message}, api.FailedTry{Kind: "rate_limit", Status: 429, Code: "rate_limit_exceeded", Message: "scripted rate_limit"})
			equal(t, "wait is told", f.WaitSeconds > 0, true)
			equal(t, "errors", len(good.Errors), 0)

			kinds := []string{}
			for _, f := range down.ModelCalls[0].Failed {
				kinds = append(kinds, f.Kind)
			}
			equalLists(t, "tries of a failure", kinds, []string{"server", "rate_limit", "server", "server"})
			equal(t, "failed call", down.ModelCalls[0].Provider+" "+down.ModelCalls[0].Model, "openai m")
			for what, tell := range map[string]struct {
				turn      api.AssembledTurn
				retryable bool
				raw       string
			}{"down": {down, true, `"message":"scripted server"`}, "denied": {denied, false, `"code":"invalid_api_key"`}} {
				e := tell.turn.Errors[0]
				if e.Retryable == nil || *e.Retryable != tell.retryable || !strings.Contains(e.Raw, tell.raw) {
					t.Errorf("%s: got %+v, want retryable %v, raw with %s", what, e, tell.retryable, tell.raw)
				}
				equal(t, what+" output", tell.turn.Output.State, api.OutputEmpty)
			}
		})
	}
}

// TestTurnResultCancelled wants the evidence with every cancelled turn, wherever the cancel met it, and with no other.
func TestTurnResultCancelled(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	b := setup(t, hangs(begun), reply(text("done")))
	id := b.open(api.CreateRequest{})
	b.submit(id, "running", text("go"))
	receive(b, "the model call", begun)
	b.submit(id, "queued", text("go"))
	_, err := b.SubmitAt(b.ctx, id, time.Now().Add(time.Hour), api.TurnRequest{ID: "scheduled", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	must(t, "submit at", err, nil)
	for _, turn := range []events.TurnID{"scheduled", "queued", "running"} {
		for _, n := range []string{"1", "2"} { // the first counts
			_, _, err := b.Cancel(b.ctx, id, turn, api.CancelRequest{ID: string(turn) + n, Origin: "ann", Reason: "enough " + n})
			must(t, "cancel", err, nil)
		}
	}
	for _, turn := range []events.TurnID{"scheduled", "queued", "running"} {
		b.ended(id, turn)
		got, err := b.AssembledTurn(b.ctx, id, turn)
		must(t, "assemble", err, nil)
		equal(t, string(turn), got.Outcome.Reason, events.EndCancelled)
		if got.Cancellation == nil || *got.Cancellation != (api.Cancellation{ID: string(turn) + "1", Origin: "ann", Reason: "enough 1"}) {
			t.Errorf("%s: got %+v, want the first request", turn, got.Cancellation)
		}
	}
	b.run(id, "t4", text("go"))
	got, err := b.AssembledTurn(b.ctx, id, "t4")
	must(t, "assemble", err, nil)
	if got.Cancellation != nil {
		t.Errorf("got %+v, want no evidence of a turn that finished", got.Cancellation)
	}
}

// TestTurnResultOutput judges the output of turns whose programs fail.
func TestTurnResultOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script []step
		want   api.OutputState
	}{
		"answer":         {[]step{program("1"), reply(text("one"))}, api.OutputUsable},
		"no_answer":      {[]step{program("1"), fails(llm.KindAuth, "no_key")}, api.OutputEmpty},
		"only_traceback": {[]step{program("1/0"), fails(llm.KindAuth, "no_key")}, api.OutputTraceback},
		"recovered":      {[]step{program("1/0"), program("1"), reply(text("one"))}, api.OutputRecovered},
		"value":          {[]step{program("finish(1)")}, api.OutputUsable},
		"late_value":     {[]step{program("1/0"), program("finish(1)")}, api.OutputRecovered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, id, _ := setupCode(t, c.script...)
			b.run(id, "t1", text("go"))
			got, err := b.AssembledTurn(b.ctx, id, "t1")
			must(t, "assemble", err, nil)
			equal(t, "state", got.Output.State, c.want)
			equal(t, "protocol", got.Protocol, "code")
		})
	}
}
