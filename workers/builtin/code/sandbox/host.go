package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"go.starlark.net/starlark"
)

// toolError is a tool that failed. Only attempt catches it, and nothing else.
type toolError struct{ tool, message string }

func (e *toolError) Error() string { return e.tool + " failed: " + e.message }

// errFinished unwinds a program that has called finish.
var errFinished = errors.New("finished")

// host is what the program can call of ours, tools included.
func (r *run) host(ctx context.Context) starlark.StringDict {
	env := make(starlark.StringDict)
	add := func(name string, fn func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)) {
		env[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return fn(thread, args, kwargs)
		})
	}
	add("tool", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p, err := r.pending("tool", args, kwargs)
		if err != nil {
			return nil, err
		}
		return r.call(ctx, p)
	})
	add("call", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p, err := r.pending("call", args, kwargs)
		return p, err
	})
	add("gather", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return r.gather(ctx, args, kwargs)
	})
	add("start", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p, err := r.pending("start", args, kwargs)
		if err != nil {
			return nil, err
		}
		return r.start(ctx, p)
	})
	add("wait", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) != 1 || len(kwargs) > 0 {
			return nil, errors.New("wait takes one handle, as start gives it")
		}
		h, ok := args[0].(handle)
		if !ok {
			return nil, fmt.Errorf("wait takes a handle, as start gives it, not a %s", args[0].Type())
		}
		if r.waits++; r.waits > maxWaits {
			return nil, r.meter.stop("the program waited too often (limit %d); keep what wait gives", maxWaits)
		}
		return r.outside(ctx, h.tool, func() (json.RawMessage, error) { return r.caller.Await(ctx, h.id) })
	})
	add("attempt", func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return r.attempt(thread, args, kwargs)
	})
	add("message", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var text starlark.Value
		kind := "message"
		if err := starlark.UnpackArgs("message", args, kwargs, "text", &text, "kind?", &kind); err != nil {
			return nil, err
		}
		s, err := r.written(text)
		if err != nil {
			return nil, err
		}
		if r.meter.clock.expired.Load() {
			return nil, errExpired
		}
		if r.messages++; r.messages > maxMessages {
			return nil, r.meter.stop("the program sent too many messages (limit %d); send one for many steps", maxMessages)
		}
		r.caller.Message(clean(s), clean(kind))
		return starlark.None, nil
	})
	add("finish", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var value starlark.Value = starlark.None
		if err := starlark.UnpackArgs("finish", args, kwargs, "value?", &value); err != nil {
			return nil, err
		}
		return nil, r.finish(value)
	})
	add("continue_as", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var task string
		seed := new(starlark.Dict)
		if err := starlark.UnpackArgs("continue_as", args, kwargs, "task", &task, "seed?", &seed); err != nil {
			return nil, fmt.Errorf("%w; write continue_as(\"what is left to do\", {\"name\": value})", err)
		}
		return nil, r.continueAs(task, seed)
	})
	for name, v := range env {
		r.reserved[name] = v
	}
	for _, t := range r.tools {
		if isIdentifier(t.Name) && r.reserved[t.Name] == nil {
			env[t.Name] = starlark.NewBuiltin(t.Name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
				p, err := r.arguments(t.Name, args, kwargs)
				if err != nil {
					return nil, err
				}
				return r.call(ctx, p)
			})
			r.functions[t.Name] = env[t.Name]
		}
	}
	return env
}

// pending reads the arguments of tool, call and start: a tool or its name, then the tool's own.
func (r *run) pending(fn string, args starlark.Tuple, kwargs []starlark.Tuple) (*pending, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%s takes a tool or its name first", fn)
	}
	var name string
	switch of := args[0].(type) {
	case starlark.String:
		name = string(of)
	case *starlark.Builtin:
		if r.functions[of.Name()] == of {
			name = of.Name()
		}
	}
	if !slices.ContainsFunc(r.tools, func(t ToolInfo) bool { return t.Name == name }) {
		names := make([]string, 0, len(r.tools))
		for _, t := range r.tools {
			names = append(names, t.Name)
		}
		return nil, fmt.Errorf("%s: %s is not a tool; there are: %s", fn, describe(args[0]), cutText(strings.Join(names, ", "), 500))
	}
	return r.arguments(name, args[1:], kwargs)
}

