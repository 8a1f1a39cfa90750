package system

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestResultTooLarge has tools return 65 MiB, which is above the limit of a blob: the call fails, with the limit
// in its text, and the tool does not run again.
func TestResultTooLarge(t *testing.T) {
	t.Parallel()
	const size = 65 << 20
	want := fmt.Sprintf("[failed] text: has %d bytes, limit is %d", size, events.MaxBlobBytes)
	for name, effects := range map[string]events.Effects{
		"idempotent": events.EffectsIdempotent, "non_idempotent": events.EffectsNonIdempotent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Call("k", "dump", `{}`)), harness.Reply(harness.Text("so be it")))
			var runs atomic.Int64
			plugin.AddTool(b.Tools, plugin.Tool{Name: "dump", Effects: effects}, func(context.Context, plugin.Call, struct{}) (string, error) {
				runs.Add(1)
				return strings.Repeat("x", size), nil
			})
			b.StartWorker(b.Bus)
			id := b.Open(api.CreateRequest{})
			got := b.RunTurn(id, "t1", harness.Text("go"))
			runtest.Equal(t, "end", got.End, events.EndFinished)
			runtest.Equal(t, "answer", got.Text, "so be it")
			runtest.Equal(t, "runs", runs.Load(), 1)
			runtest.Equal(t, "what the model reads", b.Messages(id)[2], "user k="+want)
			returned := harness.Find[*events.ToolReturned](b, id)
			if len(returned) != 1 {
				t.Fatalf("records of results: got %d, want 1", len(returned))
			}
			r := returned[0].Results[0]
			runtest.Equal(t, "outcome", r.Outcome, events.OutcomeFailure)
			runtest.Equal(t, "class", r.Class, plugin.ClassResourceLimit)
			runtest.Equal(t, "code", r.Code, "tool_result_too_large")
			runtest.Equal(t, "recorded text", r.Text, want)
			runtest.Equal(t, "lost calls", len(harness.Find[*events.ToolLost](b, id)), 0)
			runtest.Equal(t, "attempts at the turn", len(harness.Find[*events.TurnStarted](b, id)), 1)
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}
