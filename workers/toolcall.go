package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// A call that another node runs is a task of class tool, whose claim is the
// event task.started: what must not run twice is not restarted. For the turn it
// is pending: nobody holds the turn, and the result's own command wakes it.
// Before such a task ends, the call has its result, whatever became of it.

// toolArgs are the arguments of such a task.
type toolArgs struct {
	Turn   events.TurnID   `json:"turn"`
	Effect events.EffectID `json:"effect"`
	Call   events.CallID   `json:"call"`
	Index  int64           `json:"index"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"`
	Blob   events.BlobRef  `json:"blob"` // instead of Args, where they are large
}

// handOutInline is how large arguments may be that stand in the history once more.
const handOutInline = 16 << 10

// handOut leaves a call to a node with the tool role. Once more is harmless while the task lives.
func (d *dispatch) handOut(ctx context.Context, tool *plugin.Registered, args []byte) error {
	a := toolArgs{Turn: d.turn, Effect: d.call.Effect, Call: d.call.ID, Index: d.call.Index, Tool: d.call.Tool, Args: args}
	if len(args) > handOutInline {
		var err error
		if a.Blob, err = d.w.blobs.PutBlob(ctx, args); err != nil {
			return err
		}
		a.Args = nil
	}
	body, err := json.Marshal(&a)
	if err != nil {
		return err
	}
	restart := events.RestartAlways
	if tool.Effects == events.EffectsNonIdempotent {
		restart = events.RestartNever
	}
	_, err = d.w.host.RegisterTask(ctx, d.session, api.TaskRequest{
		ID: callTask(d.session, d.call.Effect), Of: events.TaskTool, Producer: d.call.Tool,
		Runner: task.ToolRunner, Args: body, Restart: restart,
	})
	if errors.Is(err, session.ErrTaskRunning) {
		return nil
	}
	return err
}

// callTask is the id of a call's task.
func callTask(id events.SessionID, effect events.EffectID) events.TaskID {
	return events.TaskID(events.DerivedID("call-", string(id), string(effect)))
}

// callTool runs a call for a turn elsewhere, and gives the turn what it came to.
func (w *Worker) callTool(runCtx context.Context, t *RunningTask) (string, error) {
	var a toolArgs
	if err := json.Unmarshal(t.Args(), &a); err != nil {
		return "", fmt.Errorf("arguments of a tool's task: %w", err)
	}
	ctx, cancel := context.WithCancel(runCtx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	ended := make(chan struct{}, 1)
	stop, err := w.cfg.Bus.Hear(t.Session(), func(m bus.LiveMessage) {
		if m.Ends {
			select {
			case ended <- struct{}{}:
			default: // a look is due already
			}
		}
	})
	if err != nil {
		return "", err
	}
	defer stop()
	watch.Go(func() {
		if w.unawaited(ctx, t.Session(), &a, ended) {
			cancel()
		}
	})
	result, err := w.called(ctx, t.Session(), &a)
	switch {
	case errors.Is(context.Cause(runCtx), ErrTaskCancelled):
		late, cancel := context.WithTimeout(context.WithoutCancel(runCtx), recordWait)
		defer cancel()
		return "", errors.Join(ErrTaskCancelled, w.tasks.resolve(late, t.Session(), t.Args(), cancelledCall()))
	case runCtx.Err() != nil:
		return "", context.Cause(runCtx) // whoever ends the task sees to the call
	case ctx.Err() != nil:
		return "the turn has ended", nil
	case err != nil:
		return "", err
	case result == nil:
		return "no result, or one from outside", nil
	}
	return string(result.Outcome), w.tasks.resolve(ctx, t.Session(), t.Args(), *result)
}

// unawaited looks whenever a turn of the session has ended, until none waits for
// the call any more, or ctx ends: the turn may be another one, which never ran.
func (w *Worker) unawaited(ctx context.Context, id events.SessionID, a *toolArgs, ended <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ended:
		}
		s, err := w.host.State(ctx, id)
		if errors.Is(err, events.ErrNoSession) || err == nil && !waits(s.Turn(), a) {
			return true
		}
	}
}

