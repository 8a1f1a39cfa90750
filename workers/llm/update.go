package llm

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Update is what one event of a stream says about its reply, in the words of no wire. The zero value says nothing.
type Update struct {
	Pieces  []Piece
	Whole   bool // the pieces are those of the whole reply: they count only if no other has been received
	Model   string
	ID      string // of the reply
	Usage   Counts
	Refused bool // the model refuses, in the text of the reply
	End     *End
	Done    bool // no event follows
	Failure *Failure
}

// Piece is a piece of a part. It continues a part of its kind, whatever the kind of the block or item that it comes in:
//
//   - with Item the one with its ID; if its ID began none, the one with its Index that began and is not done
//   - else the one with its Index, or with its ID, or the latest if it has neither
//
// If there is none, it begins one. A new id without a name begins no call, and a call that is whole ends where another whole
// one comes.
type Piece struct {
	Kind  events.PartKind // text, reasoning or tool_call; empty begins a part that is left out
	Begin bool            // the piece begins a part, whatever its Index
	ID    string          // may be empty
	Item  bool            // the ID names the part
	Done  bool            // the piece ends its item
	Index *Number

	Text      string // of the part, or of the call's arguments; it may begin and end inside a character
	Whole     bool   // Text is that of the whole part: it counts only if no other piece has text
	Cut       bool   // the endpoint says that the part is not complete
	Paragraph Number // a piece of another paragraph than that of the piece before it begins after an empty line

	Call      events.CallID
	Tool      string                     // a name may be in several pieces; one that is repeated counts once
	Signature string                     // joined with that of other pieces
	Fields    map[string]json.RawMessage // what the endpoint wants back with the part, see [Endpoint.Own]; lists are joined
}

// End is why a reply ended.
type End struct {
	Reason string // in the spelling of any wire; empty if the endpoint gives none
	Detail string // for the diagnostic of an end that is not a good one
}

// ends are the reasons of all wires and providers by their meaning, spelled with letters only. Sources: the API references
// of OpenAI, Anthropic, Gemini, Bedrock, Titan, Mistral, Cohere, DeepSeek, GLM, Qianfan, Together, watsonx, Aleph Alpha, TGI, vLLM and Ollama.
var ends = map[string]events.StopReason{ //nolint:gochecknoglobals // a table that is only read
	"stop": events.StopEnd, "endturn": events.StopEnd, "completed": events.StopEnd, "complete": events.StopEnd,
	"eos": events.StopEnd, "eostoken": events.StopEnd, "endoftext": events.StopEnd, "finish": events.StopEnd, "normal": events.StopEnd,

	"toolcalls": events.StopToolUse, "toolcall": events.StopToolUse, "tooluse": events.StopToolUse,
	"functioncall": events.StopToolUse, "functioncalls": events.StopToolUse,

	"length": events.StopOutputLimit, "maxlength": events.StopOutputLimit, "maxtokens": events.StopOutputLimit,
	"maxoutputtokens": events.StopOutputLimit, "maxcompletiontokens": events.StopOutputLimit, "maxnewtokens": events.StopOutputLimit,
	"maximumtokens": events.StopOutputLimit, "tokenlimit": events.StopOutputLimit, "outputlimit": events.StopOutputLimit,

	"contentfilter": events.StopContentFilter, "contentfiltered": events.StopContentFilter, "refusal": events.StopContentFilter,
	"safety": events.StopContentFilter, "imagesafety": events.StopContentFilter, "recitation": events.StopContentFilter,
	"imagerecitation": events.StopContentFilter, "blocklist": events.StopContentFilter, "prohibitedcontent": events.StopContentFilter,
	"imageprohibitedcontent": events.StopContentFilter, "spii": events.StopContentFilter, "guardrailintervened": events.StopContentFilter,
	"sensitive": events.StopContentFilter, "errortoxic": events.StopContentFilter, "contentpolicyviolation": events.StopContentFilter,

	"modelcontextwindowexceeded": events.StopContextOverflow, "contextlengthexceeded": events.StopContextOverflow,
	"modellength": events.StopContextOverflow, "errorlimit": events.StopContextOverflow,
}

// broken are the reasons that name an error, beside those with "error" or "exception" in them.
var broken = map[string]bool{ //nolint:gochecknoglobals // a table that is only read
	"abort": true, "aborted": true, "timeout": true, "timelimit": true, "insufficientsystemresource": true, "overloaded": true, "failed": true,
}

