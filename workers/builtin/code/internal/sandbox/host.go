package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// toolError is the failure of a tool. Only attempt catches it, and it catches nothing else.
type toolError struct{ tool, message string }

func (e *toolError) Error() string { return e.tool + " failed: " + e.message }

// errFinished unwinds a program that called finish.
var errFinished = errors.New("finished")

// host is the predeclared functions, tools included.
func (r *run) host() starlark.StringDict {
	type function = func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)
	env := make(starlark.StringDict)
	add := func(name string, fn function) {
		env[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return fn(thread, args, kwargs)
		})
	}
	taking := func(name string, do func(p *pending) (starlark.Value, error)) {
		add(name, func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			p, err := r.parseCall(name, args, kwargs)
			if err != nil {
				return nil, err
			}
			return do(p)
		})
	}
	call := func(p *pending) (starlark.Value, error) { return r.call("call", p) }
	taking("tool", call)
	taking("call", func(p *pending) (starlark.Value, error) { return p, nil })
	taking("start", func(p *pending) (starlark.Value, error) { return r.call("start", p) })
	taking("with_attachments", func(p *pending) (starlark.Value, error) {
		p.whole = true
		return call(p)
	})
	add("attachments", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args)+len(kwargs) > 0 {
			return nil, errors.New("attachments takes nothing; with_attachments(tool, name=value) gives those of a tool")
		}
		if r.attached == nil {
			r.attached = r.ask(message{Kind: "attachments", Calls: []Call{{}}})
		}
		return r.attached[0].value("attachments")
	})
	add("show", r.show)
	add("gather", r.gather)
	add("attempt", r.attempt)
	add("wait", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var h handle
		if len(args) == 1 && len(kwargs) == 0 {
			h, _ = args[0].(handle)
		}
		if h.id == "" {
			return nil, errors.New("wait takes one handle, as start gives it")
		}
		if r.waits++; r.waits > maxWaits {
			return nil, fmt.Errorf("the program waited too often (limit %d); keep what wait gives", maxWaits)
		}
		return r.ask(message{Kind: "wait", Text: h.id, Calls: []Call{{}}})[0].value(h.tool)
	})
	add("message", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var text starlark.Value
		kind := "message"
		if err := starlark.UnpackArgs("message", args, kwargs, "text", &text, "kind?", &kind); err != nil {
			return nil, err
		}
		if r.messages++; r.messages > maxMessages {
			return nil, fmt.Errorf("the program sent too many messages (limit %d); send one for many steps", maxMessages)
		}
		r.send(message{Kind: "message", Text: clean(cutText(rendered(text), maxSent)), Label: clean(kind)})
		return starlark.None, nil
	})
	add("time_now", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return starlark.Float(float64(r.Now.UnixMilli()) / 1000), starlark.UnpackArgs("time_now", args, kwargs)
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
	maps.Copy(r.reserved, env)
	r.functions = make(starlark.StringDict)
	for _, name := range r.Tools {
		if isIdentifier(name) && r.reserved[name] == nil {
			add(name, func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
				p, err := arguments(name, args, kwargs)
				if err != nil {
					return nil, err
				}
				return call(p)
			})
			r.functions[name] = env[name]
		}
	}
	return env
}

// parseCall reads the arguments of tool, call and start: a tool or its name, then the arguments of the tool.
func (r *run) parseCall(fn string, args starlark.Tuple, kwargs []starlark.Tuple) (*pending, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%s takes a tool or its name first", fn)
	}
	name, _ := starlark.AsString(args[0])
	if of, ok := args[0].(*starlark.Builtin); ok && r.functions[of.Name()] == of {
		name = of.Name()
	}
	if !slices.Contains(r.Tools, name) {
		return nil, fmt.Errorf("%s: %s is not a tool; there are: %s", fn, describe(args[0]), cutText(strings.Join(r.Tools, ", "), 500))
	}
	return arguments(name, args[1:], kwargs)
}

func describe(v starlark.Value) string {
	if s, ok := starlark.AsString(v); ok {
		return fmt.Sprintf("%q", cutText(s, 60))
	}
	return "a " + v.Type()
}

func arguments(name string, args starlark.Tuple, kwargs []starlark.Tuple) (*pending, error) {
	object := new(starlark.Dict)
	ok := len(args) == 0
	if len(args) == 1 && len(kwargs) == 0 {
		object, ok = args[0].(*starlark.Dict)
	}
	if !ok {
		return nil, fmt.Errorf("%s takes named arguments, or one dict; write %s(name=value)", name, name)
	}
	for _, kw := range kwargs {
		if err := object.SetKey(kw[0], kw[1]); err != nil {
			return nil, err
		}
	}
	data, err := toJSON(object)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", name, err)
	}
	return &pending{tool: name, args: data}, nil
}

// ordered gives calls their ordinals.
func (r *run) ordered(list []*pending) ([]Call, error) {
	if len(list) > r.Limits.Calls-r.calls {
		return nil, fmt.Errorf("the program called too many tools (limit %d); do the rest in the next program", r.Limits.Calls)
	}
	calls := make([]Call, len(list))
	for i, p := range list {
		calls[i] = Call{Ordinal: r.calls, Tool: p.tool, Args: p.args, Whole: p.whole}
		r.calls++
	}
	return calls, nil
}

// call calls or starts one tool.
func (r *run) call(kind string, p *pending) (starlark.Value, error) {
	calls, err := r.ordered([]*pending{p})
	if err != nil {
		return nil, err
	}
	a := r.ask(message{Kind: kind, Calls: calls})[0]
	if kind == "start" && !a.Failed {
		return handle{id: string(a.Value), tool: p.tool}, nil
	}
	return a.value(p.tool)
}

// value is what a tool gave: decoded as JSON, or else its text.
func (a answer) value(tool string) (starlark.Value, error) {
	if a.Failed {
		return nil, &toolError{tool: tool, message: a.Error}
	}
	return fromJSON(a.Value), nil
}

func (r *run) gather(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	const usage = "write gather([call(tool, name=value), ..])"
	var of starlark.Iterable
	var attempt bool
	if err := starlark.UnpackArgs("gather", args, kwargs, "calls", &of, "attempt?", &attempt); err != nil {
		return nil, fmt.Errorf("%w; %s", err, usage)
	}
	var list []*pending
	for elem := range starlark.Elements(of) {
		p, ok := elem.(*pending)
		if !ok {
			return nil, fmt.Errorf("gather takes calls, not a %s; %s", elem.Type(), usage)
		}
		list = append(list, p)
	}
	calls, err := r.ordered(list)
	if err != nil || len(calls) == 0 {
		return starlark.NewList(nil), err
	}
	results := make([]starlark.Value, len(calls))
	for i, a := range r.ask(message{Kind: "call", Calls: calls}) {
		v, err := a.value(calls[i].Tool)
		if attempt {
			v, err = catchFailure(v, err)
		}
		if err != nil {
			return nil, err
		}
		results[i] = v
	}
	return starlark.NewList(results), nil
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
	return catchFailure(starlark.Call(thread, args[0], args[1:], kwargs))
}
