package catalogue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func stopEntries() []entry {
	return []entry{
		{"T07", "cancel during a model call", "a streaming model call after a tool", "cancel", "cancelled; streamed text is no part of the conversation, and kept beside it with what it cost; earlier results kept", testCancelModel},
		{"T08", "cancel during a tool call", "a running tool", "cancel", "cancelled output recorded", testCancelTool},
		{"T09", "cancel after the end loses", "a finished turn", "cancel", "completion won", testCancelLate},
		{"T10", "second cancel has the first evidence", "a cancelled turn", "cancel again", "already requested, with the first evidence", testCancelTwice},
		{"T11", "missing attachment is an invalid input", "an attachment that does not exist", "turn", "invalid input; the call succeeds", testInvalidInput},
		{"T14", "empty reply is a provider error", "an empty reply", "turn", "asked once more; then provider error, code empty_response", testEmptyReply},
		{"T15", "empty reply after a tool is none either", "an empty reply after a tool result", "turn", "asked once more; then provider error, code empty_response", testEmptyAfterTool},
		{"T16", "turn limit ends a tool loop", "a limit of one and a tool loop", "turn", "max turns, notice visible", testLimit},
		{"T17", "reply cut at the output limit is incomplete", "a reply cut at the output limit", "turn", "incomplete", testOutputLimit},
		{"T18", "full window is a context overflow", "output limit, no output, window 96 % full", "turn", "context overflow, a provider error", testOverflow},
		{"T19", "failed provider call is tried again", "a provider that fails twice", "turn", "two retry statuses, success on the third", testRetry},
		{"T20", "provider error leaves the session usable", "a provider that fails for good", "turn", "provider error, committed; the next turn works", testProviderError},
		{"T21", "call with arguments that are no JSON never runs", "arguments that are no JSON", "turn", "the tool never runs; asked once more, then provider error with that reason", testMalformedArgs},
	}
}

func testCancelModel(t *testing.T) {
	started := make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "add", `{"A":1,"B":2}`)), func(context.Context, llm.Request) (scripted.Answer, error) {
		close(started)
		return scripted.Answer{Hang: true, Response: llm.Response{Model: "m-1", Usage: events.Usage{Input: 7, Output: 2}, Parts: []events.Part{
			{Kind: events.PartReasoning, Text: "hm"}, harness.Text("half "), harness.Text("a"), harness.Call("k2", "add", `{"A":1`),
		}}}, nil
	}, harness.Reply(harness.Text("on")))
	harness.AddTool(b, events.EffectsNone)
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the start", started)
	b.CancelTurn(id, "t1", api.CancelRequest{ID: "r1", Reason: "enough"}, api.CancelRequested)
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndCancelled)
	want := []string{"user hello", `assistant k:add{"A":1,"B":2}`, "user k=3"}
	runtest.EqualLists(t, "messages", b.Messages(id), want)
	runtest.Equal(t, "evidence", harness.Find[*events.TurnCancelRequested](b, id)[0].Request, "r1")
	cut := harness.Find[*events.ModelInterrupted](b, id)
	runtest.Equal(t, "interrupted replies", len(cut), 1)
	runtest.EqualLists(t, "what came of it", harness.Transcript([]events.Message{{Parts: cut[0].Parts}}), []string{" hm half a"})
	runtest.Equal(t, "what it cost", cut[0].Usage, events.Usage{Input: 7, Output: 2})
	runtest.Equal(t, "usage of the turn", record.Usage, events.Usage{Input: 17, Output: 7})
	runtest.Equal(t, "usage by model", b.StateOf(id).Usage().ByModel["m-1"], cut[0].Usage)
	assembled, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "assembled", err, nil)
	runtest.Equal(t, "raw text", assembled.Output.RawText, "half a")
	runtest.Equal(t, "writes of the end", commitOf[*events.ModelInterrupted](b, id), commitOf[*events.TurnCompleted](b, id))
	b.RunTurn(id, "t2", harness.Text("go on"))
	runtest.EqualLists(t, "next prompt", b.Model.Prompt(2), append(want, "user go on"))
	harness.VerifyHistory(t, b.Bus, id)
}

