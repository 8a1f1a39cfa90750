package integration

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/telemetry"
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
	id := b.open(session.CreateRequest{Config: events.Config{Model: "small"}})
	var seen []session.TokenUsage
	b.turnEvents(b.Host, id, "t1", func(e session.SessionEvent) {
		if e.Type == session.EventTokenUsage {
			seen = append(seen, *e.Usage, *e.Cumulative)
		}
	})
	all := session.TokenUsage{Input: 130, Output: 12}
	equalLists(t, "usage in events", seen, []session.TokenUsage{all, all})
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

// TestFailedTriesAreMeasured has model calls succeed after a failed try, and fail for good, in turns and outside of them:
// the metrics have what every try used.
func TestFailedTriesAreMeasured(t *testing.T) {
	t.Parallel()
	ways := map[string]func(b *bundle, h *session.Host, id events.SessionID){
		"turn": func(b *bundle, _ *session.Host, id events.SessionID) {
			b.submit(id, "t1", text("hi"))
			b.ended(id, "t1")
		},
		"completion": func(b *bundle, h *session.Host, id events.SessionID) {
			_, _ = h.Complete(b.ctx, id, asks("a title?"), "title")
		},
	}
	refused := step(func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Usage: events.Usage{Input: 1000}}, Err: &llm.Error{Kind: llm.KindRequest, Message: "no"}}, nil
	})
	for where, ask := range ways {
		for name, c := range map[string]struct {
			last step
			want float64
		}{"succeeds": {reply(text("hi")), 110}, "fails": {refused, 1100}} {
			t.Run(where+"_"+name, func(t *testing.T) {
				t.Parallel()
				b := setupIdle(t, breaksOff(100, 3), c.last)
				reg := prometheus.NewRegistry()
				m, err := telemetry.NewMetrics(reg)
				must(t, "metrics", err, nil)
				b.trace = m.Trace
				n, _ := b.nodeOn(b.bus)
				ask(b, n.Host(), b.open(session.CreateRequest{Config: events.Config{Model: "small"}}))
				equal(t, "input tokens", inputTokens(t, reg), c.want)
			})
		}
	}
}

// inputTokens are those that were counted.
func inputTokens(t *testing.T, reg *prometheus.Registry) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	must(t, "gather", err, nil)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "lash_tokens_total" && l.GetValue() == "input" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}
