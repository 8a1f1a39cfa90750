package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

func turnEntries() []entry {
	return []entry{
		{"T01", "a text reply", "turn", "finished with the text; the history ends with the outcome", testTextReply},
		{"T02", "a tool call, then text", "turn", "two iterations, call and result in messages, final text", testToolTurn},
		{"T03", "a running turn", "second start", "it waits: one turn at a time, in order", testSecondTurn},
		{"T04", "a finished turn", "await twice", "same result twice", testAwaitTwice},
		{"T05", "an unknown turn", "await, cancel", "error", testUnknownTurn},
		{"T06", "a consumer that does not read", "turn", "completes", testSlowConsumer},
		{"T12", "an empty input", "turn", "one empty text part", testEmptyInput},
		{"T25", "the same turn id", "submitted twice", "same result; with other content a conflict", testSameTurn},
		{"T28", "turn N", "next turn", "index N+1", testTurnIndex},
	}
}

// lastEvent is the newest event of a session.
func (b *bundle) lastEvent(id events.SessionID) events.Event {
	b.t.Helper()
	list := b.history(id)
	return list[len(list)-1]
}

func testTextReply(t *testing.T) {
	b := setup(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndFinished)
	equal(t, "text", r.Text, "hi")
	equal(t, "usage", r.Usage, events.Usage{Input: 10, Output: 5})
	equal(t, "model calls", r.ModelCalls, 1)
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant hi"})
	equal(t, "last event", b.lastEvent(id).Kind, events.KindTurnCompleted)
	equal(t, "outcomes", len(find[*events.TurnCompleted](b, id)), 1)
	s := b.state(id)
	if !s.Idle() {
		t.Error("state: got busy, want idle")
	}
	equal(t, "ledger", s.Ledger[0].Usage.Total(), 15)
}

// adder is a tool that adds.
func adder(b *bundle, effects events.Effects) {
	plugin.AddTool(b.tools, plugin.Tool{Name: "add", Effects: effects}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})
}

func testToolTurn(t *testing.T) {
	b := setupIdle(t, reply(text("let me see"), call("k", "add", `{"A":1,"B":2}`)), reply(text("3")))
	adder(b, events.EffectsNonIdempotent)
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("1+2?"))
	equal(t, "end", r.End, events.EndFinished)
	equal(t, "text", r.Text, "3")
	equal(t, "model calls", r.ModelCalls, 2)
	equal(t, "tool calls", r.ToolCalls, 1)
	want := []string{"user 1+2?", `assistant let me see k:add{"A":1,"B":2}`, "user k=3", "assistant 3"}
	equalLists(t, "messages", b.messages(id), want)
	equalLists(t, "second prompt", b.model.prompt(1), want[:3])
	equal(t, "tools offered", b.model.asked()[0].Tools[0].Name, "add")
	s := b.state(id)
	for _, p := range find[*events.ModelReplied](b, id) {
		if len(p.Prompt.Digest) != 64 {
			t.Errorf("prompt of iteration %d: got %v, want a digest", p.Iteration, p.Prompt)
		}
	}
	must(t, "check", s.Check(), nil)
}

func testSecondTurn(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	b := setup(t, first(func() { close(begun); <-release }, reply(text("one"))), reply(text("two")), reply(text("three")))
	b.work(bustest.Open(t, b.server))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("1"))
	receive(b, "begun", begun)
	b.submit(id, "t2", text("2"))
	b.await(id, "t2 in the queue", func(s *projector.State) bool { return len(s.Queue) == 1 })
	b.submit(id, "t3", text("3"))
	s := b.await(id, "t3 in the queue", func(s *projector.State) bool { return len(s.Queue) == 2 })
	equal(t, "running", s.Turn().ID, "t1")
	equal(t, "model calls", len(b.model.asked()), 1)
	close(release)
	equal(t, "index of t3", b.ended(id, "t3").Index, 3)
	equalLists(t, "messages", b.messages(id), []string{"user 1", "assistant one", "user 2", "assistant two", "user 3", "assistant three"})
	equal(t, "model calls", len(b.model.asked()), 3)
}

func testAwaitTwice(t *testing.T) {
	b := setup(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("hello"))
	for _, h := range []*session.Host{b.Host, b.Host, b.otherHost()} {
		again, err := h.Await(b.ctx, id, "t1")
		must(t, "await", err, nil)
		equal(t, "result", again, r)
	}
}

