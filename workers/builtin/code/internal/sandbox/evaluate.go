package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	starlarkjson "go.starlark.net/lib/json"
	starlarkmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"

	"github.com/lash-go/lash/session/schema"
)

// run is one program, in its process.
type run struct {
	order
	pipe         *json.Encoder
	answers      chan []answer
	functions    starlark.StringDict // of the tools
	reserved     starlark.StringDict // names that the code cannot keep
	state        *decoder
	program      program
	calls        int
	waits        int
	messages     int
	shown        int
	attached     []answer // of the conversation; nil: not asked for
	schema       *jsonschema.Resolved
	ended        bool // finish or continue_as was called
	finished     bool
	value        json.RawMessage
	continuation *Continuation
}

// evaluate runs the program. An error is that of the request.
func (r *run) evaluate() (resp Response, err error) {
	thread := &starlark.Thread{Name: codeFile, Print: func(_ *starlark.Thread, s string) { r.print(s) }}
	respond := func(state []byte, message string) Response {
		resp := Response{Error: message, State: state, Dirty: !bytes.Equal(state, r.State), Steps: min(thread.Steps, r.Limits.Steps), Value: r.value}
		if message == "" {
			resp.Finished, resp.Continue = r.finished, r.continuation
		}
		return resp
	}
	defer func() { // an unexpected panic
		if p := recover(); p != nil {
			resp, err = respond(r.State, fmt.Sprintf("internal error: %v; the variables are as before", p)), nil
		}
	}()
	if r.FinishSchema != nil {
		if r.schema, err = schema.Compile("finish_schema", r.FinishSchema); err != nil {
			return Response{}, err
		}
	}
	if r.state, err = decodeState(r.State); err != nil {
		return Response{}, fmt.Errorf("read state: %w", err)
	}
	env := maps.Clone(starlark.Universe)
	env["json"], env["math"] = starlarkjson.Module, starlarkmath.Module
	r.reserved = maps.Clone(env)
	maps.Copy(env, r.host())
	env[guardRestore] = starlark.NewBuiltin(guardRestore, r.restore)
	env[guardVar] = starlark.NewBuiltin(guardVar, r.variable)
	compiled, err := r.compile(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(r.Code), env)
	if r.state.broken != nil {
		return Response{}, fmt.Errorf("read state: %w", r.state.broken)
	}
	if err != nil {
		return respond(r.State, r.explain(err)), nil
	}
	thread.SetMaxExecutionSteps(r.Limits.Steps)
	thread.OnMaxSteps = func(thread *starlark.Thread) { thread.Cancel(r.Limits.tooMuch()) }
	globals, err := compiled.Init(thread, env)
	if r.state.broken != nil {
		return Response{}, fmt.Errorf("read state: %w", r.state.broken)
	}
	message := ""
	if err != nil && !r.ended {
		message = r.explain(err)
	}
	state, tooLarge := r.save(globals)
	if tooLarge != nil { // all variables are kept, or none
		return respond(r.State, strings.TrimPrefix(message+"\n"+tooLarge.Error(), "\n")), nil
	}
	return respond(state, message), nil
}

// print sends a line, in pieces that take no room in the node.
func (r *run) print(s string) {
	const piece = 64 << 10
	for s = clean(s) + "\n"; s != ""; {
		n := min(len(s), piece)
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		r.send(message{Kind: "print", Text: s[:n]})
		s = s[n:]
	}
}