func describe(v starlark.Value) string {
	if s, ok := v.(starlark.String); ok {
		return fmt.Sprintf("%q", cutText(string(s), 60))
	}
	return "a " + v.Type()
}

func (r *run) arguments(name string, args starlark.Tuple, kwargs []starlark.Tuple) (*pending, error) {
	object := new(starlark.Dict)
	switch {
	case len(args) == 1 && len(kwargs) == 0:
		dict, ok := args[0].(*starlark.Dict)
		if !ok {
			return nil, fmt.Errorf("%s takes named arguments, or one dict; write %s(name=value)", name, name)
		}
		object = dict
	case len(args) > 0:
		return nil, fmt.Errorf("%s takes named arguments, or one dict; write %s(name=value)", name, name)
	}
	for _, kw := range kwargs {
		if err := object.SetKey(kw[0], kw[1]); err != nil {
			return nil, err
		}
	}
	data, err := r.meter.toJSON(object)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", name, err)
	}
	return &pending{tool: name, args: data}, nil
}

func (r *run) next(p *pending) (Call, error) {
	if r.calls >= r.limits.Calls {
		return Call{}, r.meter.stop("the program called too many tools (limit %d); do the rest in the next program", r.limits.Calls)
	}
	c := Call{Ordinal: r.calls, Tool: p.tool, Args: p.args}
	r.calls++
	r.made.Store(int64(r.calls))
	return c, nil
}

func (r *run) call(ctx context.Context, p *pending) (starlark.Value, error) {
	c, err := r.next(p)
	if err != nil {
		return nil, err
	}
	return r.outside(ctx, p.tool, func() (json.RawMessage, error) { return r.caller.Call(ctx, c) })
}

func (r *run) start(ctx context.Context, p *pending) (starlark.Value, error) {
	c, err := r.next(p)
	if err != nil {
		return nil, err
	}
	if err := r.meter.clock.pause(); err != nil {
		return nil, err
	}
	id, err := protect(func() (string, error) { return r.caller.Start(ctx, c) })
	r.meter.clock.resume()
	if err != nil {
		return nil, r.failed(ctx, p.tool, err)
	}
	return handle{id: id, tool: p.tool}, nil
}

// outside lets the caller work while the program's clock stands still.
func (r *run) outside(ctx context.Context, tool string, fn func() (json.RawMessage, error)) (starlark.Value, error) {
	if err := r.meter.clock.pause(); err != nil {
		return nil, err
	}
	data, err := protect(fn)
	r.meter.clock.resume()
	if err != nil {
		return nil, r.failed(ctx, tool, err)
	}
	return r.meter.result(data)
}

func protect[T any](fn func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return fn()
}

// failed tells a tool's failure, which is the program's, from the end of the run.
func (r *run) failed(ctx context.Context, tool string, err error) error {
	if ctx.Err() != nil {
		r.fatal = context.Cause(ctx)
		return r.fatal
	}
	if errors.Is(err, ErrStop) {
		r.fatal = err
		return r.fatal
	}
	return &toolError{tool: tool, message: clean(cutText(err.Error(), 2000))}
}