// commitOf is the sequence of the first commit that has an event of the type.
func commitOf[P events.Payload](b *harness.System, id events.SessionID) events.Seq {
	b.T.Helper()
	for entry, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(b.T, "read", err, nil)
		for i := range entry.Commit.Events {
			if _, ok := entry.Commit.Events[i].Payload.(P); ok {
				return entry.Seq
			}
		}
	}
	return 0
}

// TestFailedReplyKept has model calls that fail in the middle of a reply: the text of the last one is recorded,
// and the cost of all. Plugins with hooks at the end of turns do not change this.
func TestFailedReplyKept(t *testing.T) {
	t.Parallel()
	fails := func(text string, kind llm.ErrorKind) harness.Step {
		return func(context.Context, llm.Request) (scripted.Answer, error) {
			return scripted.Answer{
				Response: llm.Response{Parts: []events.Part{harness.Text(text)}, Usage: events.Usage{Input: 3, Output: 1}}, Err: &llm.Error{Kind: kind, Message: "cut"},
			}, nil
		}
	}
	b := harness.StartIdle(t, fails("first", llm.KindTransport), fails("second half", llm.KindRequest), harness.Reply(harness.Text("on")))
	b.StartNode(harness.PluginOf("last", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return nil, nil })
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("hello")).End, events.EndProviderError)
	cut := harness.Find[*events.ModelInterrupted](b, id)
	runtest.Equal(t, "interrupted replies", len(cut), 1)
	runtest.Equal(t, "failures", len(harness.Find[*events.ModelFailed](b, id)), 1)
	runtest.EqualLists(t, "what came of it", harness.Transcript([]events.Message{{Parts: cut[0].Parts}}), []string{" second half"})
	runtest.Equal(t, "what it cost", cut[0].Usage, events.Usage{Input: 6, Output: 2})
	runtest.Equal(t, "attempts", cut[0].Attempts, 2)
	b.RunTurn(id, "t2", harness.Text("go on"))
	runtest.EqualLists(t, "next prompt", b.Model.Prompt(2), []string{"user hello", "user go on"})
	harness.VerifyHistory(t, b.Bus, id)
}

func testCancelTool(t *testing.T) {
	started := make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "add", `{"A":1,"B":2}`), harness.Call("k2", "wait", "{}")), harness.Reply(harness.Text("on")))
	harness.AddTool(b, events.EffectsNone)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "wait"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	})
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the start", started)
	b.AwaitState(id, "first result", func(s *projector.State) bool { t := s.Turn(); return t != nil && len(t.Calls) == 2 && t.Calls[0].Done })
	b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelRequested)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	var outcomes []events.Outcome
	for _, p := range harness.Find[*events.ToolReturned](b, id) {
		for _, r := range p.Results {
			outcomes = append(outcomes, r.Outcome)
		}
	}
	runtest.EqualLists(t, "outcomes", outcomes, []events.Outcome{events.OutcomeSuccess, events.OutcomeCancelled})
	b.RunTurn(id, "t2", harness.Text("go on"))
	results := b.Model.Requests()[1].Messages[2].Parts
	runtest.Equal(t, "results in the next prompt", len(results), 2)
	runtest.Equal(t, "outcome in the next prompt", results[1].Outcome, events.OutcomeCancelled)
}

func testCancelLate(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hello"))
	before := b.LastSeq(id)
	b.CancelTurn(id, "t1", api.CancelRequest{ID: "r1"}, api.CancelCompletionWon)
	runtest.Equal(t, "last sequence", b.LastSeq(id), before)
	r, err := b.Await(b.Ctx, id, "t1")
	runtest.WantError(t, "await", err, nil)
	runtest.Equal(t, "end", r.End, events.EndFinished)
}

