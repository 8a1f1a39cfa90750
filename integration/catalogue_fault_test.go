package integration

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func faultEntries() []entry {
	return []entry{
		{"T22", "a turn whose final commit cannot be written", "reopened", "shows the last committed state; the turn is done once", testCommitFails},
		{"T23", "a commit of progress that cannot be written for a while", "the turn goes on", "it is written then, and nothing runs again", testProgressFails},
		{"T24", "a process killed in the middle of calls", "another goes on", "messages up to that point, a valid prompt, no call twice", testKilled},
	}
}

func testCommitFails(t *testing.T) {
	b := setupIdle(t)
	away := bustest.Open(t, b.server)
	b.model.script = []step{first(away.Close, reply(text("never written"))), reply(text("hi"))}
	id := b.open(api.CreateRequest{})
	kill := b.work(away)
	b.submit(id, "t1", text("hello"))
	b.await(id, "the start", func(s *projector.State) bool { return s.Turn() != nil })
	h := b.otherHost()
	v, err := h.View(b.ctx, id)
	must(t, "view", err, nil)
	equalLists(t, "messages of the reopened session", transcript(v.Messages), []string{"user hello"})
	kill()
	b.work(b.bus)
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndFinished)
	equal(t, "attempts", record.Attempts, 2)
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant hi"})
}

// testKilled stops a worker in its second round of tools: one call has its
// result, one that must not run twice and one that may are under way.
func testKilled(t *testing.T) {
	begun := make(chan string, 8)
	b := setupListening(t,
		reply(text("first"), call("k", "add", `{"A":1,"B":2}`)),
		reply(call("k", "add", `{"A":3,"B":4}`), call("k", "once", "{}"), call("k", "again", "{}")),
		reply(text("done")))
	adder(b, events.EffectsNonIdempotent)
	hang := func(name string) func(context.Context, plugin.Call, struct{}) (string, error) {
		var calls atomic.Int64
		return func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			n := calls.Add(1)
			begun <- name + " " + c.Key
			if n > 1 {
				return "ran again", nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		}
	}
	plugin.AddTool(b.tools, plugin.Tool{Name: "once"}, hang("once"))
	plugin.AddTool(b.tools, plugin.Tool{Name: "again", Effects: events.EffectsIdempotent}, hang("again"))
	kill := b.process("", nil)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	keys := []string{receive(b, "a call", begun), receive(b, "another call", begun)}
	b.await(id, "the first result", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && len(t.Calls) == 3 && t.Calls[0].Done
	})
	kill()
	equalLists(t, "messages after the kill", b.messages(id), []string{
		"user hello", `assistant first k:add{"A":1,"B":2}`, "user k=3", `assistant k:add{"A":3,"B":4} k:once{} k:again{}`,
	})
	b.work(b.bus)
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndFinished)
	equal(t, "attempts", record.Attempts, 2)
	third := receive(b, "the call again", begun)
	if third != keys[0] && third != keys[1] {
		t.Errorf("key of the call that ran again: got %s, want one of %v", third, keys)
	}
	equal(t, "tools that ran again", len(begun), 0)
	equal(t, "tool that ran again", third[:5], "again")
	equalLists(t, "last prompt", b.model.prompt(2), []string{
		"user hello", `assistant first k:add{"A":1,"B":2}`, "user k=3",
		`assistant k:add{"A":3,"B":4} k:once{} k:again{}`, "user k=7 k=" + projector.LostText + " k=ran again",
	})
	equal(t, "model calls", len(b.model.asked()), 3)
	var lost []int64
	for _, p := range find[*events.ToolLost](b, id) {
		lost = append(lost, p.Calls...)
	}
	equalLists(t, "calls lost", lost, []int64{1})
}
