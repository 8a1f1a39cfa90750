package result

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// ErrNotOwner is a hook that was refused by an instance on which the session is not placed.
var ErrNotOwner = errors.New("the session is not placed on the instance")

// Clip cuts a text of a program to what a message shows.
func Clip(s string) string { return events.Clip(strings.ToValidUTF8(s, "?"), 1<<10, "...") }

// Directives checks the answer of a hook. Its sender is not trusted.
func Directives(point events.HookPoint, data []byte) ([]plugin.Directive, error) {
	if len(data) > wire.MaxHookAnswer {
		return nil, fmt.Errorf("the answer has %d bytes, limit is %d", len(data), wire.MaxHookAnswer)
	}
	var answer wire.HookResult
	if err := wire.Decode(data, &answer); err != nil {
		return nil, fmt.Errorf("the answer is no JSON of its form: %w", err)
	}
	switch e := answer.Error; {
	case e == nil:
	case e.Code == wire.CodeNotOwner:
		return nil, fmt.Errorf("it failed: %w: %s", ErrNotOwner, Clip(e.Message))
	default:
		return nil, fmt.Errorf("it failed: %s", Clip(e.Message))
	}
	if err := answer.Validate(); err != nil {
		return nil, err
	}
	if wire.KindOf(string(point)) != wire.PointDecides {
		return nil, nil // what observes has nothing to direct
	}
	list := make([]plugin.Directive, len(answer.Directives))
	for i := range answer.Directives {
		list[i] = directive(&answer.Directives[i])
		if err := list[i].Check(point); err != nil {
			return nil, &events.FieldError{Field: fmt.Sprintf("directives[%d]", i), Reason: err.Error(), Err: events.ErrInvalid}
		}
	}
	return list, nil
}

// Place is what an instance says of the place of a trace event.
func Place(c *wire.TraceContext) api.TraceContext {
	if c == nil {
		return api.TraceContext{}
	}
	return api.TraceContext{ModelCall: c.ModelCall, Origin: c.Origin, Metadata: c.Metadata}
}

// directive is a directive of an instance as one of a plugin in the node.
func directive(d *wire.Directive) plugin.Directive {
	out := plugin.Directive{
		Kind: d.Kind, Code: d.Code, Message: d.Message, Within: time.Duration(d.WithinMS) * time.Millisecond,
		Args: d.Args, Events: d.Events, Name: d.Name, Payload: d.Payload, Place: Place(d.Context),
	}
	for _, m := range d.Messages {
		out.Messages = append(out.Messages, plugin.Say(m.Role, m.Text))
	}
	for i := range d.Contributions {
		out.Contributions = append(out.Contributions, d.Contributions[i].Contribution())
	}
	switch d.Kind { //nolint:exhaustive // the others have all fields already
	case events.DirectiveSystemPrompt:
		out.Message = d.Text
	case events.DirectiveSwitch:
		out.Switch = &events.FrameSwitch{Frame: d.Frame, Task: d.Task}
		for i, m := range out.Messages {
			m.ID = events.MessageID(events.DerivedID("f-", string(d.Frame), strconv.Itoa(i)))
			out.Switch.Nodes = append(out.Switch.Nodes, events.NewNode{ID: events.NodeID(m.ID), Kind: events.NodeMessage, Message: m})
		}
		out.Messages = nil
	}
	if d.Result != nil {
		out.Result = &plugin.Result{Text: d.Result.Text, Outcome: d.Result.Outcome}
	}
	return out
}
