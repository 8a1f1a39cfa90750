package system

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// refusing is a provider that refuses some requests, and counts all.
func refusing(calls *int, refuse func(llm.Request) *llm.Error) namedProvider {
	return namedProvider{"main", func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		*calls++
		if failure := refuse(req); failure != nil {
			return llm.Response{}, failure
		}
		return llm.Response{Parts: []events.Part{harness.Text("fine")}, Stop: events.StopEnd, Model: req.Model}, nil
	}}
}

// TestRoomAfterOverflow: a prompt that does not fit is sent once more without its oldest turns, the next one is not sent
// in full again, and one of which nothing can be left out is sent once.
func TestRoomAfterOverflow(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	calls, asked := 0, []events.Message(nil)
	turnServes(b, bustest.Open(t, b.Server), refusing(&calls, func(req llm.Request) *llm.Error {
		if asked = req.Messages; projector.Tokens(asked) <= 2500 {
			return nil
		}
		return &llm.Error{Kind: llm.KindOverflow, Message: "the prompt is too long"}
	}))
	id := b.Open(api.CreateRequest{Config: events.Config{Provider: "main"}})
	ask := func(turn events.TurnID, tokens, want int) api.TurnResult {
		t.Helper()
		before := calls
		r := b.RunTurn(id, turn, harness.Text(strings.Repeat("word", tokens)))
		runtest.Equal(t, "calls of "+string(turn), calls-before, want)
		return r
	}
	ask("t1", 1000, 1)
	ask("t2", 1000, 1)
	runtest.Equal(t, "t3", ask("t3", 1000, 2).End, events.EndFinished)
	runtest.Equal(t, "what is left out is said", strings.Contains(asked[0].Text(), "earlier messages of this conversation are left out"), true)
	replies := harness.Find[*events.ModelReplied](b, id)
	runtest.Equal(t, "tries in the history", len(replies[2].Failed), 1)
	runtest.Equal(t, "the try that failed", replies[2].Failed[0].Error, "context_overflow")
	runtest.Equal(t, "t4", ask("t4", 500, 1).End, events.EndFinished)
	runtest.Equal(t, "t5", ask("t5", 3000, 1).End, events.EndProviderError)
	failed := harness.Find[*events.ModelFailed](b, id)
	runtest.Equal(t, "failure", failed[0].Error, "context_overflow")
	runtest.Equal(t, "it says what helps", strings.Contains(failed[0].Message, "the prompt is too long") && strings.Contains(failed[0].Message, "context_window"), true)
	b.Verify(id)
	alone := b.Open(api.CreateRequest{Config: events.Config{Provider: "main", ContextWindow: 1 << 20}})
	before := calls
	runtest.Equal(t, "alone", b.RunTurn(alone, "t1", harness.Text(strings.Repeat("word", 3000))).End, events.EndProviderError)
	runtest.Equal(t, "calls of a prompt of which nothing can be left out", calls-before, 1)
}

// TestRefusedPicture: after a refusal that names a picture the turn goes on without it, and so do later ones; another
// picture is sent again.
func TestRefusedPicture(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	calls, sent := 0, ""
	turnServes(b, bustest.Open(t, b.Server), refusing(&calls, func(req llm.Request) *llm.Error {
		sent = ""
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				if sent += p.Text; p.Kind == events.PartAttachment && p.Text == "bad" {
					return &llm.Error{Kind: llm.KindRequest, Status: 400, Message: "Could not process image"}
				}
			}
		}
		return nil
	}))
	id := b.Open(api.CreateRequest{Config: events.Config{Provider: "main"}})
	picture := func(text string) events.Part {
		return events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: text}
	}
	for i, c := range []struct {
		parts []events.Part
		calls int
		sent  string
	}{
		{[]events.Part{harness.Text("see"), picture("good")}, 1, "good"},
		{[]events.Part{harness.Text("see"), picture("bad")}, 2, "is left out: the model's endpoint refused it"},
		{[]events.Part{harness.Text("more")}, 1, "is left out"},
		{[]events.Part{harness.Text("see"), picture("other")}, 1, "other"},
	} {
		before := calls
		r := b.RunTurn(id, events.TurnID("t"+string(rune('0'+i))), c.parts...)
		runtest.Equal(t, "end", r.End, events.EndFinished)
		runtest.Equal(t, "calls", calls-before, c.calls)
		runtest.Equal(t, "sent "+c.sent, strings.Contains(sent, c.sent), true)
	}
	runtest.Equal(t, "the try that failed", harness.Find[*events.ModelReplied](b, id)[1].Failed[0].Message, "Could not process image")
	b.Verify(id)
}
