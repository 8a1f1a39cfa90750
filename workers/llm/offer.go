package llm

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"github.com/lash-go/lash/events"
)

// Offer returns the forms of a request's tools, in order. Where there are none, and the endpoint takes no calls in a conversation
// without tools, it offers those that were called, and none may be called.
func (e *Endpoint) Offer(req *Request) *Offer {
	tools := req.Tools
	if _, needs := e.needTools.Load(req.Model); needs && len(tools) == 0 {
		tools, req.ToolChoice = called(req.Messages), ToolChoice{None: true}
	}
	o := &Offer{Tools: make([]Form, len(tools)), byName: make(map[string]*Form, len(tools))}
	for i, t := range tools {
		f := e.forms.of(t.InputSchema)
		f.Name, f.Description = t.Name, t.Description
		o.Tools[i] = f
		o.byName[t.Name] = &o.Tools[i]
	}
	return o
}

// called are the tools of earlier calls.
func called(messages []events.Message) (list []Tool) {
	for _, m := range messages {
		for _, p := range m.Parts {
			name := new(Offer).ToolName(p.Tool)
			if p.Kind == events.PartToolCall && !slices.ContainsFunc(list, func(t Tool) bool { return t.Name == name }) {
				list = append(list, Tool{Name: name})
			}
		}
	}
	return list
}

// missingTools are the words of endpoints that take no calls in a conversation without tools: Bedrock's, Anthropic's, LiteLLM's.
var missingTools = regexp.MustCompile("toolConfig field must be defined|must define (?:at least one )?tools?|without `tools=` param")

// NeedsTools reports whether a refusal tells that the endpoint takes no calls without tools, see [Endpoint.Offer].
func (e *Endpoint) NeedsTools(err error, req *Request) bool {
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Kind != KindRequest || len(req.Tools) > 0 || !missingTools.MatchString(failed.Message) {
		return false
	}
	e.needTools.Store(req.Model, true)
	return true
}

// ToolName converts the name of a called tool to the form that chat APIs accept. It keeps names that are offered. In
// others, which a model invented or another provider allowed, it replaces every character outside A-Z a-z 0-9 _ - with
// an underscore.
func (o *Offer) ToolName(name string) string {
	switch {
	case o.byName[name] != nil:
		return name
	case name == "":
		return "unknown"
	}
	return Token(name, maxProperty)
}

// Sent are the arguments of an earlier call of a tool, with the names of properties that its form has.
func (o *Offer) Sent(tool string, args []byte) json.RawMessage {
	if f := o.byName[tool]; f != nil && len(f.names) > 0 {
		return renamed(args, f.names)
	}
	return args
}

// Received returns a reply whose calls have the names of properties that the schemas have.
func (o *Offer) Received(r Response) Response {
	for i := range r.Parts {
		if f := o.byName[r.Parts[i].Tool]; f != nil && len(f.back) > 0 {
			r.Parts[i].Args = renamed(r.Parts[i].Args, f.back)
		}
	}
	return r
}

// renamed replaces names of members, at any depth. What is no JSON stays as it is.
func renamed(data []byte, names map[string]string) json.RawMessage {
	var members map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case json.Unmarshal(data, &members) == nil && members != nil:
		out := make(map[string]json.RawMessage, len(members))
		for name, value := range members {
			if to, ok := names[name]; ok {
				name = to
			}
			out[name] = renamed(value, names)
		}
		data, _ = json.Marshal(out)
	case json.Unmarshal(data, &list) == nil && list != nil:
		for i := range list {
			list[i] = renamed(list[i], names)
		}
		data, _ = json.Marshal(list)
	}
	return data
}
