package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// codeError is the code of results of code that ended with an error.
const codeError = "code_error"

// execute runs a protocol's code, on the frame's execution state. Without
// something that runs it, the turn ends (host specification 5.3).
func (d *dispatch) execute(ctx context.Context, args []byte) (plugin.Result, error) {
	executor := d.stack.CodeExecutor()
	if executor == nil {
		return plugin.Result{}, d.stop("code_execution_unavailable", api.ErrCodeUnavailable)
	}
	var req struct {
		Language string `json:"language"`
		Code     string `json:"code"`
	}
	if err := json.Unmarshal(args, &req); err != nil {
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassInvalidRequest, Code: plugin.CodeInvalidArgs, Message: "arguments of code: " + err.Error()}
	}
	in, err := d.execContext(ctx)
	if err != nil {
		return plugin.Result{}, err
	}
	done, err := d.stack.Executing(ctx)
	if err != nil {
		return plugin.Result{}, err
	}
	defer done()
	frame := d.seen.state.Frame()
	state, err := session.Body(ctx, d.w.blobs, frame.State, frame.Blob)
	if err != nil {
		return plugin.Result{}, fmt.Errorf("execution state: %w", err)
	}
	resp, err := d.contained(ctx, executor, in, state, plugin.ExecRequest{Language: req.Language, Code: req.Code, AcceptFinish: true})
	switch {
	case errors.Is(err, api.ErrRuntimeStopped):
		return plugin.Result{}, d.stop("code_execution_runtime_stopped", err)
	case err != nil:
		return plugin.Result{}, err
	}
	d.saveExecution(ctx, executor)
	return codeResult(resp), nil
}

// stop lets the turn end beside the call's failure.
func (d *dispatch) stop(code string, err error) error {
	issue := issueOf("runtime", code, err)
	d.stopped = &issue
	return &plugin.Failure{Class: plugin.ClassUnavailable, Code: code, Message: err.Error()}
}

// contained runs the executor; its panic is the code's failure.
func (d *dispatch) contained(ctx context.Context, executor plugin.CodeExecutor, in plugin.ExecContext, state []byte, req plugin.ExecRequest) (resp plugin.ExecResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.w.log.Error("code executor panicked", zap.String("session", string(d.session)), zap.String("call", string(d.call.Effect)), zap.ByteString("stack", debug.Stack()))
			err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("code executor panicked: %v", p)}
		}
	}()
	if len(state) == 0 {
		state = nil
	}
	if err := executor.Restore(ctx, plugin.ProtocolSession{Session: d.session}, state); err != nil {
		return resp, fmt.Errorf("restore execution state: %w", err)
	}
	return executor.Execute(ctx, in, req)
}

// saveExecution lets a changed execution state land with the result. One that
// cannot be taken leaves the old one (host specification 5.3).
func (d *dispatch) saveExecution(ctx context.Context, executor plugin.CodeExecutor) {
	if !executor.Dirty() {
		return
	}
	state, err := executor.Snapshot(ctx, plugin.ProtocolSession{Session: d.session})
	if err != nil {
		d.w.warn(d.session, fmt.Errorf("save execution state: %w", err))
		return
	}
	d.beside = append(d.beside, &events.FrameStateSaved{State: state})
}

// codeResult is what the model reads, and what becomes of the turn.
func codeResult(resp plugin.ExecResponse) plugin.Result {
	text := resp.Output
	switch {
	case resp.Error != "":
		return plugin.Result{
			Text: text + "[error] " + resp.Error, Outcome: events.OutcomeFailure, Class: plugin.ClassExecution, Code: codeError,
		}
	case resp.Finished:
		if text = string(resp.Value); text == "" {
			text = "null"
		}
		return plugin.Result{Text: text, Control: events.ControlSubmit}
	case resp.Switch != nil:
		return plugin.Result{Text: text, Control: events.ControlSwitch, Switch: *resp.Switch}
	case text == "":
		text = "(no output)"
	}
	return plugin.Result{Text: text}
}

// What a frame switch may take of the event that carries it, in bytes. The
// bodies beside it take up to three quarters of one.
const (
	maxSwitch     = 56 << 10
	switchInline  = 16 << 10
	switchInlined = 32 << 10
)

// spilled moves large bodies of a frame's first nodes to blobs: until the
// frame is opened they travel in events that keep no bodies outside. A switch
// that is too large for those is a [*plugin.Failure].
func (w *Worker) spilled(ctx context.Context, s events.FrameSwitch) (events.FrameSwitch, error) {
	opened, err := session.SpillAbove(ctx, w.blobs, &events.FrameOpened{Nodes: s.Nodes}, switchInline, switchInlined)
	if err != nil {
		return s, err
	}
	s.Nodes = opened.(*events.FrameOpened).Nodes
	data, err := events.EncodePayload(&events.TurnCompleted{Switch: s})
	if err == nil && len(data) > maxSwitch {
		err = &plugin.Failure{Class: plugin.ClassResourceLimit, Code: switchTooLarge, Message: fmt.Sprintf(
			"the task and the nodes of a frame switch have %d bytes, limit is %d", len(data), maxSwitch)}
	}
	return s, err
}

// switchTooLarge is the code of results that would have switched frames with too much.
const switchTooLarge = "agent_frame_too_large"

// execContext is what the code can do.
func (d *dispatch) execContext(ctx context.Context) (plugin.ExecContext, error) {
	in := plugin.ExecContext{
		Session: d.session, Turn: d.turn, Effect: d.call.Effect, Options: d.seen.options, Extension: d.seen.input.Extension,
		Chronology: d.seen.view.Chronology(), Host: d.seen.host(d.call.Effect),
		Call: d.nested, Start: d.startTool, Await: d.awaitTool, Message: d.stack.Message,
	}
	for i := range d.seen.state.Catalog.Tools {
		if t := &d.seen.state.Catalog.Tools[i]; t.Callable() {
			in.Tools = append(in.Tools, *t)
		}
	}
	for i := range in.Chronology {
		n := in.Chronology[i].Node
		if in.Chronology[i].Kind != projector.EntryNode || n.Blob.IsZero() {
			continue
		}
		filled := *n // nodes are shared
		var err error
		if filled.Body, err = d.w.blobs.Blob(ctx, n.Blob); err != nil {
			return in, fmt.Errorf("node %s: %w", n.ID, err)
		}
		in.Chronology[i].Node = &filled
	}
	return in, nil
}
