package llm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

// noResult replaces a missing result: the chat APIs reject a call without a result.
const noResult = "No result was recorded for this call."

// Dialog returns messages in the form that chat APIs accept, for adapters:
//
//   - Every call has a unique id: spell(id) if that is free and not empty, else
//     one made from the position of the call. A longer history therefore keeps
//     the ids of its beginning.
//   - A message with calls is followed by one user message with their results
//     alone, in the order of the calls. A missing result becomes a text that says
//     so.
//   - A result without a call becomes text.
//   - Messages without parts are left out.
//
// The input is not changed. The error is an [*Error] of kind invalid_request: the body of a part is still in a blob.
func Dialog(messages []events.Message, spell func(events.CallID) string) ([]events.Message, error) {
	d := dialog{spell: spell, used: map[events.CallID]bool{}}
	for _, m := range messages {
		if err := checkInline(m); err != nil {
			return nil, err
		}
		if m.Role == events.RoleAssistant {
			d.assistant(m)
		} else {
			d.addRest(m)
		}
	}
	return d.out, nil
}

// checkInline rejects bodies in blobs, which an adapter cannot read.
func checkInline(m events.Message) error {
	for _, p := range m.Parts {
		if !p.Blob.IsZero() && p.Text == "" && len(p.Args) == 0 {
			return &Error{Kind: KindRequest, Message: fmt.Sprintf("a %s part of %d bytes was not loaded from its blob", p.Kind, p.Blob.Size)}
		}
	}
	return nil
}

type dialog struct {
	spell func(events.CallID) string
	used  map[events.CallID]bool
	calls int // so far
	open  []openCall
	out   []events.Message
}

// openCall is a call of the last assistant message without a result yet.
type openCall struct {
	raw    events.CallID
	result *events.Part // its position in out
}

func (d *dialog) assistant(m events.Message) {
	d.open = nil
	var results []events.Part
	var raw []events.CallID
	parts := slices.Clone(m.Parts)
	for i, p := range parts {
		if p.Kind != events.PartToolCall {
			continue
		}
		parts[i].Call = d.name(p.Call)
		raw = append(raw, p.Call)
		results = append(results, events.Part{
			Kind: events.PartToolResult, Call: parts[i].Call, Tool: p.Tool, Text: noResult, Outcome: events.OutcomeLost,
		})
	}
	d.add(m, parts)
	if len(results) == 0 {
		return
	}
	d.add(events.Message{Role: events.RoleUser}, results)
	for i := range results {
		d.open = append(d.open, openCall{raw: raw[i], result: &results[i]})
	}
}

func (d *dialog) addRest(m events.Message) {
	var rest []events.Part
	for _, p := range m.Parts {
		if p.Kind != events.PartToolResult {
			rest = append(rest, p)
		} else if !d.resolve(p) {
			rest = append(rest, events.Part{Kind: events.PartText, Text: fmt.Sprintf("[result of an earlier call of %s]\n%s", p.Tool, p.Text)})
		}
	}
	d.add(m, rest)
}

// resolve assigns p to the first open call with its id: results of equal ids are in call order.
func (d *dialog) resolve(p events.Part) bool {
	for i, c := range d.open {
		if c.raw != p.Call {
			continue
		}
		p.Call = c.result.Call
		*c.result = p
		d.open = slices.Delete(d.open, i, i+1)
		return true
	}
	return false
}

func (d *dialog) add(m events.Message, parts []events.Part) {
	if len(parts) == 0 {
		return
	}
	m.Parts = parts
	d.out = append(d.out, m)
}

// name returns an id that is unique in the request.
func (d *dialog) name(raw events.CallID) events.CallID {
	d.calls++
	id := events.CallID(d.spell(raw))
	for n := d.calls; id == "" || d.used[id]; n++ {
		id = events.CallID("call_" + strconv.Itoa(n))
	}
	d.used[id] = true
	return id
}

// ToolNames returns a function that converts the name of a called tool to the form that chat APIs accept. It keeps
// declared names. In others, which a model invented or another provider allowed, it replaces every character outside
// A-Z a-z 0-9 _ - with an underscore.
func ToolNames(declared []Tool) func(name string) string {
	known := make(map[string]bool, len(declared))
	for _, t := range declared {
		known[t.Name] = true
	}
	return func(name string) string {
		if known[name] {
			return name
		}
		if name == "" {
			return "unknown"
		}
		return Token(name, 64)
	}
}

// Token replaces every character of s outside A-Z a-z 0-9 _ - by an underscore and cuts the result to limit bytes.
func Token(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), limit)]
}
