package llm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
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

// dialog returns messages in the form that all chat APIs accept:
//
//   - System messages are first, and one; a later one, which many gateways refuse or drop, is the user's, as a note. Where the
//     template has none, all are the user's.
//   - After that the first message and the last are the user's, and no two in a row have one role. No text is blank.
//   - Every call has a unique id: its own as spell, which is [Wire.CallID], spells it if that is free and not empty, else one made from
//     the position of the call. A longer history therefore keeps the ids of its beginning.
//   - A message with calls is followed by one of the user that begins with their results, in the order of the calls. A text takes
//     the place of a missing one. A result without a call becomes text. Where the template has one call in a message, each is in its own.
//   - The text of parts is UTF-8, and arguments of calls are a JSON object of valid Unicode.
//   - Attachments are URLs or base64, of the kind that their bytes are, and below the limits of all APIs; large pictures are
//     scaled. A text takes the place of others.
//
// The input is not changed. The error is an [*Error] of kind invalid_request: the body of a part is still in a blob.
func (p *Prepared) dialog(messages []events.Message, spell func(events.CallID) string) ([]events.Message, error) {
	d := dialog{spell: spell, used: map[events.CallID]bool{}, oneCall: p.Learned(oneCall) != nil}
	begun := false
	for _, m := range messages {
		if m.Role == events.RoleSystem && p.Learned(noSystem) != nil {
			m.Role = events.RoleUser
		}
		for _, p := range m.Parts {
			if !p.Blob.IsZero() && p.Text == "" && len(p.Args) == 0 {
				return nil, &Error{Kind: KindRequest, Message: fmt.Sprintf("a %s part of %d bytes was not loaded from its blob", p.Kind, p.Blob.Size)}
			}
		}
		m.Parts = said(m.Parts)
		begun = begun || m.Role != events.RoleSystem && len(m.Parts) > 0
		if m.Role == events.RoleAssistant {
			d.reply(m)
		} else {
			d.rest(m, m.Role == events.RoleSystem && begun)
		}
	}
	return joined(p.endpoint.attached(d.out)), nil
}

// said are the parts that have something to say, with valid text.
func said(parts []events.Part) (list []events.Part) {
	for _, p := range parts {
		blank := strings.TrimSpace(p.Text) == ""
		switch {
		case isAttachment(p):
		case p.Kind == events.PartText && blank:
			continue
		case p.Kind == events.PartToolResult && blank:
			p.Text = noOutput
		case p.Kind == events.PartToolCall:
			p.Args = arguments(p.Args)
		default:
			p.Text = strings.ToValidUTF8(p.Text, string(utf8.RuneError))
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

// joined are the messages of which no two in a row have one role. The first after the system's, and the last, are the user's.
func joined(list []events.Message) []events.Message {
	var out []events.Message
	add := func(m events.Message) {
		if last := len(out) - 1; last >= 0 && out[last].Role == m.Role {
			out[last].Parts = slices.Concat(out[last].Parts, m.Parts)
			return
		}
		out = append(out, m)
	}
	between := []events.Part{{Kind: events.PartText, Text: "\n\n"}} // the texts of a reply are joined without a line between them
	user := events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: noUser}}}
	for _, m := range list {
		last := len(out) - 1
		switch {
		case m.Role != events.RoleAssistant:
		case len(Followed(m.Parts)) == 0:
			continue // reasoning alone
		case last >= 0 && out[last].Role == events.RoleAssistant:
			m.Parts = slices.Concat(between, m.Parts)
		case last < 0 || out[last].Role == events.RoleSystem:
			add(user)
		}
		add(m)
	}
	if last := len(out) - 1; last < 0 || out[last].Role != events.RoleUser {
		add(user)
	}
	return out
}

// Followed are the parts of a message without reasoning at its end, which some APIs reject, and without the blank text that is
// between replies.
func Followed(parts []events.Part) (out []events.Part) {
	last := 0
	for _, p := range parts {
		if p.Kind == events.PartText && strings.TrimSpace(p.Text) == "" {
			continue
		}
		if out = append(out, p); p.Kind != events.PartReasoning {
			last = len(out)
		}
	}
	return out[:last]
}

