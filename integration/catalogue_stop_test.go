package integration

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func stopEntries() []entry {
	return []entry{
		{"T07", "a streaming model call after a tool", "cancel", "cancelled; streamed text is no part of the conversation, and kept beside it with what it cost; earlier results kept", testCancelModel},
		{"T08", "a running tool", "cancel", "cancelled output recorded", testCancelTool},
		{"T09", "a finished turn", "cancel", "completion won", testCancelLate},
		{"T10", "a cancelled turn", "cancel again", "already requested, with the first evidence", testCancelTwice},
		{"T11", "an attachment that does not exist", "turn", "invalid input; the call succeeds", testInvalidInput},
		{"T14", "an empty reply", "turn", "provider error, code empty_response", testEmptyReply},
		{"T15", "an empty reply after a tool result", "turn", "finished with empty text", testEmptyAfterTool},
		{"T16", "a limit of one and a tool loop", "turn", "max turns, notice visible", testLimit},
		{"T17", "a reply cut at the output limit", "turn", "incomplete", testOutputLimit},
		{"T18", "output limit, no output, window 96 % full", "turn", "context overflow, a provider error", testOverflow},
		{"T19", "a provider that fails twice", "turn", "two retry statuses, success on the third", testRetry},
		{"T20", "a provider that fails for good", "turn", "provider error, committed; the next turn works", testProviderError},
		{"T21", "arguments that are no JSON", "turn", "tool gets {}, or the schema's complaint reaches the model", testMalformedArgs},
	}
}

// cancel asks for the end of a turn and expects a receipt.
func (b *bundle) cancel(id events.SessionID, turn events.TurnID, req api.CancelRequest, want api.CancelReceipt) api.CancelRequest {
	b.t.Helper()
	got, evidence, err := b.Cancel(b.ctx, id, turn, req)
	must(b.t, "cancel", err, nil)
	equal(b.t, "receipt", got, want)
	return evidence
}

func testCancelModel(t *testing.T) {
	begun := make(chan struct{})
	b := setupIdle(t, reply(call("k", "add", `{"A":1,"B":2}`)), func(context.Context, llm.Request) (scripted.Answer, error) {
		close(begun)
		return scripted.Answer{Hang: true, Response: llm.Response{Model: "m-1", Usage: events.Usage{Input: 7, Output: 2}, Parts: []events.Part{
			{Kind: events.PartReasoning, Text: "hm"}, text("half "), text("a"), call("k2", "add", `{"A":1`),
		}}}, nil
	}, reply(text("on")))
	adder(b, events.EffectsNone)
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	receive(b, "begun", begun)
	b.cancel(id, "t1", api.CancelRequest{ID: "r1", Reason: "enough"}, api.CancelRequested)
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndCancelled)
	want := []string{"user hello", `assistant k:add{"A":1,"B":2}`, "user k=3"}
	equalLists(t, "messages", b.messages(id), want)
	equal(t, "evidence", find[*events.TurnCancelRequested](b, id)[0].Request, "r1")
	cut := find[*events.ModelInterrupted](b, id)
	equal(t, "interrupted replies", len(cut), 1)
	equalLists(t, "what came of it", transcript([]events.Message{{Parts: cut[0].Parts}}), []string{" hm half a"})
	equal(t, "what it cost", cut[0].Usage, events.Usage{Input: 7, Output: 2})
	equal(t, "usage of the turn", record.Usage, events.Usage{Input: 17, Output: 7})
	equal(t, "usage by model", b.state(id).Usage().ByModel["m-1"], cut[0].Usage)
	whole, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "assembled", err, nil)
	equal(t, "raw text", whole.Output.RawText, "half a")
	equal(t, "writes of the end", commitOf[*events.ModelInterrupted](b, id), commitOf[*events.TurnCompleted](b, id))
	b.run(id, "t2", text("go on"))
	equalLists(t, "next prompt", b.model.prompt(2), append(want, "user go on"))
	verified(t, b.bus, id)
}

// commitOf is the sequence of the first commit that has an event of the type.
func commitOf[P events.Payload](b *bundle, id events.SessionID) events.Seq {
	b.t.Helper()
	for entry, err := range b.bus.Log().Read(b.ctx, id, 1) {
		must(b.t, "read", err, nil)
		for i := range entry.Commit.Events {
			if _, ok := entry.Commit.Events[i].Payload.(P); ok {
				return entry.Seq
			}
		}
	}
	return 0
}

