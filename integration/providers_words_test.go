package integration

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// TestProvidersWords has a provider say far too much of what is kept of its reply beside the parts, in replies and in
// failures: the turn ends as with any other provider, its cost is in the history, and what is recorded is bounded.
func TestProvidersWords(t *testing.T) {
	t.Parallel()
	huge := llm.Response{
		Model: strings.Repeat("m", 3<<20), ID: strings.Repeat("i", 3<<20), Stop: events.StopEnd,
		Usage: events.Usage{Input: math.MaxInt64, Output: math.MinInt64},
	}
	says := other{"says", func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		res := huge
		res.Parts = []events.Part{text("hi")}
		return res, nil
	}}
	fails := other{"fails", func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return huge, &llm.Error{Kind: llm.KindServer, Code: strings.Repeat("c", 3<<20), Message: "down"}
	}}
	large := other{"large", func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		part := events.Part{Kind: events.PartReasoning, Text: "so", Meta: []byte(`"` + strings.Repeat("x", 50<<10) + `"`)}
		return llm.Response{Model: "m1", Stop: events.StopEnd, Parts: []events.Part{part, part, part, text("hi")}, Usage: events.Usage{Output: 7}}, nil
	}}
	b := setupIdle(t)
	b.serves(bustest.Open(t, b.server), says, fails, large)
	for provider, end := range map[string]events.TurnEnd{"says": events.EndFinished, "fails": events.EndProviderError, "large": events.EndProviderError} {
		t.Run(provider, func(t *testing.T) { //nolint:paralleltest // one node
			id := b.open(api.CreateRequest{Config: events.Config{Provider: provider, Model: "m1"}})
			b.submit(id, "t1", text("hi"))
			equal(t, "end", b.ended(id, "t1").End, end)
			s := b.state(id)
			equal(t, "rows of the ledger", len(s.Ledger), 1)
			for _, row := range s.Ledger {
				if provider == "large" && row.Usage.Output < 7 {
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
