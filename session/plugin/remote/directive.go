package remote

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// wireDirective is a directive as it is sent. Errors: what a program of its own cannot direct.
func wireDirective(d *plugin.Directive) (wire.Directive, error) {
	out := wire.Directive{
		Kind: d.Kind, Code: d.Code, Message: d.Message, WithinMS: d.Within.Milliseconds(), Args: d.Args, Events: d.Events,
		Name: d.Name, Payload: d.Payload,
	}
	if d.Kind == events.DirectiveSystemPrompt {
		out.Message, out.Text = "", d.Message
	}
	for i := range d.Contributions {
		c := &d.Contributions[i]
		if c.Minimum != "" {
			return out, fmt.Errorf("%s: contribution %d has a minimum of availability, which a plugin of its own process cannot send", d.Kind, i)
		}
		out.Contributions = append(out.Contributions, wire.Fragment{Slot: c.Slot, Title: c.Title, Priority: c.Priority, Content: c.Content, Tools: c.Tools})
	}
	messages := d.Messages
	if s := d.Switch; s != nil {
		out.Frame, out.Task = s.Frame, s.Task
		for i := range s.Nodes {
			messages = append(messages, s.Nodes[i].Message)
		}
	}
	for i := range messages {
		m := &messages[i]
		if len(m.Parts) != 1 || m.Parts[0].Kind != events.PartText || m.Role == events.RoleAssistant {
			return out, fmt.Errorf("%s: message %d is not one text of a user or the system, which a plugin of its own process cannot send", d.Kind, i)
		}
		out.Messages = append(out.Messages, wire.Said{Role: m.Role, Text: m.Parts[0].Text})
	}
	switch r := d.Result; {
	case d.Create != nil:
		return out, fmt.Errorf("%s: a plugin of its own process cannot direct it", d.Kind)
	case r == nil:
	case r.Pending || r.Control != "" || len(r.Attachments) > 0:
		return out, fmt.Errorf("%s: the result is more than text, which a plugin of its own process cannot send", d.Kind)
	default:
		out.Result = &wire.HookedResult{Text: r.Text, Outcome: r.Outcome}
	}
	return out, nil
}
