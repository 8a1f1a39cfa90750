package scripted_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faults are the errors of replies that are cut off.
var faults = map[llmtest.Fault]llm.ErrorKind{
	llmtest.FaultCut: llm.KindTransport, llmtest.FaultShort: llm.KindUnfinished,
	llmtest.FaultGarbage: llm.KindMalformed, llmtest.FaultError: llm.KindServer,
}

// script responds with the replies of the suite.
func script(replies []llmtest.Reply) scripted.Script {
	var calls atomic.Int64
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		r := replies[min(int(calls.Add(1)), len(replies))-1]
		if r.Refusal != nil {
			refusal := *r.Refusal
			return scripted.Answer{}, &refusal
		}
		answer := scripted.Answer{
			Response: llm.Response{Parts: r.Parts(), Stop: r.Stop, Usage: r.Usage}, Hang: r.Fault == llmtest.FaultHang,
		}
		if kind := faults[r.Fault]; kind != "" {
			answer.Err = &llm.Error{Kind: kind, Message: "scripted " + string(r.Fault)}
		}
		return answer, nil
	}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	llmtest.TestProvider(t, func(_ *testing.T, replies ...llmtest.Reply) llm.Provider { return scripted.New(script(replies)) })
}

// TestCancelledReplyIsKept returns the received part of a reply that was cancelled.
func TestCancelledReplyIsKept(t *testing.T) {
	t.Parallel()
	half := llm.Response{Stop: events.StopCancelled, Parts: []events.Part{{Kind: events.PartText, Text: "half a"}}}
	p := scripted.New(func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: half, Hang: true, Keep: true}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	received := ""
	got, err := p.Complete(ctx, llm.Request{}, func(d llm.Delta) { received += d.Text; cancel() })
	if err != nil || len(got.Parts) != 1 || got.Parts[0].Text != "half a" || received != "half a" {
		t.Errorf("got %+v, %v, heard %q, want the half reply", got, err, received)
	}
}

// TestScriptFails returns the error of a script.
func TestScriptFails(t *testing.T) {
	t.Parallel()
	lost := errors.New("no such line")
	p := scripted.New(func(context.Context, llm.Request) (scripted.Answer, error) { return scripted.Answer{}, lost })
	if got, err := p.Complete(t.Context(), llm.Request{}, nil); !errors.Is(err, lost) || len(got.Parts) != 0 {
		t.Errorf("got %+v, %v, want %v", got, err, lost)
	}
}

// TestRepliesRepeatByRequest responds the same to a repeated request, and fails after the last reply.
func TestRepliesRepeatByRequest(t *testing.T) {
	t.Parallel()
	p := scripted.Replies(scripted.Text("one"), scripted.Call("add", `{"a":1}`))
	for _, c := range []struct {
		effect events.EffectID
		want   string
	}{{"t1/0", "one"}, {"t1/1", "add"}, {"t1/0", "one"}, {"t1/2", ""}} {
		got, err := p.Complete(t.Context(), llm.Request{Session: "s", Effect: c.effect}, nil)
		text := ""
		for _, part := range got.Parts {
			text += part.Text + part.Tool
		}
		if text != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", c.effect, text, err, c.want)
		}
	}
}
