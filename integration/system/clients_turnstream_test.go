package system

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

func TestTurnStream(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("Let me see."), harness.Call("k1", "add", `{"A":1,"B":2}`)), harness.Reply(harness.Text("Three.")))
	harness.AddTool(b, events.EffectsNone)
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	list := b.TurnEvents(b.Host, id, "t1", nil)
	tags, shown := harness.EventNames(list)
	want := []string{
		"llm_request", "text_delta", "llm_response", "token_usage", "tool_call_start", "tool_call",
		"llm_request", "text_delta", "llm_response", "token_usage", "turn_outcome", "done",
	}
	runtest.EqualLists(t, "events", tags, want)
	runtest.Equal(t, "shown", shown, "Let me see.Three.")

	again, _ := harness.EventNames(b.TurnEvents(b.OtherHost(), id, "t1", nil)) // the same request attaches
	runtest.EqualLists(t, "events of the turn that has ended", again, want)
	_, other, err := b.OtherHost().StartTurnStream(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("other")}}})
	if err == nil {
		for _, err = range other {
		}
	}
	runtest.WantError(t, "the same id with other input", err, api.ErrDifferent)

	got, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "assemble", err, nil)
	runtest.Equal(t, "outcome", got.Outcome, api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: "Three."})
	runtest.Equal(t, "output", got.Output, api.AssistantOutput{SafeText: "Three.", RawText: "Three.", State: api.OutputUsable})
	runtest.Equal(t, "usage", got.Usage, api.TokenUsage{Input: 20, Output: 10})
	runtest.Equal(t, "had tool calls", got.HadToolCalls, true)
	runtest.Equal(t, "errors", len(got.Errors), 0)
	runtest.Equal(t, "end", got.Seq, b.LastSeq(id))
	var calls []string
	for _, c := range got.ToolCalls {
		calls = append(calls, fmt.Sprintf("%s:%s%s=%s", c.CallID, c.Tool, c.Args, c.Output))
	}
	runtest.EqualLists(t, "tool calls", calls, []string{`k1:add{"A":1,"B":2}=3`})
	_, err = b.AssembledTurn(b.Ctx, id, "t9")
	runtest.WantError(t, "assemble another", err, api.ErrUnknownTurn)
}

func TestTurnStreamLarge(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("long ", 40<<10)
	b := harness.Start(t, harness.Reply(harness.Text(large)))
	id := b.Open(api.CreateRequest{})
	_, shown := harness.EventNames(b.TurnEvents(b.Host, id, "t1", nil))
	runtest.Equal(t, "shown, though its body is in a blob", shown == large, true)
	got, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "assemble", err, nil)
	runtest.Equal(t, "assembled", got.Output.RawText == large, true)
}

func TestTurnStreamRetry(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{}, 2)
	failing := func(s string) func(context.Context, func(llm.Delta)) (llm.Response, error) {
		return func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
			sink(harness.TextDelta(s))
			select { // until the watcher has seen it
			case <-shown:
			case <-ctx.Done():
			}
			return llm.Response{}, &llm.Error{Kind: llm.KindServer, Status: 503, Message: "busy"}
		}
	}
	b := harness.StartIdle(t)
	b.StartStreaming(failing("Hel"), failing("He"), func(context.Context, func(llm.Delta)) (llm.Response, error) { return harness.StreamedReply("Bye") })
	id := b.Open(api.CreateRequest{})
	list := b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventTextDelta && e.Content != "Bye" {
			shown <- struct{}{}
		}
	})
	tags, text := harness.EventNames(list)
	runtest.EqualLists(t, "events", tags, []string{
		"llm_request", "text_delta", "model_attempt_reset", "retry_status", "text_delta", "model_attempt_reset", "retry_status",
		"text_delta", "llm_response", "token_usage", "turn_outcome", "done",
	})
	runtest.Equal(t, "shown", text, "Bye")
	runtest.Equal(t, "reason", list[3].Reason, "server (HTTP 503): busy")
	runtest.Equal(t, "second failure", list[6].Attempt, 2)
}

func TestTurnStreamDropped(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
	id := b.Open(api.CreateRequest{})
	_, stream, err := b.StartTurnStream(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
	runtest.WantError(t, "start turn", err, nil)
	for _, err := range stream {
		runtest.WantError(t, "stream", err, nil)
		break
	}
	_, _, err = b.StartTurnStream(b.Ctx, id, api.TurnRequest{ID: "t2", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
	runtest.WantError(t, "start turn", err, nil)
	runtest.Equal(t, "end of a dropped one", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "end of one that nobody watched", b.AwaitTurn(id, "t2").End, events.EndFinished)
}
