package catalogue

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func faultEntries() []entry {
	return []entry{
		{"T22", "failed final commit is repeated once", "a turn whose final commit cannot be written", "reopened", "shows the last committed state; the turn is done once", testCommitFails},
		{"T23", "progress is written after an outage", "a commit of progress that cannot be written for a while", "the turn goes on", "it is written then, and nothing runs again", testProgressFails},
		{"T24", "killed node repeats no call", "a process killed in the middle of calls", "another goes on", "messages up to that point, a valid prompt, no call twice", testKilled},
	}
}

func testCommitFails(t *testing.T) {
	b := harness.StartIdle(t)
	secondBus := bustest.Open(t, b.Server)
	b.Model.Script = []harness.Step{harness.DoFirst(secondBus.Close, harness.Reply(harness.Text("never written"))), harness.Reply(harness.Text("hi"))}
	id := b.Open(api.CreateRequest{})
	kill := b.StartWorker(secondBus)
	b.StartTurn(id, "t1", harness.Text("hello"))
	b.AwaitState(id, "the start", func(s *projector.State) bool { return s.Turn() != nil })
	h := b.OtherHost()
	v, err := h.View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	runtest.EqualLists(t, "messages of the reopened session", harness.Transcript(v.Messages), []string{"user hello"})
	kill()
	b.StartWorker(b.Bus)
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFinished)
	runtest.Equal(t, "attempts", record.Attempts, 2)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant hi"})
}

// testKilled stops a worker in its second round of tools. One call has its result; one that must not run twice and
// one that may are running.
func testKilled(t *testing.T) {
	started := make(chan string, 8)
	b := setupListening(t,
		harness.Reply(harness.Text("first"), harness.Call("k", "add", `{"A":1,"B":2}`)),
		harness.Reply(harness.Call("k", "add", `{"A":3,"B":4}`), harness.Call("k", "once", "{}"), harness.Call("k", "again", "{}")),
		harness.Reply(harness.Text("done")))
	harness.AddTool(b, events.EffectsNonIdempotent)
	hang := func(name string) func(context.Context, plugin.Call, struct{}) (string, error) {
		var calls atomic.Int64
		return func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			n := calls.Add(1)
			started <- name + " " + c.Key
			if n > 1 {
				return "ran again", nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		}
	}
	plugin.AddTool(b.Tools, plugin.Tool{Name: "once"}, hang("once"))
	plugin.AddTool(b.Tools, plugin.Tool{Name: "again", Effects: events.EffectsIdempotent}, hang("again"))
	kill := process(b, "", nil)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	keys := []string{harness.Receive(b, "a call", started), harness.Receive(b, "another call", started)}
	b.AwaitState(id, "the first result", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && len(t.Calls) == 3 && t.Calls[0].Done
	})
	kill()
	runtest.EqualLists(t, "messages after the kill", b.Messages(id), []string{
		"user hello", `assistant first k:add{"A":1,"B":2}`, "user k=3", `assistant k:add{"A":3,"B":4} k:once{} k:again{}`,
	})
	b.StartWorker(b.Bus)
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFinished)
	runtest.Equal(t, "attempts", record.Attempts, 2)
	third := harness.Receive(b, "the call again", started)
	if third != keys[0] && third != keys[1] {
		t.Errorf("key of the call that ran again: got %s, want one of %v", third, keys)
	}
	runtest.Equal(t, "tools that ran again", len(started), 0)
	runtest.Equal(t, "tool that ran again", third[:5], "again")
	runtest.EqualLists(t, "last prompt", b.Model.Prompt(2), []string{
		"user hello", `assistant first k:add{"A":1,"B":2}`, "user k=3",
		`assistant k:add{"A":3,"B":4} k:once{} k:again{}`, "user k=7 k=" + projector.LostText + " k=ran again",
	})
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 3)
	var lost []int64
	for _, p := range harness.Find[*events.ToolLost](b, id) {
		lost = append(lost, p.Calls...)
	}
	runtest.EqualLists(t, "calls lost", lost, []int64{1})
}
