package system

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// TestProviderTextIsBounded has a provider send too much text in the fields beside the parts, in replies and in failures.
// The turn ends as with any other provider, its cost is in the history, and the recorded text is bounded.
func TestProviderTextIsBounded(t *testing.T) {
	t.Parallel()
	huge := llm.Response{
		Model: strings.Repeat("m", 3<<20), ID: strings.Repeat("i", 3<<20), Stop: events.StopEnd,
		Usage: events.Usage{Input: math.MaxInt64, Output: math.MinInt64},
	}
	failing := namedProvider{"says", func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		res := huge
		res.Parts = []events.Part{harness.Text("hi")}
		return res, nil
	}}
	fails := namedProvider{"fails", func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return huge, &llm.Error{Kind: llm.KindServer, Code: strings.Repeat("c", 3<<20), Message: "down"}
	}}
	many := func(id string, n int, part events.Part) namedProvider {
		return namedProvider{id, func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
			return llm.Response{Model: "m1", Stop: events.StopEnd, Parts: append(slices.Repeat([]events.Part{part}, n), harness.Text("hi")), Usage: events.Usage{Output: 7}}, nil
		}}
	}
	long := strings.Repeat("x", 50<<10)
	large := []namedProvider{
		many("meta", 6, events.Part{Kind: events.PartReasoning, Text: "so", Meta: []byte(`"` + long + `"`)}),
		many("parts", 30_000, harness.Text("x")),
		many("bodies", 4000, harness.Text(strings.Repeat("x", 500))),
		many("ids", 6, events.Part{Kind: events.PartToolCall, Call: events.CallID(long), Tool: "t", Args: []byte("{}")}),
		many("names", 6, events.Part{Kind: events.PartToolCall, Call: "c", Tool: long, Args: []byte("{}")}),
		many("calls", 2000, events.Part{Kind: events.PartToolCall, Call: "c", Tool: "t", Args: []byte("{}")}),
		many("kind", 1, events.Part{Kind: "unheard-of", Text: "x"}),
	}
	ends := map[string]events.TurnEnd{"says": events.EndFinished, "fails": events.EndProviderError}
	codes := map[string]string{"calls": "too_many_calls", "kind": "reply_invalid"}
	for _, p := range large {
		ends[p.id], codes[p.id] = events.EndProviderError, cmp.Or(codes[p.id], "reply_too_large")
	}
	b := harness.StartIdle(t)
	turnServes(b, bustest.Open(t, b.Server), append(large, failing, fails)...)
	for provider, end := range ends {
		t.Run(provider, func(t *testing.T) { //nolint:paralleltest // one node
			id := b.Open(api.CreateRequest{Config: events.Config{Provider: provider, Model: "m1"}})
			b.StartTurn(id, "t1", harness.Text("hi"))
			record := b.AwaitTurn(id, "t1")
			runtest.Equal(t, "end", record.End, end)
			if codes[provider] != "" {
				runtest.Equal(t, "code", record.Issue.Code, codes[provider])
			}
			s := b.StateOf(id)
			runtest.Equal(t, "rows of the ledger", len(s.Ledger), 1)
			for _, row := range s.Ledger {
				if codes[provider] != "" && row.Usage.Output < 7 {
					t.Errorf("got a usage of %+v, want what the refused reply cost", row.Usage)
				}
				if len(row.Model) > events.MaxIDBytes {
					t.Errorf("got a model of %d bytes in the ledger, want at most %d", len(row.Model), events.MaxIDBytes)
				}
				if u := row.Usage; u.Input < 0 || u.Output < 0 {
					t.Errorf("got a usage of %+v, want none below zero", u)
				}
			}
		})
	}
}