// stop is the meaning of a reason. stops are the texts that the request stops at: without any, a stop sequence is no known
// end. failed is true if the reason names an error.
func (e End) stop(stops []string) (reason events.StopReason, failed bool) {
	name := lettersOf(e.Reason)
	for _, prefix := range []string{"finishreason", "stopreason"} { // of names of enumerations
		name = strings.TrimPrefix(name, prefix)
	}
	reason, known := ends[name]
	switch {
	case known:
		return reason, false
	case name == "stopsequence" && len(stops) > 0:
		return events.StopEnd, false
	}
	return events.StopUnknown, broken[name] || strings.Contains(name, "error") || strings.Contains(name, "exception")
}

// lettersOf are the letters of a name, in lower case: a name has several spellings.
func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// Vendor is what an endpoint wants back with a part of its replies. It is the part's Meta, in JSON.
type Vendor struct {
	From   string                     `json:"from"`            // the endpoint, and
	Model  string                     `json:"model,omitempty"` // the requested model: no other has a use for the fields
	ID     string                     `json:"id,omitempty"`
	Fields map[string]json.RawMessage `json:"fields"`
}

// SignatureField is the field of a part's joined [Piece.Signature].
const SignatureField = "signature"

func (e *Endpoint) from() string { return e.Name + " " + e.Host() }

// meta is nil without fields.
func (e *Endpoint) meta(part *assembled, model string) []byte {
	v := Vendor{From: e.from(), Model: model, ID: part.id, Fields: map[string]json.RawMessage{}}
	for name, values := range part.fields {
		v.Fields[name] = joinValues(values)
	}
	if part.signature.Len() > 0 { // an empty one may be among the fields
		v.Fields[SignatureField] = Quote(part.signature.String())
	}
	if len(v.Fields) == 0 {
		return nil
	}
	data, _ := json.Marshal(v) // the fields are JSON: they were received as such
	return data
}

// joinValues is one list of several, and the last of other values.
func joinValues(values []json.RawMessage) json.RawMessage {
	last := values[len(values)-1]
	if len(values) == 1 || !bytes.HasPrefix(bytes.TrimLeft(last, " \t\r\n"), []byte("[")) {
		return last
	}
	var all []any
	for _, value := range values {
		var list []any
		d := json.NewDecoder(bytes.NewReader(value))
		d.UseNumber()
		if d.Decode(&list) == nil {
			for _, one := range list {
				all = appendPiece(all, one)
			}
		}
	}
	data, _ := json.Marshal(all) // it was JSON
	return data
}

// appendPiece appends an element to a list. A piece of the last element, which has its index and its type, is joined with it.
func appendPiece(list []any, one any) []any {
	if next, ok := one.(map[string]any); ok && len(list) > 0 && next["index"] != nil {
		if last, ok := list[len(list)-1].(map[string]any); ok && same(last["index"], next["index"]) && same(last["type"], next["type"]) {
			continued(last, next)
			return list
		}
	}
	return append(list, one)
}

func same(a, b any) bool {
	switch a.(type) {
	case json.Number, string, nil:
		return a == b
	}
	return false
}

// continued adds a piece of an object to what is there of it: texts are continued.
func continued(into, piece map[string]any) {
	for name, value := range piece {
		switch value := value.(type) {
		case nil:
		case string:
			if before, ok := into[name].(string); ok && name != "type" && name != "id" && name != "format" {
				value = before + value
			}
			into[name] = value
		case map[string]any:
			if before, ok := into[name].(map[string]any); ok {
				continued(before, value)
			} else {
				into[name] = value
			}
		default:
			into[name] = value
		}
	}
}

// Own returns what this endpoint wants back with a part. It is zero for parts of other endpoints and providers.
func (e *Endpoint) Own(part events.Part) Vendor {
	var v Vendor
	if len(part.Meta) == 0 || json.Unmarshal(part.Meta, &v) != nil || v.From != e.from() {
		return Vendor{}
	}
	return v
}

// Owned returns messages without the fields of other models and endpoints, and how many parts lost some. Those that keep, which
// may be nil, refuses are left out too. The input is not changed.
func (e *Endpoint) Owned(messages []events.Message, model string, keep func(Vendor) bool) (out []events.Message, foreign int64) {
	out = slices.Clone(messages)
	for i, m := range out {
		cloned := false
		for j, part := range m.Parts {
			if len(part.Meta) == 0 || m.Role != events.RoleAssistant {
				continue
			}
			own := e.Own(part)
			mine := own.Fields != nil && own.Model == model
			if mine && (keep == nil || keep(own)) {
				continue
			}
			if !cloned {
				out[i].Parts, cloned = slices.Clone(m.Parts), true
			}
			out[i].Parts[j].Meta = nil
			if !mine {
				foreign++
			}
		}
	}
	return out, foreign
}

// Quote is s as a JSON string, for a field.
func Quote(s string) json.RawMessage {
	data, _ := json.Marshal(s) // a string always can be
	return data
}
