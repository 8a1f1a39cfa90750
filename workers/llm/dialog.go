package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// Texts in place of what a dialog lacks.
const (
	noResult  = "No result was recorded for this call." // the chat APIs reject a call without a result
	noOutput  = "[no output]"                           // gateways reject a blank one
	noUser    = "[the conversation continues here]"     // some APIs require the user first, or last
	noteTitle = "[system note]\n"                       // precedes a system message that is too late for the system prompt
)

// Dialog returns messages in the form that all chat APIs accept, for adapters:
//
//   - System messages are first, and one; a later one, which many models and gateways refuse or drop, is the user's, as
//     a note.
//   - After that the first message and the last are the user's, and no two messages in a row have one role. Parts without a text are
//     left out, and messages without parts.
//   - Every call has a unique id: spell(id) if that is free and not empty, else
//     one made from the position of the call. A longer history therefore keeps
//     the ids of its beginning.
//   - A message with calls is followed by one of the user that begins with their results, in the order of the calls. A
//     missing result becomes a text that says so, and an empty one is not blank.
//   - A result without a call becomes text.
//   - The text of parts is UTF-8, and arguments of calls are a JSON object of valid Unicode.
//   - Attachments are URLs or base64, of the kind that their bytes are, and below the limits of all APIs; large pictures are
//     scaled. A text takes the place of others.
//
// The input is not changed. The error is an [*Error] of kind invalid_request: the body of a part is still in a blob.
func (e *Endpoint) Dialog(messages []events.Message, spell func(events.CallID) string) ([]events.Message, error) {
	d := dialog{spell: spell, used: map[events.CallID]bool{}}
	begun := false
	for _, m := range messages {
		if err := checkInline(m); err != nil {
			return nil, err
		}
		m.Parts = said(m.Parts)
		begun = begun || m.Role != events.RoleSystem && len(m.Parts) > 0
		switch {
		case m.Role == events.RoleAssistant:
			d.assistant(m)
		case m.Role == events.RoleSystem && begun:
			d.addRest(note(m))
		default:
			d.addRest(m)
		}
	}
	return joined(e.scaled.attached(d.out)), nil
}

// said are the parts that have something to say, with valid text.
func said(parts []events.Part) []events.Part {
	list := make([]events.Part, 0, len(parts))
	for _, p := range parts {
		if isAttachment(p) {
			list = append(list, p)
			continue
		}
		p.Text = strings.ToValidUTF8(p.Text, string(utf8.RuneError))
		blank := strings.TrimSpace(p.Text) == ""
		switch {
		case p.Kind == events.PartText && blank:
			continue
		case p.Kind == events.PartToolResult && blank:
			p.Text = noOutput
		case p.Kind == events.PartToolCall:
			p.Args = arguments(p.Args)
		}
		list = append(list, p)
	}
	return list
}

// arguments are args if they are an object, as the APIs require.
func arguments(args []byte) []byte {
	if !json.Valid(args) || !bytes.HasPrefix(bytes.TrimLeft(args, " \t\r\n"), []byte("{")) {
		return []byte("{}")
	}
	return ValidUnicode(args)
}

// note is a later system message as one of the user.
func note(m events.Message) events.Message {
	m.Role = events.RoleUser
	parts := slices.Clone(m.Parts)
	for i, p := range parts {
		if p.Kind == events.PartText {
			parts[i].Text = noteTitle + p.Text
		}
	}
	m.Parts = parts
	return m
}

// joined are the messages of which no two in a row have one role. The first after the system's, and the last, are the
// user's.
func joined(list []events.Message) []events.Message {
	var out []events.Message
	for _, m := range list {
		if m.Role == events.RoleAssistant && !answers(m.Parts) {
			continue
		}
		last := len(out) - 1
		switch {
		case last >= 0 && out[last].Role == m.Role:
			parts := out[last].Parts
			if m.Role == events.RoleAssistant { // whose texts are joined without a line between them
				parts = append(slices.Clip(parts), events.Part{Kind: events.PartText, Text: "\n\n"})
			}
			out[last].Parts = append(slices.Clip(parts), m.Parts...)
			continue
		case m.Role == events.RoleAssistant && (last < 0 || out[last].Role == events.RoleSystem):
			out = append(out, events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: noUser}}})
		}
		out = append(out, m)
	}
	if last := len(out) - 1; last < 0 || out[last].Role != events.RoleUser {
		out = append(out, events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: noUser}}})
	}
	return out
}

// answers reports whether a reply has more than reasoning, without which it cannot be sent back.
func answers(parts []events.Part) bool {
	return slices.ContainsFunc(parts, func(p events.Part) bool {
		return p.Kind == events.PartText || p.Kind == events.PartToolCall
	})
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
		p.Call, p.Tool = c.result.Call, cmp.Or(p.Tool, c.result.Tool)
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
