package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
)

// SpawnTool implements [session.Spawner].
func (t *Service) SpawnTool(ctx context.Context, id events.SessionID, req api.TaskRequest, work func(context.Context) (string, error)) error {
	_, err := t.SpawnManaged(ctx, id, req, func(ctx context.Context, _ *Running) (string, error) { return work(ctx) })
	if errors.Is(err, errNotStarted) {
		err = fmt.Errorf("%w: %w", plugin.ErrUnavailable, err)
	}
	return err
}

// callTool is the work of a task of class tool: it runs a tool call for a turn of another node, and gives the turn
// the result.
func (t *Service) callTool(ctx context.Context, r *Running) (string, error) {
	summary, err := t.cfg.Calls.RunPortable(ctx, r.Session(), r.Args(), func(ctx context.Context, result events.ToolResult) error {
		return t.resolve(ctx, r.Session(), r.Args(), result)
	})
	if errors.Is(err, ErrTaskCancelled) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWait)
		defer cancel()
		err = errors.Join(ErrTaskCancelled, t.resolve(late, r.Session(), r.Args(), cancelledCall()))
	}
	return summary, err
}

func cancelledCall() events.ToolResult {
	return events.ToolResult{Outcome: events.OutcomeCancelled, Text: turn.CancelledTaskText}
}

// resolveLost records for the turn that the worker of a started call is gone. It does nothing for other tasks.
func (t *Service) resolveLost(ctx context.Context, id events.SessionID, class bus.Class, args []byte) error {
	if class != bus.ClassTool {
		return nil
	}
	return t.resolve(ctx, id, args, events.ToolResult{Outcome: events.OutcomeLost, Text: projector.LostText})
}

// unreturned is the result of a call whose tool returned none.
func (r *taskRun) unreturned(err error, gone string) events.ToolResult {
	switch {
	case gone != "":
		return events.ToolResult{Outcome: events.OutcomeLost, Text: projector.LostText}
	case r.cancelled:
		return cancelledCall()
	}
	return call.Failed(0, plugin.ClassExternal, plugin.CodeUnavailable, err)
}

// resolveEnded resolves the call of a task that a host ended as cancelled, unless the call has a result. The task's
// record has no arguments any more, so the turn's calls are searched.
func (t *Service) resolveEnded(ctx context.Context, id events.SessionID, name events.TaskID) error {
	s, err := t.cfg.Worker.Host.State(ctx, id)
	if err != nil || s.Turn() == nil {
		return err
	}
	for i := range s.Turn().Calls {
		effect := turn.ToolEffect(s.Turn().ID, s.Turn().Iteration, int64(i))
		if task.CallTask(id, effect) == name {
			return t.resolveCall(ctx, id, &call.PortableCall{Effect: effect, Index: int64(i)}, cancelledCall())
		}
	}
	return nil
}

// resolve gives a call its result, unless the call has one or its turn has ended.
func (t *Service) resolve(ctx context.Context, id events.SessionID, args []byte, result events.ToolResult) error {
	var a call.PortableCall
	if err := json.Unmarshal(args, &a); err != nil {
		return nil //nolint:nilerr // a host registered the task: it has no call
	}
	return t.resolveCall(ctx, id, &a, result)
}

func (t *Service) resolveCall(ctx context.Context, id events.SessionID, a *call.PortableCall, result events.ToolResult) error {
	result.Call = a.Index
	err := t.cfg.Worker.ResolveTool(ctx, id, a.Effect, result)
	if errors.Is(err, api.ErrResolved) || errors.Is(err, api.ErrUnknownTurn) || errors.Is(err, events.ErrNoSession) {
		return nil
	}
	return err
}
