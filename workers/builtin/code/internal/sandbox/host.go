package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

// toolError is the failure of a tool. Only attempt catches it, and it catches nothing else.
type toolError struct{ tool, message string }

func (e *toolError) Error() string { return e.tool + " failed: " + e.message }

// errFinished unwinds a program that called finish.
var errFinished = errors.New("finished")

// host is the predeclared functions, tools included.
func (r *run) host(ctx context.Context) starlark.StringDict {
	env := make(starlark.StringDict)
	add := func(name string, fn func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)) {
		env[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return fn(thread, args, kwargs)
		})
	}
	add("tool", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p, err := r.parseCall("tool", args, kwargs)
		if err != nil {
			return nil, err
		}
		return r.call(ctx, p)
	})
	add("with_attachments", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p, err := r.parseCall("with_attachments", args, kwargs)
		if err != nil {
			return nil, err
		}
		p.whole = true
		return r.call(ctx, p)
	})
	add("attachments", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args)+len(kwargs) > 0 {
			return nil, errors.New("attachments takes nothing; with_attachments(tool, name=value) gives those of a tool")
		}
		return r.outside(ctx, "attachments", func() (json.RawMessage, error) {
			var err error
			if r.attached == nil {
				r.attached, err = r.caller.Attachments(ctx)
			}
			return r.attached, err
		})
	})
	add("show", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return starlark.None, r.show(args, kwargs)
	})
	add("call", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p, err := r.parseCall("call", args, kwargs)
		return p, err
	})
	add("gather", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		return r.gather(ctx, args, kwargs)
	})
	add("start", func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p, err := r.parseCall("start", args, kwargs)
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
		s, err := r.render(text)
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
