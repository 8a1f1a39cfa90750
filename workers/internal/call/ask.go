package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// codeAskChanged is the code of a question whose id another question of the call has.
const codeAskChanged = "ask_changed"

// ask asks people a question, and lets the call wait for their answer. It implements [plugin.AskFunc].
//
//	no question of this id in the history   records it, and lets the call wait
//	one without an answer                   lets it wait again: a worker that took over does not know the first one
//	one with an answer                      returns the answer
func (d *dispatch) ask(ctx context.Context, id, question string, details json.RawMessage) (answer events.ToolApprovalGiven, err error) {
	t, tool := d.at.state.Turn(), d.call.Tool
	bound, ok := d.catalog.Find(tool)
	stays := ok && bound.Stays
	if t == nil || d.record == nil || !stays && (d.cannotWait || d.at.runsOnce(tool) && d.call.Holder == "") {
		return answer, &plugin.Failure{Class: plugin.ClassPermissionDenied, Code: plugin.CodeDenied, Message: errNoAnswer.Error()}
	}
	asked := &events.ToolApprovalAsked{Effect: events.QuestionEffect(d.call.Effect, id), Tool: tool, Args: details, Question: clip(question)}
	if ok {
		asked.Plugin = bound.Source
	}
	if err := asked.Validate(); err != nil {
		return answer, err
	}
	switch old := t.Approval(asked.Effect); {
	case old != nil && (old.Question != asked.Question || old.Tool != tool || !bytes.Equal(old.Args, details)):
		return answer, &plugin.Failure{Class: plugin.ClassInternal, Code: codeAskChanged, Message: "another question of the call has the id " + id}
	case old != nil && old.Answered:
		return old.Answer, nil
	case old == nil:
		if err := d.record(ctx, asked); err != nil {
			return answer, err
		}
	}
	if stays {
		return d.awaitAnswer(ctx, asked)
	}
	d.waits.begin()
	return answer, plugin.ErrWaits
}

// answerCheck is the wait before the first read of the log for an answer.
const answerCheck = time.Second

// awaitAnswer waits for the answer to a question while the call goes on. The run of the turn does not count meanwhile. Where ctx ends
// first, the question is withdrawn: it is denied in the name of its plugin.
func (d *dispatch) awaitAnswer(ctx context.Context, asked *events.ToolApprovalAsked) (answer events.ToolApprovalGiven, err error) {
	defer session.BeginWait(ctx)()
	waiter, err := d.env.Worker.Subscribe(d.at.session, func(m bus.LiveMessage) bool { return m.Seq > 0 })
	if err != nil {
		return answer, err
	}
	defer waiter.Close()
	err = waiter.Wait(ctx, answerCheck, func(s *projector.State) (bool, error) {
		t := s.Turn()
		if t == nil || t.ID != d.at.turn {
			return false, nil // the run of the turn ends ctx
		}
		now := t.Approval(asked.Effect)
		if now == nil || !now.Answered {
			return false, nil
		}
		answer = now.Answer
		return true, nil
	})
	if err != nil {
		once, cancel := context.WithTimeout(api.WithoutCaller(context.WithoutCancel(ctx)), withdrawWait)
		defer cancel()
		_ = d.env.Worker.Host.Approve(once, d.at.session, events.ToolApprovalGiven{ // people may be faster, and the turn may have ended
			Effect: asked.Effect, By: wire.CallerOf(asked.Plugin), Reason: "the question was withdrawn: the tool no longer waits for an answer",
		})
	}
	return answer, err
}

// withdrawWait limits the time in which a withdrawn question is closed.
const withdrawWait = 10 * time.Second

var errNoAnswer = errors.New("the call cannot wait for an answer: it must not run twice and runs in the node or inside another call, or it is in the background")

// asked reports whether a call has asked a question: its program has it, then.
func (s *Snapshot) asked(call events.EffectID) bool {
	t := s.state.Turn()
	return t != nil && t.Asked(call)
}