func testCancelTwice(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "stubborn", "{}")))
	plugin.AddTool(b.Tools, plugin.Tool{Name: "stubborn"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		close(started)
		<-release
		return "done all the same", nil
	})
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the start", started)
	one := api.CancelRequest{ID: "r1", Origin: "user", Reason: "first"}
	runtest.Equal(t, "evidence", b.CancelTurn(id, "t1", one, api.CancelRequested), one)
	got, evidence, err := b.OtherHost().Cancel(b.Ctx, id, "t1", api.CancelRequest{ID: "r2", Reason: "second"})
	close(release)
	runtest.WantError(t, "second cancel", err, nil)
	runtest.Equal(t, "second receipt", got, api.CancelAlreadyRequested)
	runtest.Equal(t, "second evidence", evidence, one)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	runtest.Equal(t, "cancels in the history", len(harness.Find[*events.TurnCancelRequested](b, id)), 1)
}

func testInvalidInput(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	missing := events.BlobRef{Digest: strings.Repeat("0", 64), Size: 3}
	r := b.RunTurn(id, "t1", harness.Text("look"), events.Part{Kind: events.PartAttachment, MediaType: "image/png", Blob: missing})
	runtest.Equal(t, "end", r.End, events.EndInvalidInput)
	runtest.Equal(t, "kind", r.Issue.Kind, "input_validation")
	runtest.Equal(t, "code", r.Issue.Code, "invalid_turn_input")
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)
}

func testEmptyReply(t *testing.T) {
	b := harness.Start(t, harness.Reply(), harness.Reply(harness.Text(" \n")), harness.Reply(), harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	wantUnfinished(b, id, "t1", "empty_response", 2)
	runtest.Equal(t, "text of the next turn", b.RunTurn(id, "t2", harness.Text("hello")).Text, "hi")
	runtest.EqualLists(t, "failed tries of the next turn", failedTries(b, id), []string{"unfinished empty_response"})
}

// wantUnfinished runs a turn whose model is asked twice, the last times of calls, and expects that reason for its end.
func wantUnfinished(b *harness.System, id events.SessionID, turn events.TurnID, code string, calls int) {
	b.T.Helper()
	r := b.RunTurn(id, turn, harness.Text("hello"))
	runtest.Equal(b.T, "end", r.End, events.EndProviderError)
	runtest.Equal(b.T, "code", r.Issue.Code, code)
	runtest.Equal(b.T, "model calls", len(b.Model.Requests()), calls)
	failed := harness.Find[*events.ModelFailed](b, id)
	runtest.Equal(b.T, "failures", len(failed), 1)
	runtest.Equal(b.T, "attempts", failed[0].Attempts, 2)
	runtest.Equal(b.T, "first try", failed[0].Failed[0].Code, code)
}

// failedTries are the failed tries before the session's replies.
func failedTries(b *harness.System, id events.SessionID) (list []string) {
	b.T.Helper()
	for _, r := range harness.Find[*events.ModelReplied](b, id) {
		for _, f := range r.Failed {
			list = append(list, f.Error+" "+f.Code)
		}
	}
	return list
}

func testEmptyAfterTool(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Reply(), harness.Reply(events.Part{Kind: events.PartReasoning, Text: "hm"}))
	harness.AddTool(b, events.EffectsNone)
	b.StartWorker(b.Bus)
	wantUnfinished(b, b.Open(api.CreateRequest{}), "t1", "empty_response", 3)
}

func testLimit(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Reply(harness.Text("on")))
	harness.AddTool(b, events.EffectsNone)
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{Config: events.Config{MaxIterations: 1}})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndMaxTurns)
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 1)
	want := []string{"user hello", `assistant k:add{"A":1,"B":2}`, "user k=3", "system turn limit reached (1)"}
	runtest.EqualLists(t, "messages", b.Messages(id), want)
	b.RunTurn(id, "t2", harness.Text("go on"))
	runtest.EqualLists(t, "next prompt", b.Model.Prompt(1), append(want, "user go on"))
}

func testOutputLimit(t *testing.T) {
	b := harness.Start(t, harness.ReplyStopped(events.StopOutputLimit, events.Usage{Input: 5, Output: 100}, harness.Text("half")))
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndIncomplete)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant half"})
}