type dialog struct {
	spell   func(events.CallID) string
	used    map[events.CallID]bool
	calls   int // so far
	open    []openCall
	out     []events.Message
	oneCall bool // in a message
}

// openCall is a call of the last reply without a result yet.
type openCall struct {
	raw    events.CallID
	result *events.Part // its position in out
}

// reply adds what only the assistant says, and the results of its calls.
func (d *dialog) reply(m events.Message) {
	d.open = nil
	parts := slices.DeleteFunc(slices.Clone(m.Parts), func(p events.Part) bool {
		return p.Kind == events.PartToolResult || p.Kind == events.PartAttachment
	})
	results, said, answered := make([]events.Part, 0, len(parts)), 0, 0 // the open calls point into it
	for i, p := range parts {
		if p.Kind == events.PartToolCall {
			parts[i].Call = d.name(p.Call)
			results = append(results, events.Part{
				Kind: events.PartToolResult, Call: parts[i].Call, Tool: p.Tool, Text: noResult, Outcome: events.OutcomeLost,
			})
			d.open = append(d.open, openCall{p.Call, &results[len(results)-1]})
			if d.oneCall {
				d.add(events.RoleAssistant, parts[said:i+1])
				d.add(events.RoleUser, results[answered:])
				said, answered = i+1, len(results)
			}
		}
	}
	d.add(events.RoleAssistant, parts[said:])
	d.add(events.RoleUser, results[answered:])
}

// rest adds what only the user or the system says. late: it is one of the system that is too late.
func (d *dialog) rest(m events.Message, late bool) {
	var rest []events.Part
	for _, p := range m.Parts {
		switch {
		case p.Kind == events.PartReasoning, p.Kind == events.PartToolCall, p.Kind == events.PartToolResult && d.resolve(p):
			continue
		case p.Kind == events.PartToolResult:
			p = events.Part{Kind: events.PartText, Text: fmt.Sprintf("[result of an earlier call of %s]\n%s", p.Tool, p.Text)}
		case p.Kind == events.PartText && late:
			p.Text = noteTitle + p.Text
		}
		rest = append(rest, p)
	}
	if late {
		m.Role = events.RoleUser
	}
	d.add(m.Role, rest)
}

// resolve assigns p to the first open call with its id: results of equal ids are in call order.
func (d *dialog) resolve(p events.Part) bool {
	at := slices.IndexFunc(d.open, func(c openCall) bool { return c.raw == p.Call })
	if at < 0 {
		return false
	}
	result := d.open[at].result
	p.Call, p.Tool = result.Call, cmp.Or(p.Tool, result.Tool)
	*result = p
	d.open = slices.Delete(d.open, at, at+1)
	return true
}

func (d *dialog) add(role events.Role, parts []events.Part) {
	if len(parts) > 0 {
		d.out = append(d.out, events.Message{Role: role, Parts: parts})
	}
}

// name returns an id that is unique in the request. It cuts none that is too long for OpenAI's API: gateways keep signatures in ids.
func (d *dialog) name(raw events.CallID) events.CallID {
	const longest = 40
	d.calls++
	id := events.CallID(d.spell(raw))
	for n := d.calls; id == "" || d.used[id] || len(id) > longest; n++ {
		id = events.CallID(d.spell(events.CallID("call_" + strconv.Itoa(n))))
	}
	d.used[id] = true
	return id
}

var plainID = regexp.MustCompile(`^[a-zA-Z0-9]+$`)

// idOf is an id of so many letters and digits: raw, if it is one.
func idOf(raw events.CallID, length int) string {
	if len(raw) == length && plainID.MatchString(string(raw)) {
		return string(raw)
	}
	sum := sha256.Sum256([]byte(raw))
	return hex.EncodeToString(sum[:])[:min(length, 2*len(sum))]
}

// Token replaces every character of s that is no letter, no digit and none of more by an underscore, and cuts the result to limit bytes.
func Token(s string, limit int, more string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(more, r):
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), limit)]
}
