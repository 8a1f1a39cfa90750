package events_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// BenchmarkCodec uses a commit of two events of typical size.
func BenchmarkCodec(b *testing.B) {
	c := commitOf("01JAAAAAAAAAAAAAAAAAAAAAAA",
		events.Of("t1", &events.ModelReplied{
			Iteration: 1, Stop: events.StopToolUse, Usage: events.Usage{Input: 100, Output: 5},
			Prompt: events.PromptRef{Digest: strings.Repeat("a", 64), Leaf: "m1"},
			Parts: []events.Part{
				{Kind: events.PartText, Text: strings.Repeat("x", 300)},
				{Kind: events.PartToolCall, Call: "call_1", Tool: "search", Args: []byte(`{"q":"x"}`)},
			},
		}),
		events.Of("t1", &events.ToolReturned{Iteration: 1, Results: []events.ToolResult{{Text: strings.Repeat("y", 300)}}}),
	)
	c.Actor.ID = "w1"
	data, err := events.Encode(c)
	runtest.NoError(b, err)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			_, err := events.Encode(c)
			runtest.NoError(b, err)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			_, err := events.Decode(data)
			runtest.NoError(b, err)
		}
	})
}

// BenchmarkEncodeTurn uses the commits that most turns consist of.
func BenchmarkEncodeTurn(b *testing.B) {
	c := commitOf("01JAAAAAAAAAAAAAAAAAAAAAAA",
		events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}),
		events.Of("t1", &events.ModelReplied{
			Iteration: 1, Stop: events.StopToolUse, Usage: events.Usage{Input: 100, Output: 5}, Provider: "anthropic", Model: "claude",
			Prompt: events.PromptRef{Digest: strings.Repeat("a", 64), Leaf: "m1", Config: 1}, Millis: 900,
			Parts: []events.Part{
				{Kind: events.PartText, Text: strings.Repeat("x", 1<<10)},
				{Kind: events.PartToolCall, Call: "call_1", Tool: "search", Args: []byte(`{"q":"x"}`)},
			},
		}),
		events.Of("t1", &events.ToolReturned{Iteration: 1, Results: []events.ToolResult{{Text: strings.Repeat("y", 1<<10), Millis: 20}}}),
	)
	c.Actor.ID = "w1"
	b.ReportAllocs()
	for b.Loop() {
		_, err := events.Encode(c)
		runtest.NoError(b, err)
	}
}

// BenchmarkCommitHash hashes a commit of every field of a model's reply.
func BenchmarkCommitHash(b *testing.B) {
	data := encode(b, goldenCommit(events.KindModelReplied))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		_ = events.CommitHash(data)
	}
}