func testOverflow(t *testing.T) {
	b := harness.Start(t, harness.ReplyStopped(events.StopOutputLimit, events.Usage{Input: 90, CacheRead: 6}))
	r := b.RunTurn(b.Open(api.CreateRequest{Config: events.Config{ContextWindow: 100}}), "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndProviderError)
	runtest.Equal(t, "code", r.Issue.Code, "context_overflow")
}

func testRetry(t *testing.T) {
	b := harness.Start(t, harness.Fail(llm.KindRateLimit, "429"), harness.Fail(llm.KindServer, ""), harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	live, err := b.Bus.Live(id, 1024)
	runtest.WantError(t, "watch", err, nil)
	defer live.Close()
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndFinished)
	runtest.Equal(t, "text", r.Text, "hi")
	runtest.Equal(t, "attempts", harness.Find[*events.ModelReplied](b, id)[0].Attempts, 3)
	var failed []int64
	for { // messages that were published before the turn's end have arrived before it
		m := bus.ParseLive(harness.Receive(b, "the turn's end", live.C))
		if m.MayEndTurn {
			break
		}
		if m.Seq != 0 {
			continue
		}
		data, err := b.Bus.Delta(m)
		runtest.WantError(t, "delta", err, nil)
		var d api.Delta
		if events.DecodePayload(data, &d) == nil && !d.Retry.IsZero() {
			failed = append(failed, d.Retry.Attempt)
			runtest.Equal(t, "attempts allowed", d.Retry.Attempts, 4)
		}
	}
	runtest.EqualLists(t, "failed attempts told", failed, []int64{1, 2})
}

func testProviderError(t *testing.T) {
	b := harness.Start(t, harness.Fail(llm.KindAuth, "no_key"), harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndProviderError)
	runtest.Equal(t, "kind", r.Issue.Kind, "provider")
	runtest.Equal(t, "code", r.Issue.Code, "no_key")
	runtest.Equal(t, "failures", harness.Find[*events.ModelFailed](b, id)[0].Error, "auth")
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("again")).Text, "hi")
	runtest.EqualLists(t, "next prompt", b.Model.Prompt(1), []string{"user hello", "user again"})
}

func testMalformedArgs(t *testing.T) {
	half := harness.Reply(harness.Call("k1", "none", `{"A":`), harness.Call("k2", "add", `{"A":1,"B":2}`))
	b := harness.StartIdle(t, half, harness.Reply(harness.Call("k3", "add", `{"A":1,`)), half, harness.Reply(harness.Text("hi")))
	var ran atomic.Int64
	plugin.AddTool(b.Tools, plugin.Tool{Name: "none"}, func(context.Context, plugin.Call, struct{}) (string, error) { ran.Add(1); return "ran", nil })
	plugin.AddTool(b.Tools, plugin.Tool{Name: "add"}, func(context.Context, plugin.Call, struct{ A, B int }) (string, error) { ran.Add(1); return "ran", nil })
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	wantUnfinished(b, id, "t1", "cut_call", 2)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello"})
	runtest.Equal(t, "text of the next turn", b.RunTurn(id, "t2", harness.Text("again")).Text, "hi")
	runtest.Equal(t, "calls that ran", ran.Load(), 0)
}

// TestUnknownEnd asks once more for a reply without a known end, and for one that ends as with calls and has none.
func TestUnknownEnd(t *testing.T) {
	t.Parallel()
	for name, half := range map[string]harness.Step{
		"unknown":    harness.ReplyStopped(events.StopUnknown, events.Usage{}, harness.Text("half")),
		"whole_call": harness.ReplyStopped(events.StopUnknown, events.Usage{}, harness.Call("k", "add", `{"A":1,"B":2}`)),
		"no_call":    harness.ReplyStopped(events.StopToolUse, events.Usage{}, harness.Text("Let me look.")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, half, half, half, harness.Reply(harness.Text("hi")))
			harness.AddTool(b, events.EffectsNone)
			b.StartWorker(b.Bus)
			id := b.Open(api.CreateRequest{})
			wantUnfinished(b, id, "t1", "unknown_end", 2)
			runtest.Equal(t, "text of the next turn", b.RunTurn(id, "t2", harness.Text("again")).Text, "hi")
			runtest.Equal(t, "results", len(harness.Find[*events.ToolReturned](b, id)), 0)
		})
	}
}
