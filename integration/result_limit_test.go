package integration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestResultTooLarge has tools return 65 MiB, which no body outside the log
// holds: the call fails, with the limit in its text, and the tool is not run again.
func TestResultTooLarge(t *testing.T) {
	t.Parallel()
	const size = 65 << 20
	want := fmt.Sprintf("[failed] text: has %d bytes, limit is %d", size, events.MaxBlobBytes)
	for name, effects := range map[string]events.Effects{
		"idempotent": events.EffectsIdempotent, "non_idempotent": events.EffectsNonIdempotent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, reply(call("k", "dump", `{}`)), reply(text("so be it")))
			var runs atomic.Int64
			plugin.AddTool(b.tools, plugin.Tool{Name: "dump", Effects: effects}, func(context.Context, plugin.Call, struct{}) (string, error) {
				runs.Add(1)
				return strings.Repeat("x", size), nil
			})
			b.work(b.bus)
			id := b.open(api.CreateRequest{})
			got := b.run(id, "t1", text("go"))
			equal(t, "end", got.End, events.EndFinished)
			equal(t, "answer", got.Text, "so be it")
			equal(t, "runs", runs.Load(), 1)
			equal(t, "what the model reads", b.messages(id)[2], "user k="+want)
			returned := find[*events.ToolReturned](b, id)
			if len(returned) != 1 {
				t.Fatalf("records of results: got %d, want 1", len(returned))
			}
			r := returned[0].Results[0]
			equal(t, "outcome", r.Outcome, events.OutcomeFailure)
			equal(t, "class", r.Class, plugin.ClassResourceLimit)
			equal(t, "code", r.Code, "tool_result_too_large")
			equal(t, "recorded text", r.Text, want)
			equal(t, "lost calls", len(find[*events.ToolLost](b, id)), 0)
			equal(t, "attempts at the turn", len(find[*events.TurnStarted](b, id)), 1)
			verified(t, b.bus, id)
		})
	}
}
