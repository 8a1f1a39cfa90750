package subagent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// The prefix of a turn's id says whether the parent's call waits for the turn.
const (
	awaited    = "call-"
	background = "bg-"
)

// turn runs a turn of an agent. Its id follows from the call: a call that runs again waits for the same turn.
func turn(ctx context.Context, call plugin.Call, agent events.SessionID, message string, inBackground bool) (plugin.Result, error) {
	task, prefix := events.TaskID(agent), awaited
	if inBackground {
		prefix = background
	}
	req := api.TurnRequest{ID: events.TurnID(events.DerivedID(prefix, call.Key)), Input: events.TurnInput{Parts: plugin.Say(events.RoleUser, message).Parts}}
	if err := call.Host.TransitionTask(ctx, call.Session, task, events.TaskRunning); err != nil {
		return plugin.Result{}, err
	}
	switch {
	case inBackground:
		if _, _, err := call.Host.StartTurnStream(ctx, agent, req); err != nil {
			return plugin.Result{}, err
		}
		return stateOf(api.AgentState{Agent: agent, State: events.TaskRunning})
	case !call.Inner:
		err := call.Host.AnswerByTurn(ctx, call.CompletionKey(), agent, req)
		return plugin.Result{Pending: err == nil}, err
	}
	got, err := call.Host.StartTurn(ctx, agent, req)
	if err := errors.Join(err, call.Host.TransitionTask(ctx, call.Session, task, events.TaskWaiting)); err != nil {
		return plugin.Result{}, err
	}
	return stateOf(api.AgentState{Agent: agent, State: events.TaskWaiting, Outcome: got.Outcome.Reason, Answer: got.Output.SafeText, Usage: &got.Usage})
}

// stateOf is the result with an agent's state.
func stateOf(s api.AgentState) (plugin.Result, error) {
	text, err := json.Marshal(&s)
	return plugin.Result{Text: string(text)}, err
}

// ended handles the end of a turn, of an agent or of its parent.
func (a agents) ended(ctx context.Context, e plugin.Lifecycle) error {
	switch {
	case e.Kind == plugin.TurnFinalized && !e.State.Subagent.IsZero() && strings.HasPrefix(string(e.Turn), background):
		return report(ctx, e)
	case e.Kind != plugin.TurnPersisted:
		return nil
	}
	record, err := e.State.Record(e.Turn)
	if err != nil || record == nil {
		return err
	}
	if record.End == events.EndCancelled {
		err = a.cancelled(ctx, e)
	}
	if e.State.Subagent.IsZero() || !strings.HasPrefix(string(e.Turn), background) {
		return err
	}
	return errors.Join(err, e.Host.TransitionTask(ctx, e.State.Parent, events.TaskID(e.Session), events.TaskWaiting))
}

// report gives the parent the answer of a background turn. It runs before the turn's end is recorded, and again after
// a failure. The id of the input makes repeats harmless.
func report(ctx context.Context, e plugin.Lifecycle) error {
	view, err := e.State.View()
	if err != nil {
		return err
	}
	answer := "(no answer)"
	for _, m := range view.Messages {
		if m.Role == events.RoleAssistant && m.Text() != "" {
			answer = m.Text()
		}
	}
	if ending := e.State.Turn().Ending.End; ending != events.EndFinished {
		answer += "\n(its turn ended: " + string(ending) + ")"
	}
	return e.Host.InjectTurnInput(ctx, e.State.Parent, api.InjectRequest{
		ID:    events.InputID(e.Turn),
		Parts: plugin.Say(events.RoleUser, "Agent "+string(e.Session)+" answers: "+answer).Parts,
	})
}

// cancelled cancels the agents' turns that a cancelled turn waited for.
func (a agents) cancelled(ctx context.Context, e plugin.Lifecycle) error {
	for i := range e.State.Tasks {
		task := &e.State.Tasks[i]
		if !task.Live() || task.Of != events.TaskSubagent {
			continue
		}
		err := cancelTurns(ctx, e.Host, task.Child, func(id events.TurnID) bool { return strings.HasPrefix(string(id), awaited) }, false)
		if err != nil {
			return err
		}
		if err := e.Host.TransitionTask(ctx, e.Session, task.ID, events.TaskWaiting); err != nil {
			return err
		}
	}
	return nil
}

// cancelTurns cancels the turns of an agent that match, with the queued ones, and waits for their ends if wait is
// set.
func cancelTurns(ctx context.Context, host plugin.ActionHost, agent events.SessionID, match func(events.TurnID) bool, wait bool) error {
	state, err := host.SnapshotSession(ctx, agent)
	if err != nil {
		return err
	}
	var turns []events.TurnID
	if t := state.Turn(); t != nil {
		turns = append(turns, t.ID)
	}
	for i := range state.Queue {
		turns = append(turns, state.Queue[i].ID)
	}
	for _, id := range turns {
		if !match(id) {
			continue
		}
		if err := host.CancelTurn(ctx, agent, id); err != nil {
			return err
		}
		if !wait {
			continue
		}
		if _, err := host.AwaitTurn(ctx, agent, id); err != nil && !errors.Is(err, api.ErrTurnFailed) {
			return err
		}
	}
	return nil
}
