package catalogue

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

func turnEntries() []entry {
	return []entry{
		{"T01", "text reply ends the turn", "a text reply", "turn", "finished with the text; the history ends with the outcome", testTextReply},
		{"T02", "tool call and then text", "a tool call, then text", "turn", "two iterations, call and result in messages, final text", testToolTurn},
		{"T03", "turns of a session run one after the other", "a running turn", "second start", "it waits: one turn at a time, in order", testSecondTurn},
		{"T04", "second await has the same result", "a finished turn", "await twice", "same result twice", testAwaitTwice},
		{"T05", "unknown turn is an error", "an unknown turn", "await, cancel", "error", testUnknownTurn},
		{"T06", "slow watcher does not stop the turn", "a consumer that does not read", "turn", "completes", testSlowConsumer},
		{"T12", "empty input is an empty text", "an empty input", "turn", "one empty text part", testEmptyInput},
		{"T25", "turn id is idempotent", "the same turn id", "submitted twice", "same result; with other content a conflict", testSameTurn},
		{"T28", "turn index counts up", "turn N", "next turn", "index N+1", testTurnIndex},
	}
}

// lastEvent is the newest event of a session.
func lastEvent(b *harness.System, id events.SessionID) events.Event {
	b.T.Helper()
	list := b.History(id)
	return list[len(list)-1]
}

func testTextReply(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndFinished)
	runtest.Equal(t, "text", r.Text, "hi")
	runtest.Equal(t, "usage", r.Usage, events.Usage{Input: 10, Output: 5})
	runtest.Equal(t, "model calls", r.ModelCalls, 1)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant hi"})
	runtest.Equal(t, "last event", lastEvent(b, id).Kind, events.KindTurnCompleted)
	runtest.Equal(t, "outcomes", len(harness.Find[*events.TurnCompleted](b, id)), 1)
	s := b.StateOf(id)
	if !s.Idle() {
		t.Error("state: got busy, want idle")
	}
	runtest.Equal(t, "ledger", s.Ledger[0].Usage.Total(), 15)
}

func testToolTurn(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("let me see"), harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Reply(harness.Text("3")))
	harness.AddTool(b, events.EffectsNonIdempotent)
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("1+2?"))
	runtest.Equal(t, "end", r.End, events.EndFinished)
	runtest.Equal(t, "text", r.Text, "3")
	runtest.Equal(t, "model calls", r.ModelCalls, 2)
	runtest.Equal(t, "tool calls", r.ToolCalls, 1)
	want := []string{"user 1+2?", `assistant let me see k:add{"A":1,"B":2}`, "user k=3", "assistant 3"}
	runtest.EqualLists(t, "messages", b.Messages(id), want)
	runtest.EqualLists(t, "second prompt", b.Model.Prompt(1), want[:3])
	runtest.Equal(t, "tools offered", b.Model.Requests()[0].Tools[0].Name, "add")
	s := b.StateOf(id)
	for _, p := range harness.Find[*events.ModelReplied](b, id) {
		if len(p.Prompt.Digest) != 64 {
			t.Errorf("prompt of iteration %d: got %v, want a digest", p.Iteration, p.Prompt)
		}
	}
	runtest.WantError(t, "check", s.Check(), nil)
}

func testSecondTurn(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := harness.Start(t, harness.DoFirst(func() { close(started); <-release }, harness.Reply(harness.Text("one"))), harness.Reply(harness.Text("two")), harness.Reply(harness.Text("three")))
	b.StartWorker(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("1"))
	harness.Receive(b, "the start", started)
	b.StartTurn(id, "t2", harness.Text("2"))
	b.AwaitState(id, "t2 in the queue", func(s *projector.State) bool { return len(s.Queue) == 1 })
	b.StartTurn(id, "t3", harness.Text("3"))
	s := b.AwaitState(id, "t3 in the queue", func(s *projector.State) bool { return len(s.Queue) == 2 })
	runtest.Equal(t, "running", s.Turn().ID, "t1")
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 1)
	close(release)
	runtest.Equal(t, "index of t3", b.AwaitTurn(id, "t3").Index, 3)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user 1", "assistant one", "user 2", "assistant two", "user 3", "assistant three"})
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 3)
}

func testAwaitTwice(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	for _, h := range []*session.Host{b.Host, b.Host, b.OtherHost()} {
		again, err := h.Await(b.Ctx, id, "t1")
		runtest.WantError(t, "await", err, nil)
		runtest.Equal(t, "result", again, r)
	}
}

