package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// names lists the tags of events, and what a watcher has shown of the replies at the end.
func names(list []api.SessionEvent) (tags []string, shown string) {
	var attempt string
	for _, e := range list {
		tags = append(tags, string(e.Type))
		switch e.Type {
		case api.EventTextDelta:
			attempt += e.Content
		case api.EventAttemptReset:
			attempt = ""
		case api.EventLLMResponse:
			shown, attempt = shown+attempt, ""
		default:
		}
	}
	return tags, shown
}

// turnEvents runs a turn and takes all of its events.
func (b *bundle) turnEvents(h *session.Host, id events.SessionID, turn events.TurnID, each func(api.SessionEvent)) []api.SessionEvent {
	b.t.Helper()
	_, stream, err := h.StartTurnStream(b.ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{text("hello")}}})
	must(b.t, "start turn", err, nil)
	var list []api.SessionEvent
	for e, err := range stream {
		must(b.t, "stream", err, nil)
		list = append(list, e)
		if each != nil {
			each(e)
		}
	}
	return list
}

func TestTurnStream(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("Let me see."), call("k1", "add", `{"A":1,"B":2}`)), reply(text("Three.")))
	adder(b, events.EffectsNone)
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	list := b.turnEvents(b.Host, id, "t1", nil)
	tags, shown := names(list)
	want := []string{
		"llm_request", "text_delta", "llm_response", "token_usage", "tool_call_start", "tool_call",
		"llm_request", "text_delta", "llm_response", "token_usage", "turn_outcome", "done",
	}
	equalLists(t, "events", tags, want)
	equal(t, "shown", shown, "Let me see.Three.")

	again, _ := names(b.turnEvents(b.otherHost(), id, "t1", nil)) // the same request attaches
	equalLists(t, "events of the turn that has ended", again, want)
	_, other, err := b.otherHost().StartTurnStream(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("other")}}})
	if err == nil {
		for _, err = range other {
		}
	}
	must(t, "the same id with other input", err, api.ErrDifferent)

	got, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "assemble", err, nil)
	equal(t, "outcome", got.Outcome, api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: "Three."})
	equal(t, "output", got.Output, api.AssistantOutput{SafeText: "Three.", RawText: "Three.", State: api.OutputUsable})
	equal(t, "usage", got.Usage, api.TokenUsage{Input: 20, Output: 10})
	equal(t, "had tool calls", got.HadToolCalls, true)
	equal(t, "errors", len(got.Errors), 0)
	equal(t, "end", got.Seq, b.last(id))
	var calls []string
	for _, c := range got.ToolCalls {
		calls = append(calls, fmt.Sprintf("%s:%s%s=%s", c.CallID, c.Tool, c.Args, c.Output))
	}
	equalLists(t, "tool calls", calls, []string{`k1:add{"A":1,"B":2}=3`})
	_, err = b.AssembledTurn(b.ctx, id, "t9")
	must(t, "assemble another", err, api.ErrUnknownTurn)
}

func TestTurnStreamLarge(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("long ", 40<<10)
	b := setup(t, reply(text(large)))
	id := b.open(api.CreateRequest{})
	_, shown := names(b.turnEvents(b.Host, id, "t1", nil))
	equal(t, "shown, though its body is in a blob", shown == large, true)
	got, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "assemble", err, nil)
	equal(t, "assembled", got.Output.RawText == large, true)
}

func TestTurnStreamRetry(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{}, 2)
	failing := func(s string) func(context.Context, func(llm.Delta)) (llm.Response, error) {
		return func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
			sink(spoken(s))
			select { // until the watcher has seen it
			case <-shown:
			case <-ctx.Done():
			}
			return llm.Response{}, &llm.Error{Kind: llm.KindServer, Status: 503, Message: "busy"}
		}
	}
	b := setupIdle(t)
	b.stream(failing("Hel"), failing("He"), func(context.Context, func(llm.Delta)) (llm.Response, error) { return said("Bye") })
	id := b.open(api.CreateRequest{})
	list := b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventTextDelta && e.Content != "Bye" {
			shown <- struct{}{}
		}
	})
	tags, text := names(list)
	equalLists(t, "events", tags, []string{
		"llm_request", "text_delta", "model_attempt_reset", "retry_status", "text_delta", "model_attempt_reset", "retry_status",
		"text_delta", "llm_response", "token_usage", "turn_outcome", "done",
	})
	equal(t, "shown", text, "Bye")
	equal(t, "reason", list[3].Reason, "server (HTTP 503): busy")
	equal(t, "second failure", list[6].Attempt, 2)
}

func TestTurnStreamDropped(t *testing.T) {
	t.Parallel()
	b := setup(t, reply(text("one")), reply(text("two")))
	id := b.open(api.CreateRequest{})
	_, stream, err := b.StartTurnStream(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	must(t, "start turn", err, nil)
	for _, err := range stream {
		must(t, "stream", err, nil)
		break
	}
	_, _, err = b.StartTurnStream(b.ctx, id, api.TurnRequest{ID: "t2", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	must(t, "start turn", err, nil)
	equal(t, "end of a dropped one", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "end of one that nobody watched", b.ended(id, "t2").End, events.EndFinished)
}
