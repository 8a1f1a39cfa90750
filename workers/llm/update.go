package llm

import (
	"encoding/json"
	"maps"

	"github.com/lash-go/lash/events"
)

// Update is what one event of a stream says about its reply, in the words of no wire. The zero value says nothing.
type Update struct {
	Pieces  []Piece
	Model   string
	ID      string // of the reply
	Usage   Counts
	Refused bool // the model refuses, in the text of the reply
	End     *End
	Done    bool // no event follows
	Failure *Failure
}

// Piece is a piece of a part. It continues a part of its kind: that with its ID, else the latest with its Index, else,
// without both, the latest. If there is none, it begins one.
type Piece struct {
	Kind  events.PartKind // text, reasoning or tool_call; empty begins a part that is left out
	Begin bool            // the piece begins a part, whatever its Index
	ID    string          // may be empty
	Index *Number

	Text      string // of the part, or of the call's arguments; it may begin and end inside a character
	Whole     bool   // Text is that of the whole part: it counts only if no other piece has text
	Paragraph Number // a piece of another paragraph than that of the piece before it begins after an empty line

	Call      events.CallID
	Tool      string                     // a name may be in several pieces; one that is repeated counts once
	Signature string                     // joined with that of other pieces
	Fields    map[string]json.RawMessage // what the endpoint wants back with the part, see [Endpoint.Own]
}

// Counts are totals of tokens; nil is not told.
type Counts struct{ Input, Output, CacheRead, CacheWrite, Reasoning *Number }

// add replaces the counts that c tells.
func (c Counts) add(to *events.Usage) {
	for _, n := range []struct {
		told *Number
		to   *int64
	}{
		{c.Input, &to.Input},
		{c.Output, &to.Output},
		{c.CacheRead, &to.CacheRead},
		{c.CacheWrite, &to.CacheWrite},
		{c.Reasoning, &to.Reasoning},
	} {
		if n.told != nil {
			*n.to = int64(*n.told)
		}
	}
}

// End is why a reply ended.
type End struct {
	Reason string // in the spelling of any wire; empty if the endpoint gives none
	Detail string // for the diagnostic of an end that is not a good one
}

// stop is the meaning of a reason.
func (e End) stop() events.StopReason {
	switch e.Reason {
	case "stop", "end_turn", "stop_sequence", "completed":
		return events.StopEnd
	case "tool_calls", "function_call", "tool_use":
		return events.StopToolUse
	case "length", "max_tokens", "max_output_tokens":
		return events.StopOutputLimit
	case "content_filter", "refusal":
		return events.StopContentFilter
	case "model_context_window_exceeded":
		return events.StopContextOverflow
	}
	return events.StopUnknown
}

// Vendor is what an endpoint wants back with a part of its replies. It is the part's Meta, in JSON.
type Vendor struct {
	From   string                     `json:"from"` // the endpoint: nobody else has a use for the fields
	ID     string                     `json:"id,omitempty"`
	Fields map[string]json.RawMessage `json:"fields"`
}

// SignatureField is the field of a part's joined [Piece.Signature].
const SignatureField = "signature"

func (e *Endpoint) from() string { return e.Name + " " + e.Host() }

// meta is nil without fields.
func (e *Endpoint) meta(part *assembled) []byte {
	v := Vendor{From: e.from(), ID: part.id, Fields: part.fields}
	if part.signature.Len() > 0 {
		v.Fields = map[string]json.RawMessage{SignatureField: Quote(part.signature.String())}
		maps.Copy(v.Fields, part.fields)
	}
	if len(v.Fields) == 0 {
		return nil
	}
	data, _ := json.Marshal(v) // the fields are JSON: they were received as such
	return data
}

// Own returns what this endpoint wants back with a part. It is zero for parts of other endpoints and providers.
func (e *Endpoint) Own(part events.Part) Vendor {
	var v Vendor
	if len(part.Meta) == 0 || json.Unmarshal(part.Meta, &v) != nil || v.From != e.from() {
		return Vendor{}
	}
	return v
}

// Quote is s as a JSON string, for a field.
func Quote(s string) json.RawMessage {
	data, _ := json.Marshal(s) // a string always can be
	return data
}
