package system

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// TestCancelledWhileAlternating cancels a turn whose model has alternated text and reasoning many times: all of it
// is recorded.
func TestCancelledWhileAlternating(t *testing.T) {
	t.Parallel()
	const runs = 13_000
	streamed := make(chan struct{})
	b := harness.StartIdle(t)
	b.StartStreaming(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for range runs {
			sink(harness.TextDelta("said "))
			sink(llm.Delta{Kind: events.PartReasoning, Text: "hm "})
		}
		close(streamed)
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}, func(context.Context, func(llm.Delta)) (llm.Response, error) { return harness.StreamedReply("on") })
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "all of it", streamed)
	b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelRequested)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	cut := harness.Find[*events.ModelInterrupted](b, id)
	runtest.Equal(t, "interrupted replies", len(cut), 1)
	assembled, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "whole turn", err, nil)
	runtest.Equal(t, "raw text", assembled.Output.RawText == strings.Repeat("said ", runs), true)
	b.RunTurn(id, "t2", harness.Text("go on"))
	harness.VerifyHistory(t, b.Bus, id)
}