// called runs the tool. The result is nil where nobody waits for one, or the tool promised one from outside.
func (w *Worker) called(ctx context.Context, id events.SessionID, a *toolArgs) (*events.ToolResult, error) {
	s, err := w.host.State(ctx, id)
	if err != nil {
		return nil, err
	}
	p, _, release, err := w.host.Stack(ctx, s)
	if err != nil {
		return failed(a.Index, plugin.ClassUnavailable, plugin.CodeUnavailable, err), nil
	}
	defer release()
	if !waits(s.Turn(), a) {
		return nil, nil //nolint:nilnil // nothing is to be done
	}
	tools, err := p.Catalog(&s.Catalog)
	if err != nil {
		return failed(a.Index, plugin.ClassUnavailable, plugin.CodeUnavailable, err), nil
	}
	args, err := session.Body(ctx, w.blobs, a.Args, a.Blob)
	if err != nil {
		return nil, err
	}
	now := &seen{state: s, session: id, turn: a.Turn, w: w}
	d := &dispatch{
		w: w, session: id, turn: a.Turn, call: turn.Call{Index: a.Index, Effect: a.Effect, ID: a.Call, Tool: a.Tool, Args: args},
		seen: now, stack: p, tools: tools, callable: now.offers(a.Tool), facts: noFacts, parked: new(parking), inner: true, fixed: true,
	}
	r, _, attempts, err := d.attempt(ctx, args)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		r = failureOf(err)
	case r.Pending:
		return nil, nil //nolint:nilnil // whoever has the key gives it
	}
	out := resultOf(a.Index, r)
	out.Attempts = manyOnly(max(attempts, 1))
	return &out, nil
}

// waits reports whether a turn waits for a call.
func waits(t *projector.Turn, a *toolArgs) bool {
	return t != nil && t.ID == a.Turn && !t.Cancelled && a.Index >= 0 && a.Index < int64(len(t.Calls)) &&
		turn.ToolEffect(t.ID, t.Iteration, a.Index) == a.Effect && !t.Calls[a.Index].Done && t.Resolution(a.Effect) == nil
}

func cancelledCall() events.ToolResult {
	return events.ToolResult{Outcome: events.OutcomeCancelled, Text: "[cancelled] the call was cancelled"}
}

// lose tells the turn of a call that had begun and whose worker is gone. Other tasks have no call.
func (t *Tasks) lose(ctx context.Context, id events.SessionID, class bus.Class, args []byte) error {
	if class != bus.ClassTool {
		return nil
	}
	return t.resolve(ctx, id, args, events.ToolResult{Outcome: events.OutcomeLost, Text: projector.LostText})
}

// unreturned is the result of a call whose tool gave none.
func (r *taskRun) unreturned(err error, gone string) events.ToolResult {
	switch {
	case gone != "":
		return events.ToolResult{Outcome: events.OutcomeLost, Text: projector.LostText}
	case r.asked:
		return cancelledCall()
	}
	return *failed(0, plugin.ClassExternal, plugin.CodeUnavailable, err)
}

// resolveEnded tells the turn whose call's task was ended by a host that the
// call was cancelled, unless it has a result. The task's record has lost its arguments by then.
func (t *Tasks) resolveEnded(ctx context.Context, id events.SessionID, name events.TaskID) error {
	s, err := t.h.State(ctx, id)
	if err != nil || s.Turn() == nil {
		return err
	}
	for i := range s.Turn().Calls {
		effect := turn.ToolEffect(s.Turn().ID, s.Turn().Iteration, int64(i))
		if callTask(id, effect) == name {
			return t.resolveCall(ctx, id, &toolArgs{Effect: effect, Index: int64(i)}, cancelledCall())
		}
	}
	return nil
}

// resolve gives a call its result, unless it has one, or nobody waits for it any more.
func (t *Tasks) resolve(ctx context.Context, id events.SessionID, args []byte, result events.ToolResult) error {
	var a toolArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil //nolint:nilerr // a host registered the task: it has no call
	}
	return t.resolveCall(ctx, id, &a, result)
}

func (t *Tasks) resolveCall(ctx context.Context, id events.SessionID, a *toolArgs, result events.ToolResult) error {
	result.Call = a.Index
	err := t.h.ResolveTool(ctx, id, a.Effect, result)
	if errors.Is(err, api.ErrResolved) || errors.Is(err, session.ErrUnknownTurn) || errors.Is(err, events.ErrNoSession) {
		return nil
	}
	return err
}
