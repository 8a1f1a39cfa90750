package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
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
	if t == nil || d.record == nil || d.cannotWait || d.at.runsOnce(tool) && d.call.Holder == "" {
		return answer, &plugin.Failure{Class: plugin.ClassPermissionDenied, Code: plugin.CodeDenied, Message: errNoAnswer.Error()}
	}
	asked := &events.ToolApprovalAsked{Effect: askEffect(d.call.Effect, id), Tool: tool, Args: details, Question: clip(question)}
	if bound, ok := d.catalog.Find(tool); ok {
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
	d.waits.begin()
	return answer, plugin.ErrWaits
}

var errNoAnswer = errors.New("the call cannot wait for an answer: it must not run twice and runs in the node or inside another call, or it is in the background")

// askEffect is the effect id of a question that a call asks.
func askEffect(call events.EffectID, id string) events.EffectID {
	return call + "/" + events.EffectID(id)
}

// asked reports whether a call has asked a question: its program has it, then.
func (s *Snapshot) asked(call events.EffectID) bool {
	t := s.state.Turn()
	return t != nil && t.Asked(call)
}
