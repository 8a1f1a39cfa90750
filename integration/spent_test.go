package integration

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// breaksOff is a try that fails in the middle, and was paid for.
func breaksOff(input, output int64) step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{
			Response: llm.Response{Parts: []events.Part{text("wro")}, Usage: events.Usage{Input: input, Output: output}},
			Err:      &llm.Error{Kind: llm.KindServer, Message: "broken off"},
		}, nil
	}
}

// TestFailedTriesCount has tries of a call fail before one succeeds: the turn, its events, its record, and the ledger count
// what each used, and the size of the prompt is that of the last one alone. So does a completion outside of turns.
func TestFailedTriesCount(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, breaksOff(100, 3), breaksOff(20, 4), reply(text("hi")), breaksOff(7, 2), reply(text("A talk")))
	n, _ := b.nodeOn(b.bus)
	id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
	var seen []api.TokenUsage
	b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventTokenUsage {
			seen = append(seen, *e.Usage, *e.Cumulative)
		}
	})
	all := api.TokenUsage{Input: 130, Output: 12}
	equalLists(t, "usage in events", seen, []api.TokenUsage{all, all})
	equal(t, "usage of the turn", b.ended(id, "t1").Usage, events.Usage{Input: 130, Output: 12})
	whole, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "whole turn", err, nil)
	equal(t, "usage in its record", whole.Usage, all)
	equal(t, "usage of its call", whole.ModelCalls[0].Usage, all)
	equal(t, "tokens of the prompt", b.state(id).Prompted, 10)
	equalLists(t, "ledger", b.state(id).Ledger, []projector.LedgerEntry{row("turn", "small", 130, 12)})
	got, err := n.Host().Complete(b.ctx, id, asks("a title?"), "title")
	must(t, "complete", err, nil)
	equal(t, "usage of a completion", got.Usage, events.Usage{Input: 17, Output: 7})
	equalLists(t, "ledger", b.state(id).Ledger, []projector.LedgerEntry{row("title", "small", 17, 7), row("turn", "small", 130, 12)})
}
