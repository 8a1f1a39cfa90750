package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/lash-go/lash/events"
)

// Prepared is a request in the form that all endpoints take, for [Wire.Encode]. Its messages are those of a dialog, see
// [Endpoint.dialog].
type Prepared struct {
	Request
	Forms    []Form // of the tools, in order
	Official bool   // the endpoint is the API's own

	endpoint *Endpoint
	byName   map[string]*Form
	foreign  int64 // parts with fields of another endpoint or model, or that it does not take back
	limit    int64 // of output tokens, as it was sent; 0: none was
}

func (e *Endpoint) prepare(req Request) (p *Prepared, err error) {
	p = &Prepared{Request: req, Official: e.official, endpoint: e, byName: map[string]*Form{}}
	if o := req.Output; len(o.Schema) > 0 && MembersOf(o.Schema) == nil {
		return nil, &Error{Kind: KindRequest, Message: fmt.Sprintf("output %s: schema is not a JSON object", o.Name)}
	}
	if p.Learned(needsTools) != nil && len(p.Tools) == 0 {
		p.Tools, p.ToolChoice = p.called(), ToolChoice{None: true}
	}
	p.Forms = make([]Form, len(p.Tools))
	longest, _ := p.Learned(longDescription).(int)
	strict := map[bool]string{true: "strict "}[p.Learned(strictForms) != nil]
	for i, t := range p.Tools {
		f := cached(e.forms, strict+string(t.InputSchema), func() Form { return formOf(t.InputSchema, strict != "") })
		if f.Name, f.Description = t.Name, t.Description; longest > 0 {
			f.Description = events.Clip(t.Description, longest, "...")
		}
		p.Forms[i] = f
		p.byName[t.Name] = &p.Forms[i]
	}
	for _, m := range req.Messages {
		for _, part := range m.Parts {
			if m.Role == events.RoleAssistant && len(part.Meta) > 0 && p.Own(part).Fields == nil {
				p.foreign++
			}
		}
	}
	spell := e.wire.CallID
	if n, other := p.Learned(idLength).(int); other {
		spell = func(raw events.CallID) string { return idOf(raw, n) }
	}
	p.Messages, err = p.dialog(req.Messages, spell)
	return p, err
}

// called are the tools of earlier calls.
func (p *Prepared) called() (list []Tool) {
	for _, m := range p.Messages {
		for _, part := range m.Parts {
			name := p.ToolName(part.Tool)
			if part.Kind == events.PartToolCall && !slices.ContainsFunc(list, func(t Tool) bool { return t.Name == name }) {
				list = append(list, Tool{Name: name})
			}
		}
	}
	return list
}

// Declare puts the tools into a body, and their choice if the model does not choose: APIs reject a choice without tools.
func (p *Prepared) Declare(body Object, tool func(Form) Object, choice func(ToolChoice) any) {
	tools := make([]Object, len(p.Forms))
	for i, f := range p.Forms {
		tools[i] = tool(f)
	}
	if len(tools) == 0 {
		return
	}
	if body["tools"] = tools; p.ToolChoice != (ToolChoice{}) {
		body["tool_choice"] = choice(p.ToolChoice)
	}
}

// Sample puts the temperature and the share of tokens into a body, if they are set: all wires have the same names for them; and the
// texts to stop at, under the wire's own.
func (p *Prepared) Sample(body Object, stop string) {
	for name, number := range map[string]string{"temperature": string(p.Sampling.Temperature), "top_p": string(p.Sampling.TopP)} {
		if v, err := strconv.ParseFloat(number, 64); err == nil {
			body[name] = v
		}
	}
	if len(p.Sampling.Stop) > 0 {
		body[stop] = p.Sampling.Stop
	}
}

// ToolName is the name of a called tool in the form that APIs accept. It keeps names that are offered. In others, which a model
// invented or another provider allowed, it replaces characters as [Token] does.
func (p *Prepared) ToolName(name string) string {
	switch {
	case p.byName[name] != nil:
		return name
	case name == "":
		return "unknown"
	}
	return Token(name, maxProperty, "_-")
}

// Args are the arguments of an earlier call, with the names of properties that the tool's form has.
func (p *Prepared) Args(call events.Part) json.RawMessage {
	if f := p.byName[call.Tool]; f != nil && len(f.names) > 0 {
		return renamed(call.Args, f.names)
	}
	return call.Args
}

// received returns a reply whose calls have the names of properties that the schemas have.
func (p *Prepared) received(r Response) Response {
	for i, call := range r.Parts {
		if f := p.byName[call.Tool]; f != nil && len(f.back) > 0 {
			r.Parts[i].Args = renamed(call.Args, f.back)
		}
	}
	return r
}
