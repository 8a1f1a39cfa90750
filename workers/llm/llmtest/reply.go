package llmtest

import (
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Reply scripts one reply of a model.
type Reply struct {
	Chunks  []Chunk           // the stream, in order
	Stop    events.StopReason // why the model stopped
	Usage   events.Usage
	Fault   Fault      // happens after Chunks; Stop and Usage are not sent then
	Refusal *llm.Error // in place of all of the above; Kind, Message and RetryAfter are sent
}

// Chunk is one message of a streamed reply.
type Chunk struct {
	Kind  events.PartKind // text, reasoning or tool_call
	Text  string          // of the part, or of the call's arguments; on a wire it may end inside a character
	Index int             // which of the reply's calls, from 0
	Call  events.CallID   // set in the first chunk of a call
	Tool  string          // set in the first chunk of a call
}

// Fault is what goes wrong in the middle of a reply.
type Fault string

// The faults, and the kinds of error that Complete returns.
const (
	FaultNone    Fault = ""
	FaultCut     Fault = "cut"     // the connection is lost: transport
	FaultShort   Fault = "short"   // the stream ends in good order before the reply does: unfinished
	FaultGarbage Fault = "garbage" // a chunk that cannot be read: malformed
	FaultError   Fault = "error"   // the provider reports an internal error: server
	FaultHang    Fault = "hang"    // nothing follows: the error of the caller's context
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

// Parts are the parts that a provider must return, without Meta: one text, one reasoning and each call, in the order
// in which they began.
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

// text is the joined text of the chunks of that kind.
func (r Reply) text(kind events.PartKind) string {
	var b strings.Builder
	for _, c := range r.Chunks {
		if c.Kind == kind {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}
