package watch

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/convert"
	"github.com/lash-go/lash/session/turn"
)

// approvalAsked emits the approval request of a call.
func (e *eventStream) approvalAsked(p *events.ToolApprovalAsked) {
	t := e.running()
	if t == nil || t.Approval(p.Effect) != nil {
		return // the fold ignores it too
	}
	e.emit(api.SessionEvent{
		Type: api.EventApprovalAsked, Call: p.Effect, CallID: e.modelsName(p.Effect), Name: p.Tool, Args: convert.Args(p.Args),
		Plugin: p.Plugin, Question: p.Question, Until: p.Until,
	})
}

// approvalGiven emits the first answer.
func (e *eventStream) approvalGiven(p *events.ToolApprovalGiven) {
	t := e.running()
	if t == nil {
		return
	}
	a := t.Approval(p.Effect)
	if a == nil || a.Answered {
		return // the fold ignores it too
	}
	e.emit(api.SessionEvent{
		Type: api.EventApprovalGiven, Call: p.Effect, CallID: e.modelsName(p.Effect), Name: a.Tool,
		Granted: &p.Granted, By: p.By, Reason: p.Reason,
	})
}

// modelsName is the model's id of a call of the last reply; empty for a nested call.
func (e *eventStream) modelsName(call events.EffectID) events.CallID {
	t := e.running()
	for i := range t.Calls {
		if turn.ToolEffect(t.ID, t.Iteration, int64(i)) == call {
			return t.Calls[i].ID
		}
	}
	return ""
}