// TestFailedReplyKept has calls that fail while the model speaks: what the last one
// said is kept, and what all of them cost. Plugins that are asked at the end of turns change nothing about it.
func TestFailedReplyKept(t *testing.T) {
	t.Parallel()
	fails := func(said string, kind llm.ErrorKind) step {
		return func(context.Context, llm.Request) (scripted.Answer, error) {
			return scripted.Answer{
				Response: llm.Response{Parts: []events.Part{text(said)}, Usage: events.Usage{Input: 3, Output: 1}}, Err: &llm.Error{Kind: kind, Message: "cut"},
			}, nil
		}
	}
	b := setupIdle(t, fails("first", llm.KindTransport), fails("second half", llm.KindRequest), reply(text("on")))
	b.node(declares("last", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return nil, nil })
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("hello")).End, events.EndProviderError)
	cut := find[*events.ModelInterrupted](b, id)
	equal(t, "interrupted replies", len(cut), 1)
	equal(t, "failures", len(find[*events.ModelFailed](b, id)), 1)
	equalLists(t, "what came of it", transcript([]events.Message{{Parts: cut[0].Parts}}), []string{" second half"})
	equal(t, "what it cost", cut[0].Usage, events.Usage{Input: 6, Output: 2})
	equal(t, "attempts", cut[0].Attempts, 2)
	b.run(id, "t2", text("go on"))
	equalLists(t, "next prompt", b.model.prompt(2), []string{"user hello", "user go on"})
	verified(t, b.bus, id)
}

// TestCancelledReplyAtTheEnd cancels a reply where plugins are asked at the end of turns.
func TestCancelledReplyAtTheEnd(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	b := setupIdle(t, hangs(begun, text("half")), reply(text("on")))
	var asked atomic.Int64
	b.node(declares("last", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			asked.Add(1)
			return nil, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	receive(b, "begun", begun)
	b.cancel(id, "t1", api.CancelRequest{}, api.CancelRequested)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	equal(t, "asked", asked.Load(), 1)
	equal(t, "claims", len(find[*events.TurnStarted](b, id)), 1)
	equal(t, "interrupted replies", len(find[*events.ModelInterrupted](b, id)), 1)
	b.run(id, "t2", text("go on"))
}

func testCancelTool(t *testing.T) {
	begun := make(chan struct{})
	b := setupIdle(t, reply(call("k1", "add", `{"A":1,"B":2}`), call("k2", "wait", "{}")), reply(text("on")))
	adder(b, events.EffectsNone)
	plugin.AddTool(b.tools, plugin.Tool{Name: "wait"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(begun)
		<-ctx.Done()
		return "", ctx.Err()
	})
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	receive(b, "begun", begun)
	b.await(id, "first result", func(s *projector.State) bool { t := s.Turn(); return t != nil && len(t.Calls) == 2 && t.Calls[0].Done })
	b.cancel(id, "t1", api.CancelRequest{}, api.CancelRequested)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	var outcomes []events.Outcome
	for _, p := range find[*events.ToolReturned](b, id) {
		for _, r := range p.Results {
			outcomes = append(outcomes, r.Outcome)
		}
	}
	equalLists(t, "outcomes", outcomes, []events.Outcome{events.OutcomeSuccess, events.OutcomeCancelled})
	b.run(id, "t2", text("go on"))
	results := b.model.asked()[1].Messages[2].Parts
	equal(t, "results in the next prompt", len(results), 2)
	equal(t, "outcome in the next prompt", results[1].Outcome, events.OutcomeCancelled)
}

func testCancelLate(t *testing.T) {
	b := setup(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hello"))
	before := b.last(id)
	b.cancel(id, "t1", api.CancelRequest{ID: "r1"}, api.CancelCompletionWon)
	equal(t, "last sequence", b.last(id), before)
	r, err := b.Await(b.ctx, id, "t1")
	must(t, "await", err, nil)
	equal(t, "end", r.End, events.EndFinished)
}

func testCancelTwice(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, reply(call("k", "stubborn", "{}")))
	plugin.AddTool(b.tools, plugin.Tool{Name: "stubborn"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		close(begun)
		<-release
		return "done all the same", nil
	})
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	receive(b, "begun", begun)
	one := api.CancelRequest{ID: "r1", Origin: "user", Reason: "first"}
	equal(t, "evidence", b.cancel(id, "t1", one, api.CancelRequested), one)
	got, evidence, err := b.otherHost().Cancel(b.ctx, id, "t1", api.CancelRequest{ID: "r2", Reason: "second"})
	close(release)
	must(t, "second cancel", err, nil)
	equal(t, "second receipt", got, api.CancelAlreadyRequested)
	equal(t, "second evidence", evidence, one)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	equal(t, "cancels in the history", len(find[*events.TurnCancelRequested](b, id)), 1)
}

func testInvalidInput(t *testing.T) {
	b := setup(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	gone := events.BlobRef{Digest: strings.Repeat("0", 64), Size: 3}
	r := b.run(id, "t1", text("look"), events.Part{Kind: events.PartAttachment, MediaType: "image/png", Blob: gone})
	equal(t, "end", r.End, events.EndInvalidInput)
	equal(t, "kind", r.Issue.Kind, "input_validation")
	equal(t, "code", r.Issue.Code, "invalid_turn_input")
	equal(t, "model calls", len(b.model.asked()), 0)
}

func testEmptyReply(t *testing.T) {
	b := setup(t, reply())
	r := b.run(b.open(api.CreateRequest{}), "t1", text("hello"))
	equal(t, "end", r.End, events.EndProviderError)
	equal(t, "code", r.Issue.Code, "empty_response")
}

func testEmptyAfterTool(t *testing.T) {
	b := setupIdle(t, reply(call("k", "add", `{"A":1,"B":2}`)), reply())
	adder(b, events.EffectsNone)
	b.work(b.bus)
	r := b.run(b.open(api.CreateRequest{}), "t1", text("hello"))
	equal(t, "end", r.End, events.EndFinished)
	equal(t, "text", r.Text, "")
}

func testLimit(t *testing.T) {
	b := setupIdle(t, reply(call("k", "add", `{"A":1,"B":2}`)), reply(text("on")))
	adder(b, events.EffectsNone)
	b.work(b.bus)
	id := b.open(api.CreateRequest{Config: events.Config{MaxIterations: 1}})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndMaxTurns)
	equal(t, "model calls", len(b.model.asked()), 1)
	want := []string{"user hello", `assistant k:add{"A":1,"B":2}`, "user k=3", "system turn limit reached (1)"}
	equalLists(t, "messages", b.messages(id), want)
	b.run(id, "t2", text("go on"))
	equalLists(t, "next prompt", b.model.prompt(1), append(want, "user go on"))
}

func testOutputLimit(t *testing.T) {
	b := setup(t, stopped(events.StopOutputLimit, events.Usage{Input: 5, Output: 100}, text("half")))
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndIncomplete)
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant half"})
}

func testOverflow(t *testing.T) {
	b := setup(t, stopped(events.StopOutputLimit, events.Usage{Input: 90, CacheRead: 6}))
	r := b.run(b.open(api.CreateRequest{Config: events.Config{ContextWindow: 100}}), "t1", text("hello"))
	equal(t, "end", r.End, events.EndProviderError)
	equal(t, "code", r.Issue.Code, "context_overflow")
}

func testRetry(t *testing.T) {
	b := setup(t, fails(llm.KindRateLimit, "429"), fails(llm.KindServer, ""), reply(text("hi")))
	id := b.open(api.CreateRequest{})
	live, err := b.bus.Live(id, 1024)
	must(t, "watch", err, nil)
	defer live.Close()
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndFinished)
	equal(t, "text", r.Text, "hi")
	equal(t, "attempts", find[*events.ModelReplied](b, id)[0].Attempts, 3)
	var failed []int64
	for { // what was published before the turn's end has arrived before it
		m := bus.ParseLive(receive(b, "the turn's end", live.C))
		if m.Ends {
			break
		}
		var d api.Delta
		if m.Seq == 0 && events.DecodePayload(m.Data, &d) == nil && !d.Retry.IsZero() {
			failed = append(failed, d.Retry.Attempt)
			equal(t, "attempts allowed", d.Retry.Attempts, 4)
		}
	}
	equalLists(t, "failed attempts told", failed, []int64{1, 2})
}

