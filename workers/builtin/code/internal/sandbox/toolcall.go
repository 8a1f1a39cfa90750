package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"
)

// parseCall reads the arguments of tool, call and start: a tool or its name, then the arguments of the tool.
func (r *run) parseCall(fn string, args starlark.Tuple, kwargs []starlark.Tuple) (*pending, error) {
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
	c := Call{Ordinal: r.calls, Tool: p.tool, Args: p.args, Whole: p.whole}
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

// outside calls fn while the program's clock is paused.
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

// failed distinguishes a failure of a tool, which the program sees, from an error that ends the run.
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
	data, errs, err := r.callAll(ctx, calls)
	if err != nil {
		return nil, err
	}
	results := make([]starlark.Value, len(calls))
	for i, c := range calls {
		var err error
		if errs[i] != nil {
			err = r.failed(ctx, c.Tool, errs[i])
		} else {
			results[i], err = r.meter.result(data[i])
		}
		if attempt {
			results[i], err = catchFailure(results[i], err)
		}
		if err != nil {
			return nil, err
		}
	}
	return starlark.NewList(results), nil
}

// callAll makes calls at the same time while the clock is paused. err: the clock has expired.
func (r *run) callAll(ctx context.Context, calls []Call) (data []json.RawMessage, errs []error, err error) {
	if err := r.meter.clock.pause(); err != nil {
		return nil, nil, err
	}
	defer r.meter.clock.resume()
	data, errs = make([]json.RawMessage, len(calls)), make([]error, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls { // one goroutine for each call, which ends with the call
		wg.Go(func() {
			data[i], errs[i] = protect(func() (json.RawMessage, error) { return r.caller.Call(ctx, c) })
		})
	}
	wg.Wait()
	return data, errs, nil
}

// catchFailure converts a failure of a tool to a value. It returns other errors unchanged.
func catchFailure(v starlark.Value, err error) (starlark.Value, error) {
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
	return catchFailure(v, err)
}
