package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// SessionParam says whether an action takes a session.
type SessionParam string

// Values of SessionParam.
const (
	SessionRequired  SessionParam = "required"
	SessionOptional  SessionParam = "optional"
	SessionForbidden SessionParam = "forbidden"
)

// ActionDef declares a plugin action: an operation that a host calls by name.
type ActionDef struct {
	Name        string
	Description string
	Kind        string // "query", "command" or another word, for readers
	Session     SessionParam
	Needs       api.Right       // the right that the caller needs in the session. Defaults to [api.RightWrite]
	Input       json.RawMessage // JSON schema
	Output      json.RawMessage // JSON schema
}

// ActionContext is the input of actions besides their arguments.
type ActionContext struct {
	Session events.SessionID // empty without a session
	Host    ActionHost
}

// ActionFunc runs an action.
type ActionFunc func(ctx context.Context, in ActionContext, args json.RawMessage) (Result, error)

type action struct {
	def ActionDef
	run ActionFunc
}

// Action registers an action with raw JSON arguments.
func (r *Registrar) Action(def ActionDef, run ActionFunc) {
	if old, taken := r.c.actions[def.Name]; taken {
		r.fail("action %s is registered by %s and by %s", def.Name, old.Plugin, r.plugin)
		return
	}
	if def.Name == "" {
		r.fail("action of %s has no name", r.plugin)
		return
	}
	if def.Needs == "" {
		def.Needs = api.RightWrite
	}
	if def.Session == "" {
		def.Session = SessionRequired
	}
	r.c.actions[def.Name] = owned(r, action{def, run})
}

// AddAction registers a typed action. The schemas come from the types.
func AddAction[In, Out any](r *Registrar, def ActionDef, run func(context.Context, ActionContext, In) (Out, error)) {
	in, err := schemaOf[In]()
	if err != nil {
		r.fail("action %s: %w", def.Name, err)
		return
	}
	out, err := schemaOf[Out]()
	if err != nil {
		r.fail("action %s: %w", def.Name, err)
		return
	}
	def.Input, def.Output = in, out
	r.Action(def, func(ctx context.Context, in ActionContext, args json.RawMessage) (Result, error) {
		var v In
		if err := json.Unmarshal(args, &v); err != nil {
			return Result{}, fmt.Errorf("%w: invalid %s args: %w", api.ErrInvoke, def.Name, err)
		}
		out, err := run(ctx, in, v)
		if err != nil {
			return Result{}, err
		}
		data, err := json.Marshal(out)
		return Result{Text: string(data)}, err
	})
}

func schemaOf[T any]() (json.RawMessage, error) {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(schema)
}

// Actions lists the plugins' actions, sorted by name.
func (s *Stack) Actions() []ActionDef {
	list := make([]ActionDef, 0, len(s.c.actions))
	for _, a := range s.c.actions {
		list = append(list, a.Value.def)
	}
	slices.SortFunc(list, func(a, b ActionDef) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// InvokeAction runs an action. With defaultToCurrent, an empty session means this session. The action runs without
// timeout until ctx ends. Errors: [api.ErrUnknownAction], [api.ErrMissingSession], [api.ErrUnexpectedSession], the action's own.
func (s *Stack) InvokeAction(ctx context.Context, name string, args json.RawMessage, session events.SessionID, defaultToCurrent bool, host ActionHost) (Result, error) {
	if err := events.CheckJSON("args", args); err != nil {
		return Result{}, fmt.Errorf("%w: invalid %s args: %w", api.ErrInvoke, shortName(name), err)
	}
	a, ok := s.c.actions[name]
	if !ok {
		return Result{}, fmt.Errorf("%w: %q", api.ErrUnknownAction, shortName(name))
	}
	if session == "" && defaultToCurrent {
		session = s.id
	}
	switch {
	case a.Value.def.Session == SessionRequired && session == "":
		return Result{}, fmt.Errorf("%w: %q", api.ErrMissingSession, name)
	case a.Value.def.Session == SessionForbidden && session != "":
		return Result{}, fmt.Errorf("%w: %q", api.ErrUnexpectedSession, name)
	}
	return containFor(ctx, s, noTimeout, a.Plugin, "action "+name, func(ctx context.Context) (Result, error) {
		return a.Value.run(ctx, ActionContext{Session: session, Host: host}, args)
	})
}

// shortName is a name that a client sent, for an error: a long one would hide the rest.
func shortName(name string) string { return events.Clip(name, events.MaxTokenBytes, "...") }

// CallAction runs a typed action. Every result other than a success is an [api.ErrInvoke].
func CallAction[Out, In any](ctx context.Context, s *Stack, name string, args In, session events.SessionID, defaultToCurrent bool, host ActionHost) (out Out, err error) {
	data, err := json.Marshal(args)
	if err != nil {
		return out, fmt.Errorf("%w: invalid %s args: %w", api.ErrInvoke, name, err)
	}
	r, err := s.InvokeAction(ctx, name, data, session, defaultToCurrent, host)
	switch {
	case err != nil:
		return out, fmt.Errorf("%w: %w", api.ErrInvoke, err)
	case r.Pending:
		return out, fmt.Errorf("%w: %s returned a pending result where completed output is required", api.ErrInvoke, name)
	case r.Outcome != events.OutcomeSuccess:
		return out, fmt.Errorf("%w: %s failed: %s", api.ErrInvoke, name, r.Text)
	}
	if err := json.Unmarshal([]byte(r.Text), &out); err != nil {
		return out, fmt.Errorf("%w: invalid %s output: %w", api.ErrInvoke, name, err)
	}
	return out, nil
}
