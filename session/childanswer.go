package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// AnswerParent resolves the call of a child's parent that waits for a turn of the child which has ended, after it has charged the child's
// usage. It may be repeated: the first result of a call counts. A call that no longer waits, and a parent that is closed or erased, need
// no answer.
func (w Worker) AnswerParent(ctx context.Context, child *projector.State, id events.TurnID, call events.EffectID) error {
	if child.Parent == "" {
		return nil
	}
	if err := w.ChargeChild(ctx, child); err != nil {
		return err
	}
	ctx = w.as(ctx)
	ended, err := w.Host.AssembledTurn(ctx, child.Session, id)
	if err != nil {
		return err
	}
	state := api.AgentState{Agent: child.Session, State: events.TaskWaiting, Outcome: ended.Outcome.Reason, Answer: ended.Output.SafeText}
	if ended.Usage != (api.TokenUsage{}) { // else no provider told it
		state.Usage = &ended.Usage
	}
	text, err := json.Marshal(&state)
	if err == nil {
		err = w.Host.TransitionTask(ctx, child.Parent, events.TaskID(child.Session), events.TaskWaiting)
	}
	if err == nil {
		err = w.Host.answerCall(ctx, child.Parent, call, events.ToolResult{Text: string(text)})
	}
	return unlessNeedless(err)
}

// answerErased resolves the calls that wait for turns of a child which is about to be erased.
func (h *Host) answerErased(ctx context.Context, child *projector.State) error {
	var calls []events.EffectID
	if t := child.Turn(); t != nil {
		calls = append(calls, t.Input.Answers)
	}
	for i := range child.Queue {
		calls = append(calls, child.Queue[i].Input.Answers)
	}
	for i := range child.Unnotified {
		calls = append(calls, child.Unnotified[i].Answers)
	}
	for _, call := range calls {
		if call == "" || child.Parent == "" {
			continue
		}
		gone := events.ToolResult{Outcome: events.OutcomeFailure, Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Text: "[failed] the agent's session was erased"}
		if err := unlessNeedless(h.answerCall(ctx, child.Parent, call, gone)); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) answerCall(ctx context.Context, parent events.SessionID, call events.EffectID, result events.ToolResult) error {
	if err := h.ResolveTool(ctx, parent, call, result); err != nil {
		return fmt.Errorf("answer call %s of session %s: %w", call, parent, err)
	}
	return nil
}

// unlessNeedless drops the error of an answer that nothing waits for.
func unlessNeedless(err error) error {
	for _, needless := range []error{api.ErrUnknownTurn, api.ErrResolved, api.ErrClosed, events.ErrNoSession} {
		if errors.Is(err, needless) {
			return nil
		}
	}
	return err
}