func testUnknownTurn(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	_, err := b.Await(b.Ctx, id, "t9")
	runtest.WantError(t, "await", err, api.ErrUnknownTurn)
	_, _, err = b.Cancel(b.Ctx, id, "t9", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, api.ErrUnknownTurn)
	_, err = b.Await(b.Ctx, "nobody", "t9")
	runtest.WantError(t, "await in an unknown session", err, events.ErrNoSession)
	_, err = b.Submit(b.Ctx, "nobody", api.TurnRequest{})
	runtest.WantError(t, "submit to an unknown session", err, events.ErrNoSession)
}

// testSlowConsumer has a turn with more output than any buffer. Its own stream is closed at once, or after the
// first event, or is read only after the turn: that one has the end of the turn.
func testSlowConsumer(t *testing.T) {
	much := make([]events.Part, 600)
	for i := range much {
		much[i] = harness.Text(strings.Repeat("x", 100))
	}
	all := 0
	for i := range much {
		all += len(much[i].Text)
	}
	b := harness.Start(t, harness.Reply(much...), harness.Reply(much...), harness.Reply(much...))
	id := b.Open(api.CreateRequest{})
	live, err := b.Bus.Live(id, 1) // and no client reads it
	runtest.WantError(t, "watch", err, nil)
	defer live.Close()
	other, err := bustest.Open(t, b.Server).Live(id, 1)
	runtest.WantError(t, "watch", err, nil)
	other.Close() // this one has gone
	for turn, read := range map[events.TurnID]int{"t1": 0, "t2": 1, "t3": -1} {
		_, stream, err := b.StartTurnStream(b.Ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{harness.Text("hello")}}})
		runtest.WantError(t, "start", err, nil)
		if read > 0 {
			for _, err := range stream {
				runtest.WantError(t, "first event", err, nil)
				break
			}
		}
		runtest.Equal(t, "end of "+string(turn), b.AwaitTurn(id, turn).End, events.EndFinished)
		got, err := b.AssembledTurn(b.Ctx, id, turn)
		runtest.WantError(t, "assemble", err, nil)
		runtest.Equal(t, "text of "+string(turn), len(got.Output.RawText), all)
		if read >= 0 {
			continue
		}
		var tags []api.EventType
		for e, err := range stream {
			runtest.WantError(t, "late event", err, nil)
			tags = append(tags, e.Type)
		}
		runtest.EqualLists(t, "last events, read late", tags[max(len(tags)-2, 0):], []api.EventType{api.EventTurnOutcome, api.EventDone})
	}
}

func testEmptyInput(t *testing.T) {
	tests := map[string][]events.Part{"nothing": nil, "empty": {harness.Text("")}, "two": {harness.Text(""), harness.Text("")}}
	b := harness.Start(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("hi")))
	for name, parts := range tests {
		id := b.Open(api.CreateRequest{})
		runtest.Equal(t, name, b.RunTurn(id, "t1", parts...).End, events.EndFinished)
		v, err := b.View(b.Ctx, id)
		runtest.WantError(t, "view", err, nil)
		if got := v.Messages[0].Parts; len(got) != 1 || got[0].Kind != events.PartText || got[0].Text != "" {
			t.Errorf("%s: got parts %v, want one empty text", name, got)
		}
	}
	requests := b.Model.Requests()
	runtest.Equal(t, "parts that the model sees", len(requests[0].Messages[0].Parts), 1)
}

func testSameTurn(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("on")))
	id := b.Open(api.CreateRequest{})
	unaware := b.OtherHost()
	if _, err := unaware.State(b.Ctx, id); err != nil { // it knows the session without the turn
		t.Fatal(err)
	}
	one := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "again", b.RunTurn(id, "t1", harness.Text("hello")), one)
	same := api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("hello")}}}
	again, err := b.OtherHost().Run(b.Ctx, id, same)
	runtest.WantError(t, "again on another host", err, nil)
	runtest.Equal(t, "again on another host", again, one)
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 1)
	runtest.Equal(t, "requests", len(harness.Find[*events.TurnRequested](b, id)), 1)
	other := api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("goodbye")}}}
	for name, h := range map[string]*session.Host{"same": b.Host, "fresh": b.OtherHost(), "unaware": unaware} {
		_, err := h.Run(b.Ctx, id, other)
		runtest.WantError(t, "other content on the "+name+" host", err, api.ErrDifferent)
	}
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("hello")).Text, "on")
}

func testTurnIndex(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("one")), harness.Fail(llm.KindRequest, ""), harness.Reply(harness.Text("three")))
	id := b.Open(api.CreateRequest{})
	for n := int64(1); n <= 3; n++ {
		runtest.Equal(t, "index", b.RunTurn(id, "", harness.Text("go")).Index, n)
		runtest.Equal(t, "turns", b.StateOf(id).Turns, n)
	}
}