func testUnknownTurn(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	_, err := b.Await(b.ctx, id, "t9")
	must(t, "await", err, api.ErrUnknownTurn)
	_, _, err = b.Cancel(b.ctx, id, "t9", api.CancelRequest{})
	must(t, "cancel", err, api.ErrUnknownTurn)
	_, err = b.Await(b.ctx, "nobody", "t9")
	must(t, "await in an unknown session", err, events.ErrNoSession)
	_, err = b.Submit(b.ctx, "nobody", api.TurnRequest{})
	must(t, "submit to an unknown session", err, events.ErrNoSession)
}

// testSlowConsumer has a turn say more than any buffer holds. Its own stream is dropped at
// once, or after the first event; or it is read only after the turn: that one has the end of it.
func testSlowConsumer(t *testing.T) {
	much := make([]events.Part, 600)
	for i := range much {
		much[i] = text(strings.Repeat("x", 100))
	}
	all := 0
	for i := range much {
		all += len(much[i].Text)
	}
	b := setup(t, reply(much...), reply(much...), reply(much...))
	id := b.open(api.CreateRequest{})
	live, err := b.bus.Live(id, 1) // and nobody reads it
	must(t, "watch", err, nil)
	defer live.Close()
	other, err := bustest.Open(t, b.server).Live(id, 1)
	must(t, "watch", err, nil)
	other.Close() // this one has gone
	for turn, read := range map[events.TurnID]int{"t1": 0, "t2": 1, "t3": -1} {
		_, stream, err := b.StartTurnStream(b.ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{text("hello")}}})
		must(t, "start", err, nil)
		if read > 0 {
			for _, err := range stream {
				must(t, "first event", err, nil)
				break
			}
		}
		equal(t, "end of "+string(turn), b.ended(id, turn).End, events.EndFinished)
		got, err := b.AssembledTurn(b.ctx, id, turn)
		must(t, "assemble", err, nil)
		equal(t, "text of "+string(turn), len(got.Output.RawText), all)
		if read >= 0 {
			continue
		}
		var tags []api.EventType
		for e, err := range stream {
			must(t, "late event", err, nil)
			tags = append(tags, e.Type)
		}
		equalLists(t, "last events, read late", tags[max(len(tags)-2, 0):], []api.EventType{api.EventTurnOutcome, api.EventDone})
	}
}

func testEmptyInput(t *testing.T) {
	tests := map[string][]events.Part{"nothing": nil, "empty": {text("")}, "two": {text(""), text("")}}
	b := setup(t, reply(text("hi")), reply(text("hi")), reply(text("hi")))
	for name, parts := range tests {
		id := b.open(api.CreateRequest{})
		equal(t, name, b.run(id, "t1", parts...).End, events.EndFinished)
		v, err := b.View(b.ctx, id)
		must(t, "view", err, nil)
		if got := v.Messages[0].Parts; len(got) != 1 || got[0].Kind != events.PartText || got[0].Text != "" {
			t.Errorf("%s: got parts %v, want one empty text", name, got)
		}
	}
	asked := b.model.asked()
	equal(t, "parts that the model sees", len(asked[0].Messages[0].Parts), 1)
}

func testSameTurn(t *testing.T) {
	b := setup(t, reply(text("hi")), reply(text("on")))
	id := b.open(api.CreateRequest{})
	unaware := b.otherHost()
	if _, err := unaware.State(b.ctx, id); err != nil { // it knows the session without the turn
		t.Fatal(err)
	}
	one := b.run(id, "t1", text("hello"))
	equal(t, "again", b.run(id, "t1", text("hello")), one)
	same := api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("hello")}}}
	again, err := b.otherHost().Run(b.ctx, id, same)
	must(t, "again on another host", err, nil)
	equal(t, "again on another host", again, one)
	equal(t, "model calls", len(b.model.asked()), 1)
	equal(t, "requests", len(find[*events.TurnRequested](b, id)), 1)
	other := api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("goodbye")}}}
	for name, h := range map[string]*session.Host{"same": b.Host, "fresh": b.otherHost(), "unaware": unaware} {
		_, err := h.Run(b.ctx, id, other)
		must(t, "other content on the "+name+" host", err, api.ErrDifferent)
	}
	equal(t, "next turn", b.run(id, "t2", text("hello")).Text, "on")
}

func testTurnIndex(t *testing.T) {
	b := setup(t, reply(text("one")), fails(llm.KindRequest, ""), reply(text("three")))
	id := b.open(api.CreateRequest{})
	for n := int64(1); n <= 3; n++ {
		equal(t, "index", b.run(id, "", text("go")).Index, n)
		equal(t, "turns", b.state(id).Turns, n)
	}
}
