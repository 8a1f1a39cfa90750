package sandbox

import (
	"bytes"
	"cmp"
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
	"go.starlark.net/syntax"

	"github.com/lash-go/lash/session/schema"
)

// ErrStop in the error of a [Caller] ends the run: [Run] returns that error.
// Every other error of a caller is a failed tool, which the program sees.
var ErrStop = errors.New("stop the run")

// Caller runs tools for the program. Call is called from several goroutines at
// once while the program gathers; everything else comes one at a time.
type Caller interface {
	// Call runs one tool and returns its value as JSON. Ordinals count the calls
	// and starts of a run from 0 in program order, so that a rerun gets recorded answers back.
	Call(ctx context.Context, c Call) (json.RawMessage, error)
	// Start begins a tool without waiting and returns the handle's id.
	Start(ctx context.Context, c Call) (id string, err error)
	// Await returns the value of a started tool, of this run or an earlier one.
	// It may be asked more than once.
	Await(ctx context.Context, id string) (json.RawMessage, error)
	// Message passes on what the program says while it runs. A rerun says it again.
	Message(text, kind string)
}

// Call is one call of a tool.
type Call struct {
	Ordinal int // from 0
	Tool    string
	Args    json.RawMessage // an object, keys sorted
}

// ToolInfo is a tool that the program may call.
type ToolInfo struct {
	Name        string
	Description string
	Schema      json.RawMessage // of the arguments; checking them is the caller's
}

// Request is one program to run.
type Request struct {
	Code         string
	Tools        []ToolInfo
	State        []byte             // of the run before; empty at first
	AcceptFinish bool               // whether finish may end the turn
	FinishSchema *jsonschema.Schema // of finish's value; nil accepts any
}

// Response is what came of it.
type Response struct {
	Output    string // what was printed, and what could not be kept
	Truncated int64  // bytes cut out of Output; 0 when it is whole
	Calls     int    // of tools, started ones included
	Finished  bool
	Value     json.RawMessage // what the program finished with
	Continue  *Continuation   // where the program asked to go on elsewhere; nil where it did not
	Error     string          // for the model to read; empty when the program ran to its end
	State     []byte          // to give to the next run
	Dirty     bool            // whether State differs from the request's
	Steps     uint64
}

// Continuation is what a program that called continue_as wants to go on with.
type Continuation struct {
	Task  string
	Names []string // of the variables that the next program finds, sorted
	State []byte   // that it begins with
}

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
	made      atomic.Int64 // calls, for whoever does not wait for the program
	waits     int
	messages  int
	accept    bool
	schema    *jsonschema.Resolved
	ended     bool // finish was called
	finished  bool
	value     json.RawMessage

	continuation *Continuation
	fatal        error // ends the run with an error of Run's
}

// Run runs one program. The error is never the program's: ctx has ended, the
// caller stopped the run, or the request makes no sense. It returns at most
// [Slack] after the limit of time. A step that is at work then ends by itself,
// without calling a tool, and nothing comes of it.
func Run(ctx context.Context, limits Limits, req Request, caller Caller) (Response, error) {
	limits = limits.withDefaults()
	r := &run{
		limits: limits, caller: caller, tools: req.Tools, accept: req.AcceptFinish, out: output{limit: limits.Output},
		functions: make(starlark.StringDict), reserved: make(starlark.StringDict), program: new(program),
	}
	r.meter = &meter{limits: limits, thread: &starlark.Thread{Name: codeFile}, clock: clock{wall: make(chan struct{})}}
	type ended struct {
		resp Response
		err  error
	}
	done := make(chan ended, 1)
	go func() { // ends with the program; waited for up to the wall
		resp, err := r.run(ctx, req)
		done <- ended{resp, err}
	}()
	select {
	case e := <-done:
		return e.resp, e.err
	case <-r.meter.clock.wall:
		if ctx.Err() != nil {
			return Response{}, context.Cause(ctx)
		}
		return Response{Error: tooLong(limits), State: req.State, Calls: int(r.made.Load()), Steps: limits.Steps}, nil
	}
}

func tooLong(limits Limits) string {
	return fmt.Sprintf("the program ran longer than %s; the variables are as before it; do less in one program", limits.Timeout)
}