func (r *run) gather(ctx context.Context, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var list starlark.Iterable
	var attempt bool
	if err := starlark.UnpackArgs("gather", args, kwargs, "calls", &list, "attempt?", &attempt); err != nil {
		return nil, fmt.Errorf("%w; write gather([call(tool, name=value), ..])", err)
	}
	n, err := r.meter.count(list)
	if err != nil {
		return nil, err
	}
	if n > int64(r.limits.Calls-r.calls) {
		r.calls = r.limits.Calls
		_, err := r.next(nil)
		return nil, err
	}
	var calls []Call
	for elem := range starlark.Elements(list) {
		p, ok := elem.(*pending)
		if !ok {
			return nil, fmt.Errorf("gather takes calls, not a %s; write gather([call(tool, name=value), ..])", elem.Type())
		}
		c, err := r.next(p)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	data, errs := make([]json.RawMessage, len(calls)), make([]error, len(calls))
	if err := r.meter.clock.pause(); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for i, c := range calls { // one goroutine per call, which ends with the call
		wg.Go(func() {
			data[i], errs[i] = protect(func() (json.RawMessage, error) { return r.caller.Call(ctx, c) })
		})
	}
	wg.Wait()
	r.meter.clock.resume()
	results := make([]starlark.Value, len(calls))
	for i, c := range calls {
		var err error
		if errs[i] != nil {
			err = r.failed(ctx, c.Tool, errs[i])
		} else {
			results[i], err = r.meter.result(data[i])
		}
		if attempt {
			results[i], err = caught(results[i], err)
		}
		if err != nil {
			return nil, err
		}
	}
	return starlark.NewList(results), nil
}

// caught turns a tool's failure into a value. Every other error stays one.
func caught(v starlark.Value, err error) (starlark.Value, error) {
	if err == nil {
		return &outcome{ok: true, value: v}, nil
	}
	if failure, ok := errors.AsType[*toolError](err); ok {
		return &outcome{value: starlark.None, message: failure.message}, nil
	}
	return nil, err
}

func (r *run) attempt(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 {
		return nil, errors.New("attempt takes a function first; write attempt(tool, name=value)")
	}
	if _, name := args[0].(starlark.String); name {
		args = append(starlark.Tuple{r.reserved["tool"]}, args...)
	}
	v, err := starlark.Call(thread, args[0], args[1:], kwargs)
	if r.fatal != nil || r.meter.stopped != nil || r.ended {
		return v, err
	}
	return caught(v, err)
}

func (r *run) written(v starlark.Value) (string, error) {
	if err := written(r.meter, nil, starlark.Tuple{v}, nil); err != nil {
		return "", err
	}
	if s, ok := starlark.AsString(v); ok {
		return s, nil
	}
	return v.String(), nil
}

func (r *run) finish(value starlark.Value) error {
	if !r.accept {
		s, err := r.written(value)
		if err != nil {
			return err
		}
		r.out.line(clean(s))
		r.ended = true
		return errFinished
	}
	data, err := r.meter.toJSON(value)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if r.schema != nil {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
		if err := r.schema.Validate(v); err != nil {
			return fmt.Errorf("finish: the value is not what was asked for: %s; call finish again with a value that is", cutText(err.Error(), 1000))
		}
	}
	r.ended, r.finished, r.value = true, true, data
	return errFinished
}

// continueAs ends the program; what comes next finds the seed's entries as its variables.
func (r *run) continueAs(task string, seed *starlark.Dict) error {
	if !r.accept {
		return errors.New("continue_as cannot be used here")
	}
	if strings.TrimSpace(task) == "" {
		return errors.New("continue_as: say in the task what is left to do")
	}
	if len(task) > maxTask {
		return fmt.Errorf("continue_as: the task is too long: %d bytes (limit %d); pass the details as variables", len(task), maxTask)
	}
	values := make(map[string]starlark.Value)
	for key, v := range seed.Entries() {
		name, _ := starlark.AsString(key)
		if !isIdentifier(name) || r.reserved.Has(name) {
			return fmt.Errorf("continue_as: seed: %s cannot be the name of a variable", describe(key))
		}
		values[name] = v
	}
	names := slices.Sorted(maps.Keys(values))
	encoded := make([][]byte, len(names))
	enc := newEncoder(r.limits.StateBytes-64, r.program.source)
	for i, name := range names {
		enc.size += int64(len(name)) + 4
		b, err := enc.add(values[name])
		switch {
		case errors.Is(err, errTooLarge):
			return fmt.Errorf("continue_as: the seed takes more than %d bytes with %s; store it with a tool, and say in the task where", r.limits.StateBytes, name)
		case err != nil:
			return fmt.Errorf("continue_as: seed: %s: %w", name, err)
		}
		encoded[i] = b
	}
	r.ended, r.continuation = true, &Continuation{Task: clean(task), Names: names, State: enc.finish(names, encoded)}
	return errFinished
}

// clean drops the marks of restored names.
func clean(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), mark, "") }

func isLetter(c rune) bool { return unicode.IsLetter(c) }

// reserved says whether a name is a word of the language.
func reserved(s string) bool {
	switch s {
	case "and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or", "pass", "return", "while",
		"as", "assert", "async", "await", "class", "del", "except", "finally", "from", "global", "import", "is", "nonlocal", "raise", "try", "with", "yield":
		return true
	}
	return false
}
