package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"

	"github.com/lash-go/lash/session/schema"
)

type run struct {
	limits    Limits
	meter     *meter
	caller    Caller
	tools     []ToolInfo
	functions starlark.StringDict // of the tools
	reserved  starlark.StringDict // names that the code cannot keep
	state     *decoder
	program   *program
	out       output
	calls     int
	made      atomic.Int64 // calls; atomic, as Run may return before the program ends
	waits     int
	messages  int
	shown     []Attachment
	attached  json.RawMessage // of the conversation; nil: not asked for
	accept    bool
	schema    *jsonschema.Resolved
	ended     bool // finish was called
	finished  bool
	value     json.RawMessage

	continuation *Continuation
	fatal        error // ends the run with an error of Run
}

// Run runs one program. An error is never the program's: ctx has ended, the caller stopped the run, or the request is
// invalid. Run returns
// at most a second after the time limit. A step that still runs then ends later by itself, calls no tool, and its
// result is dropped.
func Run(ctx context.Context, limits Limits, req Request, caller Caller) (Response, error) {
	limits = limits.withDefaults()
	r := &run{
		limits: limits, caller: caller, tools: req.Tools, accept: req.AcceptFinish, out: output{limit: limits.Output},
		functions: make(starlark.StringDict), reserved: make(starlark.StringDict), program: new(program),
	}
	r.meter = &meter{limits: limits, thread: &starlark.Thread{Name: codeFile}, clock: clock{overdue: make(chan struct{})}}
	type ended struct {
		resp Response
		err  error
	}
	done := make(chan ended, 1)
	go func() { // ends with the program; Run waits for it up to clock.wall
		resp, err := r.evaluate(ctx, req)
		done <- ended{resp, err}
	}()
	select {
	case e := <-done:
		return e.resp, e.err
	case <-r.meter.clock.overdue:
		if ctx.Err() != nil {
			return Response{}, context.Cause(ctx)
		}
		return Response{Error: tooLong(limits), State: req.State, Calls: int(r.made.Load()), Steps: limits.Steps}, nil
	}
}

func tooLong(limits Limits) string {
	return fmt.Sprintf("the program ran longer than %s; the variables are as before it; do less in one program", limits.Timeout)
}

func (r *run) evaluate(ctx context.Context, req Request) (resp Response, err error) {
	limits := r.limits
	defer func() { // an unexpected panic
		if p := recover(); p != nil {
			resp, err = r.respond(req.State, false, fmt.Sprintf("internal error: %v; the variables are as before", p)), nil
		}
	}()
	if req.FinishSchema != nil {
		if r.schema, err = schema.Compile("finish_schema", req.FinishSchema); err != nil {
			return Response{}, err
		}
	}
	if r.state, err = decodeState(req.State); err != nil {
		return Response{}, &stateError{err}
	}
	if int64(len(req.Code)) > limits.Code {
		return r.respond(req.State, false, fmt.Sprintf("the code is too long: %d bytes (limit %d); write a shorter program", len(req.Code), limits.Code)), nil
	}
	if !utf8.ValidString(req.Code) {
		return r.respond(req.State, false, "the code is not UTF-8"), nil
	}
	code := strings.ReplaceAll(strings.ReplaceAll(req.Code, "\r\n", "\n"), "\r", "\n")
	env := r.meter.library()
	maps.Copy(r.reserved, env)
	maps.Copy(env, r.host(ctx))
	maps.Copy(env, r.meter.guards())
	env[guardRestore] = starlark.NewBuiltin(guardRestore, r.restore)
	env[guardVar] = starlark.NewBuiltin(guardVar, r.variable)

	err = r.compile(code, env)
	if err != nil {
		if broken, ok := errors.AsType[*stateError](err); ok {
			return Response{}, broken
		}
		return r.respond(req.State, false, r.explain(err)), nil
	}
	globals, err := r.execute(ctx, env)
	switch {
	case r.fatal != nil:
		return Response{}, r.fatal
	case err != nil && !r.ended && ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	case err != nil && !r.ended && r.meter.clock.expired.Load() && r.meter.stopped == nil:
		// The clock stops repeated runs at different points, so the state stays unchanged.
		return r.respond(req.State, false, tooLong(limits)), nil
	}
	message := ""
	if err != nil && !r.ended {
		message = r.explain(err)
	}
	state, tooLarge := r.save(globals, req.State)
	if tooLarge != nil { // all variables are kept, or none
		message = strings.TrimPrefix(message+"\n"+tooLarge.Error(), "\n")
		state = req.State
	}
	return r.respond(state, !bytes.Equal(state, req.State), message), nil
}

// compile compiles the code and the saved functions. An undefined name is an error in the code, but in a saved
// function only when it is
// used.
func (r *run) compile(code string, env starlark.StringDict) error {
	file, err := r.program.assemble(code, r.state)
	if err != nil {
		return err
	}
	r.program.compiled, err = starlark.FileProgram(file, env.Has)
	list, ok := errors.AsType[resolve.ErrorList](err)
	if !ok {
		return err
	}
	list = slices.DeleteFunc(list, func(e resolve.Error) bool { return e.Pos.Filename() != codeFile })
	if len(list) > 0 {
		return list
	}
	if file, err = r.program.assemble(code, r.state); err != nil { // the first compilation has changed the tree
		return err
	}
	r.program.compiled, err = starlark.FileProgram(file, func(name string) bool { return env.Has(name) || r.program.used[name] })
	return err
}

func (r *run) execute(ctx context.Context, env starlark.StringDict) (starlark.StringDict, error) {
	thread := r.meter.thread
	thread.SetMaxExecutionSteps(r.limits.Steps)
	thread.OnMaxSteps = func(thread *starlark.Thread) {
		_ = r.meter.stopSteps()
		thread.Cancel("steps")
	}
	thread.Print = func(_ *starlark.Thread, s string) { r.out.line(clean(s)) }
	defer context.AfterFunc(ctx, func() { thread.Cancel("ended") })()
	r.meter.clock.start(thread, r.limits.Timeout)
	defer r.meter.clock.pause() //nolint:errcheck // the program has ended, possibly by the clock
	return r.program.compiled.Init(thread, env)
}

func (r *run) respond(state []byte, dirty bool, message string) Response {
	text, cut := r.out.text()
	next := r.continuation
	if message != "" {
		next = nil
	}
	return Response{
		Continue: next,
		Output:   text, Truncated: cut, Shown: r.shown, Calls: r.calls, Finished: r.finished && message == "", Value: r.value,
		Error: message, State: state, Dirty: dirty, Steps: min(r.meter.thread.Steps, r.limits.Steps),
	}
}
