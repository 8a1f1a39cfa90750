package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
)

// codeError is the code of results of code that ended with an error.
const codeError = "code_error"

// execute runs a protocol's code on the frame's execution state. Without a plugin that runs code the turn ends.
func (d *dispatch) execute(ctx context.Context, args []byte) (plugin.Result, error) {
	executor := d.stack.CodeExecutor()
	if executor == nil {
		return plugin.Result{}, d.stopTurn(api.ErrCodeUnavailable)
	}
	var req struct {
		Language string `json:"language"`
		Code     string `json:"code"`
	}
	if err := json.Unmarshal(args, &req); err != nil {
		return plugin.Result{}, plugin.InvalidArgs("arguments of code: %v", err)
	}
	in, err := d.execContext(ctx)
	if err != nil {
		return plugin.Result{}, err
	}
	done, err := d.stack.LockExecutor(ctx)
	if err != nil {
		return plugin.Result{}, err
	}
	defer done()
	frame := d.at.state.Frame()
	state, err := blob.Body(ctx, d.env.Blobs, frame.State, frame.Blob)
	if err != nil {
		return plugin.Result{}, fmt.Errorf("execution state: %w", err)
	}
	resp, err := d.runExecutor(ctx, executor, in, state, plugin.ExecRequest{Language: req.Language, Code: req.Code, AcceptFinish: true})
	switch {
	case errors.Is(err, api.ErrRuntimeStopped):
		return plugin.Result{}, d.stopTurn(err)
	case err != nil:
		return plugin.Result{}, err
	}
	d.saveExecution(ctx, executor)
	r := codeResult(resp)
	r.Attachments = resp.Attachments
	if bad := r.Check(); bad != nil {
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("the code returned garbage: %v", bad)}
	}
	return r, nil
}

// stopTurn fails the call, and ends the turn with the error's code.
func (d *dispatch) stopTurn(err error) error {
	code, _ := api.Code(err)
	issue := IssueOf("runtime", code, err)
	d.stopIssue = &issue
	return &plugin.Failure{Class: plugin.ClassUnavailable, Code: code, Message: err.Error()}
}

// runExecutor runs the executor. A panic of the executor fails the call.
func (d *dispatch) runExecutor(ctx context.Context, executor plugin.CodeExecutor, in plugin.ExecContext, state []byte, req plugin.ExecRequest) (resp plugin.ExecResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.env.Log.Error("code executor panicked", zap.String("session", string(d.at.session)), zap.String("call", string(d.call.Effect)), zap.ByteString("stack", debug.Stack()))
			err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("code executor panicked: %v", p)}
		}
	}()
	if len(state) == 0 {
		state = nil
	}
	if err := executor.Restore(ctx, plugin.ProtocolSession{Session: d.at.session}, state); err != nil {
		return resp, fmt.Errorf("restore execution state: %w", err)
	}
	return executor.Execute(ctx, in, req)
}

// saveExecution records a changed execution state with the result. Where the snapshot fails or is too large, the old
// state stays.
func (d *dispatch) saveExecution(ctx context.Context, executor plugin.CodeExecutor) {
	if !executor.Dirty() {
		return
	}
	state, err := executor.Snapshot(ctx, plugin.ProtocolSession{Session: d.at.session})
	if err == nil && len(state) > events.MaxBlobBytes {
		err = &events.FieldError{Field: "state", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(state), events.MaxBlobBytes), Err: events.ErrTooLarge}
	}
	if err != nil {
		d.env.warn(d.at.session, fmt.Errorf("save execution state: %w", err))
		return
	}
	d.extra = append(d.extra, &events.FrameStateSaved{State: state})
}

// codeResult is the result of code: the text for the model, and whether the turn ends or switches to another frame.
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

// execContext is the data and the functions that the code can use.
func (d *dispatch) execContext(ctx context.Context) (plugin.ExecContext, error) {
	w, err := d.at.bodies(ctx)
	if err != nil {
		return plugin.ExecContext{}, err
	}
	where, err := d.at.environment("")
	if err != nil {
		return plugin.ExecContext{}, err
	}
	in := plugin.ExecContext{
		Session: d.at.session, Environment: where, Turn: d.at.turn, Effect: d.call.Effect, Options: d.at.options, Extension: w.input.Extension,
		Frame: d.at.state.Frame().ID, Plugins: maps.Clone(w.input.Plugins),
		Chronology: w.view.Chronology(), Host: d.at.host(d.call.Effect),
		Call: d.nestedCall, Start: d.startTool, Await: d.awaitTool, Message: d.stack.Message,
		Attachments: d.attachments,
	}
	for i := range d.at.state.Catalog.Tools {
		if t := &d.at.state.Catalog.Tools[i]; t.Callable() {
			in.Tools = append(in.Tools, *t)
		}
	}
	return in, nil
}
