package system

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/telemetry"
)

// breaksOff is an attempt that fails in the middle, with a usage.
func breaksOff(input, output int64) harness.Step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{
			Response: llm.Response{Parts: []events.Part{harness.Text("wro")}, Usage: events.Usage{Input: input, Output: output}},
			Err:      &llm.Error{Kind: llm.KindServer, Message: "broken off"},
		}, nil
	}
}

// TestFailedTriesCount has attempts of a call fail before one succeeds. The turn, its events, its record, and the
// ledger count the usage of each; the size of the prompt is that of the last one only. A completion outside of
// turns counts in the same way.
func TestFailedTriesCount(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, breaksOff(100, 3), breaksOff(20, 4), harness.Reply(harness.Text("hi")), breaksOff(7, 2), harness.Reply(harness.Text("A talk")))
	n, _ := b.StartNodeOn(b.Bus)
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	var seen []api.TokenUsage
	b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventTokenUsage {
			seen = append(seen, *e.Usage, *e.Cumulative)
		}
	})
	all := api.TokenUsage{Input: 130, Output: 12}
	runtest.EqualLists(t, "usage in events", seen, []api.TokenUsage{all, all})
	runtest.Equal(t, "usage of the turn", b.AwaitTurn(id, "t1").Usage, events.Usage{Input: 130, Output: 12})
	assembled, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "whole turn", err, nil)
	runtest.Equal(t, "usage in its record", assembled.Usage, all)
	runtest.Equal(t, "usage of its call", assembled.ModelCalls[0].Usage, all)
	runtest.Equal(t, "tokens of the prompt", b.StateOf(id).Prompted, 10)
	runtest.EqualLists(t, "ledger", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("turn", "small", 130, 12)})
	got, err := n.Host().Complete(b.Ctx, id, harness.CompletionOf("a title?"), "title")
	runtest.WantError(t, "complete", err, nil)
	runtest.Equal(t, "usage of a completion", got.Usage, events.Usage{Input: 17, Output: 7})
	runtest.EqualLists(t, "ledger", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("title", "small", 17, 7), harness.LedgerRow("turn", "small", 130, 12)})
}

// TestFailedTriesAreMeasured has model calls succeed after a failed try, and fail for good, in turns and outside of them:
// the metrics have what every try used.
func TestFailedTriesAreMeasured(t *testing.T) {
	t.Parallel()
	ways := map[string]func(b *harness.System, h *session.Host, id events.SessionID){
		"turn": func(b *harness.System, _ *session.Host, id events.SessionID) {
			b.StartTurn(id, "t1", harness.Text("hi"))
			b.AwaitTurn(id, "t1")
		},
		"completion": func(b *harness.System, h *session.Host, id events.SessionID) {
			_, _ = h.Complete(b.Ctx, id, harness.CompletionOf("a title?"), "title")
		},
	}
	refused := harness.Step(func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Usage: events.Usage{Input: 1000}}, Err: &llm.Error{Kind: llm.KindRequest, Message: "no"}}, nil
	})
	for where, ask := range ways {
		for name, c := range map[string]struct {
			last harness.Step
			want float64
		}{"succeeds": {harness.Reply(harness.Text("hi")), 110}, "fails": {refused, 1100}} {
			t.Run(where+"_"+name, func(t *testing.T) {
				t.Parallel()
				b := harness.StartIdle(t, breaksOff(100, 3), c.last)
				reg := prometheus.NewRegistry()
				m, err := telemetry.NewMetrics(reg)
				runtest.WantError(t, "metrics", err, nil)
				b.TraceTo = m.Trace
				n, _ := b.StartNodeOn(b.Bus)
				ask(b, n.Host(), b.Open(api.CreateRequest{Config: events.Config{Model: "small"}}))
				runtest.Equal(t, "input tokens", inputTokens(t, reg), c.want)
			})
		}
	}
}

// inputTokens are those that were counted.
func inputTokens(t *testing.T, reg *prometheus.Registry) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	runtest.WantError(t, "gather", err, nil)
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
