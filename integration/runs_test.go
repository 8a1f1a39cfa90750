package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// TestCancelledWhileAlternating cancels a turn whose model has alternated text and reasoning many times: it is cancelled, and keeps all of it.
func TestCancelledWhileAlternating(t *testing.T) {
	t.Parallel()
	const runs = 13_000
	streamed := make(chan struct{})
	b := setupIdle(t)
	b.stream(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for range runs {
			sink(spoken("said "))
			sink(llm.Delta{Kind: events.PartReasoning, Text: "hm "})
		}
		close(streamed)
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}, func(context.Context, func(llm.Delta)) (llm.Response, error) { return said("on") })
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	receive(b, "all of it", streamed)
	b.cancel(id, "t1", api.CancelRequest{}, api.CancelRequested)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	cut := find[*events.ModelInterrupted](b, id)
	equal(t, "interrupted replies", len(cut), 1)
	whole, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "whole turn", err, nil)
	equal(t, "raw text", whole.Output.RawText == strings.Repeat("said ", runs), true)
	b.run(id, "t2", text("go on"))
	verified(t, b.bus, id)
}
