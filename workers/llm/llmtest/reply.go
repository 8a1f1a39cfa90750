package llmtest

import (
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Reply scripts one answer of a model.
type Reply struct {
	Chunks  []Chunk           // what streams, in order
	Stop    events.StopReason // why the model stopped
	Usage   events.Usage
	Fault   Fault      // what happens after Chunks; Stop and Usage are not sent then
	Refusal *llm.Error // instead of all of the above; Kind, Message and RetryAfter count
}

// Chunk is one streamed piece.
type Chunk struct {
	Kind  events.PartKind // text, reasoning or tool_call
	Text  string          // of the part, or of the call's arguments; on a wire it may end inside a character
	Index int             // which of the reply's calls, from 0
	Call  events.CallID   // set in the first chunk of a call
	Tool  string          // set in the first chunk of a call
}

// Fault is what goes wrong in the middle of a reply.
type Fault string

// The faults and the errors that Complete makes of them.
const (
	FaultNone    Fault = ""
	FaultCut     Fault = "cut"     // the connection is lost: transport
	FaultShort   Fault = "short"   // the stream ends in good order before the reply does: transport
	FaultGarbage Fault = "garbage" // a chunk that cannot be read: malformed
	FaultError   Fault = "error"   // the provider reports an internal error: server
	FaultHang    Fault = "hang"    // nothing more comes: whatever ends the caller's context
)

// Text scripts a text reply in the given chunks.
func Text(chunks ...string) Reply {
	r := Reply{Stop: events.StopEnd}
	for _, c := range chunks {
		r.Chunks = append(r.Chunks, Chunk{Kind: events.PartText, Text: c})
	}
	return r
}

// Refuse scripts a failed call.
func Refuse(kind llm.ErrorKind) Reply {
	return Reply{Refusal: &llm.Error{Kind: kind, Message: "scripted " + string(kind)}}
}

// Parts is what a provider must make of the reply, except for Meta: one part of
// text, one of reasoning and one of each call, in the order they began.
func (r Reply) Parts() []events.Part {
	type key struct {
		kind  events.PartKind
		index int
	}
	var parts []events.Part
	var keys []key
	bodies := map[key]*strings.Builder{}
	for _, c := range r.Chunks {
		k := key{kind: c.Kind}
		if c.Kind == events.PartToolCall {
			k.index = c.Index
		}
		if bodies[k] == nil {
			bodies[k] = &strings.Builder{}
			keys = append(keys, k)
			parts = append(parts, events.Part{Kind: c.Kind, Call: c.Call, Tool: c.Tool})
		}
		bodies[k].WriteString(c.Text)
	}
	for i, k := range keys {
		if k.kind == events.PartToolCall {
			parts[i].Args = []byte(bodies[k].String())
		} else {
			parts[i].Text = bodies[k].String()
		}
	}
	return parts
}

// text is what the chunks of that kind say together.
func (r Reply) text(kind events.PartKind) string {
	var b strings.Builder
	for _, c := range r.Chunks {
		if c.Kind == kind {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}