func testProviderError(t *testing.T) {
	b := setup(t, fails(llm.KindAuth, "no_key"), reply(text("hi")))
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndProviderError)
	equal(t, "kind", r.Issue.Kind, "provider")
	equal(t, "code", r.Issue.Code, "no_key")
	equal(t, "failures", find[*events.ModelFailed](b, id)[0].Error, "auth")
	equal(t, "next turn", b.run(id, "t2", text("again")).Text, "hi")
	equalLists(t, "next prompt", b.model.prompt(1), []string{"user hello", "user again"})
}

func testMalformedArgs(t *testing.T) {
	b := setupIdle(t, reply(call("k1", "none", `{"A":`), call("k2", "add", `{"A":1,`)), reply(text("hi")))
	adder(b, events.EffectsNone)
	plugin.AddTool(b.tools, plugin.Tool{Name: "none"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "ran", nil })
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("hello")).End, events.EndFinished)
	results := b.model.asked()[1].Messages[2].Parts
	equal(t, "result of the tool without needs", results[0].Text, "ran")
	equal(t, "outcome of the other", results[1].Outcome, events.OutcomeFailure)
	if !strings.Contains(results[1].Text, "required") {
		t.Errorf("text of the other: got %q, want the schema's complaint", results[1].Text)
	}
}
