package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// PortableCall is a tool call for a node with the tool role. It is a task of class tool, and PortableCall is the task's
// arguments. The claim of the task is the event task.started: a task whose tool must not run twice is not restarted.
// For the turn the call is pending: no worker processes the turn, and a worker continues it when the result is in the
// history. The call gets its result before the task ends, for every reason of the end.
type PortableCall struct {
	Turn   events.TurnID   `json:"turn"`
	Effect events.EffectID `json:"effect"`
	Call   events.CallID   `json:"call"`
	Index  int64           `json:"index"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"`
	Blob   events.BlobRef  `json:"blob"` // instead of Args above [portableInline]
}

// portableInline limits the arguments that the task's record contains inline, in bytes. The history already has them
// once.
const portableInline = 16 << 10

// registerPortable registers the task of a call. It changes nothing where a task of the call lives.
func (d *dispatch) registerPortable(ctx context.Context, tool *plugin.BoundTool, args []byte) error {
	a := PortableCall{Turn: d.at.turn, Effect: d.call.Effect, Call: d.call.ID, Index: d.call.Index, Tool: d.call.Tool, Args: args}
	if len(args) > portableInline {
		var err error
		if a.Blob, err = d.env.Blobs.PutBlob(ctx, args); err != nil {
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
	_, err = d.env.Worker.Host.RegisterTask(ctx, d.at.session, api.TaskRequest{
		ID: task.CallTask(d.at.session, d.call.Effect), Of: events.TaskTool, Producer: d.call.Tool,
		Runner: task.ToolRunner, Args: body, Restart: restart,
	})
	if errors.Is(err, api.ErrTaskRunning) {
		return nil
	}
	return err
}

// RunPortable does the work of a task of class tool: it runs the call, and passes its result to resolve. args are those
// of the task. It cancels the call when no turn awaits it any more. Where ctx ends before the result, the error is
// the cause of that, and resolve is not called.
func (e *Env) RunPortable(ctx context.Context, id events.SessionID, args []byte, resolve func(context.Context, events.ToolResult) error) (summary string, err error) {
	var a PortableCall
	if err := json.Unmarshal(args, &a); err != nil {
		return "", fmt.Errorf("arguments of a tool's task: %w", err)
	}
	waiter, err := e.Worker.Subscribe(id, func(m bus.LiveMessage) bool { return m.MayEndTurn })
	if err != nil {
		return "", err
	}
	defer waiter.Close()
	callCtx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		if waitUntilAbandoned(callCtx, waiter, &a) {
			cancel()
		}
	})
	result, err := e.portable(callCtx, id, &a)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case callCtx.Err() != nil:
		return "the turn has ended", nil
	case err != nil:
		return "", err
	case result == nil:
		return "no result, or one from outside", nil
	}
	return string(result.Outcome), resolve(callCtx, *result)
}

// PortableAt is where the call of a task of class tool runs, as of this node. It does not know where it cannot build the plugins: then that
// is the call's failure.
func (e *Env) PortableAt(ctx context.Context, id events.SessionID, args []byte) plugin.Where {
	var a PortableCall
	if json.Unmarshal(args, &a) != nil {
		return plugin.WhereHere
	}
	s, err := e.Worker.Host.State(ctx, id)
	if err != nil {
		return plugin.WhereHere
	}
	p, _, release, err := e.Worker.Stack(ctx, s)
	if err != nil {
		return plugin.WhereHere
	}
	defer release()
	tools, err := p.Catalog(&s.Catalog)
	if err != nil {
		return plugin.WhereHere
	}
	if tool, ok := tools.Find(a.Tool); ok {
		return tool.At()
	}
	return plugin.WhereHere
}

// abandonedCheck is the wait before the first read of the log for an abandoned call, and after a failed read.
const abandonedCheck = time.Second

// stateWaiter waits for a condition on a session's state, see [session.Worker.Subscribe].
type stateWaiter interface {
	Wait(ctx context.Context, first time.Duration, done func(*projector.State) (bool, error)) error
}

// waitUntilAbandoned waits until no turn awaits the call: then it returns true. It returns false when ctx ends. The turn that
// ends may be another one, which never ran.
func waitUntilAbandoned(ctx context.Context, waiter stateWaiter, a *PortableCall) bool {
	for ctx.Err() == nil {
		err := waiter.Wait(ctx, abandonedCheck, func(s *projector.State) (bool, error) { return !a.awaitedBy(s.Turn()), nil })
		if err == nil || errors.Is(err, events.ErrNoSession) {
			return true
		}
	}
	return false
}

// portable runs the tool. The result is nil where no turn awaits it, and where the tool returned a pending result,
// which comes from outside.
func (e *Env) portable(ctx context.Context, id events.SessionID, a *PortableCall) (*events.ToolResult, error) {
	account := e.Memory.Account(string(id), 0)
	defer account.Close()
	ctx = account.In(ctx)
	s, err := e.Worker.Host.State(ctx, id)
	if err != nil {
		return nil, err
	}
	unavailable := func(err error) (*events.ToolResult, error) {
		r := Failed(a.Index, plugin.ClassUnavailable, plugin.CodeUnavailable, err)
		return &r, nil
	}
	p, _, release, err := e.Worker.Stack(ctx, s)
	if err != nil {
		return unavailable(err)
	}
	defer release()
	if !a.awaitedBy(s.Turn()) {
		return nil, nil //nolint:nilnil // there is nothing to do
	}
	tools, err := p.Catalog(&s.Catalog)
	if err != nil {
		return unavailable(err)
	}
	args, err := blob.Body(ctx, e.Blobs, a.Args, a.Blob)
	if err != nil {
		return nil, err
	}
	at := &Snapshot{env: e, state: s, session: id, turn: a.Turn}
	d := newDispatch(at, p, tools, turn.Call{Index: a.Index, Effect: a.Effect, ID: a.Call, Tool: a.Tool, Args: args, Places: s.Turn().Calls[a.Index].Places})
	d.inner, d.cannotWait = true, true
	r, _, attempts, err := d.tool(ctx, args)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		r = failureOf(err)
	case r.Pending:
		return nil, nil //nolint:nilnil // the program with the completion key resolves the call
	}
	out := resultOf(a.Index, r)
	out.Attempts = exceptOne(max(attempts, 1))
	return &out, nil
}

// awaitedBy reports whether a turn awaits the call.
func (a *PortableCall) awaitedBy(t *projector.Turn) bool {
	return t != nil && t.ID == a.Turn && !t.Cancelled && a.Index >= 0 && a.Index < int64(len(t.Calls)) &&
		turn.ToolEffect(t.ID, t.Iteration, a.Index) == a.Effect && !t.Calls[a.Index].Done && t.Resolution(a.Effect) == nil
}