func (r *run) run(ctx context.Context, req Request) (resp Response, err error) {
	limits := r.limits
	defer func() { // what we or the interpreter did not foresee
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
		// Where the clock stops a program differs from run to run, so nothing of it stays.
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

// compile compiles the code and what was saved. A name that is not there is an
// error at once in the code, but in a saved function only when it is used.
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
	if file, err = r.program.assemble(code, r.state); err != nil { // compiling has changed the tree
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
	defer r.meter.clock.pause() //nolint:errcheck // the program has ended, if by the clock
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
		Output:   text, Truncated: cut, Calls: r.calls, Finished: r.finished && message == "", Value: r.value,
		Error: message, State: state, Dirty: dirty, Steps: min(r.meter.thread.Steps, r.limits.Steps),
	}
}

// save encodes the variables that the program left behind. What has no
// encoding it leaves out and names in the output. Variables that are too large
// together, or too many, are an error.
func (r *run) save(globals starlark.StringDict, before []byte) ([]byte, error) {
	const maxLines = 20
	dropped := 0
	drop := func(name, format string, args ...any) {
		if dropped++; dropped <= maxLines {
			r.out.line("not kept: " + name + ": " + clean(fmt.Sprintf(format, args...)))
		}
	}
	enc := newEncoder(r.limits.StateBytes-64, r.program.source)
	var kept saved
	for _, name := range globals.Keys() {
		if strings.Contains(name, mark) {
			continue
		}
		if r.reserved.Has(name) {
			drop(name, "it is the name of a function that is always there; use another name")
			continue
		}
		if len(kept.names) >= maxVariables {
			return nil, fmt.Errorf("there are more than %d variables%s", maxVariables, asBefore)
		}
		size := enc.size
		enc.size += int64(len(name)) + 4
		b, err := enc.add(globals[name])
		switch {
		case errors.Is(err, errTooLarge):
			return nil, fmt.Errorf("with %s the variables take more than %d bytes%s%s", name, r.limits.StateBytes, kept.largest(), asBefore)
		case err != nil:
			enc.size = size
			drop(name, "%v", err)
		default:
			kept.add(name, b, enc.size-size)
		}
	}
	if dropped > maxLines {
		r.out.line(fmt.Sprintf("not kept: %d more", dropped-maxLines))
	}
	if len(kept.names) == 0 && len(before) == 0 {
		return before, nil
	}
	return enc.finish(kept.names, kept.values), nil
}

// asBefore ends what is said of variables that cannot be kept.
const asBefore = "; all variables are as before this program; keep less, set what you no longer need to None, or store it with a tool"

// saved are the variables that are encoded so far.
type saved struct {
	names  []string
	values [][]byte
	sizes  []int64 // with all that no variable before it has
}

func (s *saved) add(name string, value []byte, size int64) {
	s.names, s.values, s.sizes = append(s.names, name), append(s.values, value), append(s.sizes, size)
}

// largest names the three largest, to be read after a sentence.
func (s *saved) largest() string {
	order := make([]int, len(s.names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.sizes[b], s.sizes[a]) })
	var list []string
	for _, i := range order[:min(3, len(order))] {
		list = append(list, fmt.Sprintf("%s has %d", s.names[i], s.sizes[i]))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// explain is an error as the model reads it.
func (r *run) explain(err error) string {
	if r.meter.stopped != nil {
		at := ""
		if eval, ok := errors.AsType[*starlark.EvalError](err); ok {
			at = r.traceback(eval.CallStack)
		}
		return at + r.meter.stopped.Error()
	}
	if eval, ok := errors.AsType[*starlark.EvalError](err); ok {
		message := eval.Msg
		if name, ok := strings.CutPrefix(message, "internal error: predeclared variable "); ok {
			message = strings.TrimSuffix(name, " is uninitialized") + " is not defined: it was not kept, or the tool is gone"
		}
		return r.traceback(eval.CallStack) + cutText(clean(message), 4000) + hintRuntime(message)
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok {
		var lines []string
		for _, e := range list[:min(len(list), 5)] {
			lines = append(lines, r.place(e.Pos)+": "+cutText(clean(e.Msg), 500)+hintRuntime(e.Msg))
		}
		return strings.Join(lines, "\n")
	}
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return r.place(e.Pos) + ": " + cutText(clean(e.Msg), 500) + r.quote(e.Pos) + r.hintSyntax(e.Pos)
	}
	return clean(cutText(err.Error(), 2000))
}

func (r *run) place(pos syntax.Position) string {
	if label, ok := r.program.labels[pos.Filename()]; ok {
		return fmt.Sprintf("line %d of the saved function %s", pos.Line, label)
	}
	return fmt.Sprintf("line %d", pos.Line)
}

func (r *run) line(pos syntax.Position) string {
	if lines := r.program.texts[pos.Filename()]; pos.Line >= 1 && int(pos.Line) <= len(lines) {
		return strings.TrimSpace(lines[pos.Line-1])
	}
	return ""
}

func (r *run) quote(pos syntax.Position) string {
	if line := r.line(pos); line != "" {
		return "\n  " + cutText(clean(line), 120)
	}
	return ""
}

// traceback names the lines, outermost first, without what is ours.
func (r *run) traceback(stack starlark.CallStack) string {
	var lines []string
	for _, frame := range stack {
		if _, ok := r.program.texts[frame.Pos.Filename()]; !ok || frame.Pos.Line < 1 {
			continue // the prologue has no line
		}
		at := r.place(frame.Pos)
		if frame.Name != "<toplevel>" && frame.Pos.Filename() == codeFile {
			at += ", in " + clean(frame.Name)
		}
		lines = append(lines, at+": "+cutText(clean(r.line(frame.Pos)), 120))
	}
	if n := len(lines); n > 8 {
		lines = slices.Concat(lines[:3], []string{fmt.Sprintf("... %d more ...", n-7)}, lines[n-4:])
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
