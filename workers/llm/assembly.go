package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// maxReplyBytes limits the text, reasoning and arguments of one reply. A provider that streams more is broken or
// hostile.
const maxReplyBytes = 64 << 20

// assembly joins the updates of one streamed reply to a response, and passes text and reasoning to the sink. The joined
// deltas of a part equal the part's Text.
type assembly struct {
	endpoint *Endpoint
	sink     func(Delta)
	size     int // bytes received

	parts   []*assembled
	byID    map[pieceID]*assembled
	byIndex map[pieceIndex]*assembled
	latest  map[events.PartKind]*assembled

	usage   events.Usage
	model   string
	id      string
	refused bool
	ended   *End // nil until the endpoint says it
}

type pieceID struct {
	kind events.PartKind
	id   string
}

type pieceIndex struct {
	kind  events.PartKind
	index Number
}

// assembled is a part that is being received.
type assembled struct {
	part      events.Part
	id        string
	body      strings.Builder
	tail      string // bytes of an incomplete character
	whole     string // counts if body is empty
	paragraph Number
	signature strings.Builder
	fields    map[string]json.RawMessage
}

func newAssembly(e *Endpoint, sink func(Delta)) *assembly {
	if sink == nil {
		sink = func(Delta) {}
	}
	return &assembly{
		endpoint: e, sink: sink,
		byID: map[pieceID]*assembled{}, byIndex: map[pieceIndex]*assembled{}, latest: map[events.PartKind]*assembled{},
	}
}

// add takes an update over. The error is an [*Error] of kind malformed.
func (a *assembly) add(u Update) error {
	a.model, a.id = cmp.Or(a.model, u.Model), cmp.Or(a.id, u.ID)
	a.refused = a.refused || u.Refused
	u.Usage.add(&a.usage)
	for _, p := range u.Pieces {
		if err := a.piece(p); err != nil {
			return err
		}
	}
	if u.End != nil && (a.ended == nil || u.End.Reason != "") {
		a.ended = u.End
	}
	return nil
}

func (a *assembly) piece(p Piece) error {
	if !p.Begin && p.Text == "" && p.Signature == "" && p.Tool == "" && p.Call == "" && len(p.Fields) == 0 {
		return nil // it says nothing
	}
	part := a.find(p)
	if part.part.Kind == "" {
		return nil
	}
	part.part.Call = cmp.Or(part.part.Call, p.Call)
	if part.part.Tool == "" || !p.Whole && part.part.Tool != p.Tool {
		part.part.Tool += p.Tool
	}
	part.signature.WriteString(p.Signature)
	for name, value := range p.Fields {
		if part.fields == nil {
			part.fields = map[string]json.RawMessage{}
		}
		part.fields[name] = value
	}
	return a.write(part, p)
}

// find returns the part that p continues, or begins one.
func (a *assembly) find(p Piece) *assembled {
	if found := a.known(p); found != nil && !p.Begin {
		return found
	}
	part := &assembled{part: events.Part{Kind: p.Kind}, id: p.ID}
	a.parts = append(a.parts, part)
	a.latest[p.Kind] = part
	if p.ID != "" {
		a.byID[pieceID{p.Kind, p.ID}] = part
	}
	if p.Index != nil {
		a.byIndex[pieceIndex{p.Kind, *p.Index}] = part
		if p.Kind != "" {
			delete(a.byIndex, pieceIndex{"", *p.Index})
		}
	}
	return part
}

// known is the part that p continues, or nil. A new id at a known index is a new part: some endpoints number every call
// 0. Without a name it is none: others make up an id for each piece of a call.
func (a *assembly) known(p Piece) *assembled {
	if found := a.byID[pieceID{p.Kind, p.ID}]; found != nil {
		return found
	}
	found := a.latest[p.Kind]
	if p.Index != nil {
		if left := a.byIndex[pieceIndex{"", *p.Index}]; left != nil {
			return left
		}
		found = a.byIndex[pieceIndex{p.Kind, *p.Index}]
	}
	switch {
	case found == nil, p.ID == "":
		return found
	case found.id == "":
		found.id = p.ID
		a.byID[pieceID{p.Kind, p.ID}] = found
		return found
	case p.Kind == events.PartToolCall && p.Tool == "":
		return found
	}
	return nil
}

func (a *assembly) write(part *assembled, p Piece) error {
	fragment := p.Text
	if fragment == "" {
		return nil
	}
	if p.Whole {
		if part.body.Len() > 0 || part.tail != "" {
			return nil
		}
		if p.Kind == events.PartToolCall {
			part.whole, fragment = fragment, ""
			a.size += len(part.whole)
		}
	}
	if p.Paragraph != part.paragraph && part.body.Len() > 0 {
		fragment = "\n\n" + fragment
	}
	part.paragraph = p.Paragraph
	a.size += len(fragment)
	if a.size > maxReplyBytes {
		return Malformed(fmt.Sprintf("a reply of more than %d bytes", maxReplyBytes))
	}
	text := part.tail + fragment
	cut := len(text) - incomplete(text)
	part.tail = text[cut:]
	a.append(part, text[:cut])
	return nil
}

// append appends text and passes it to the sink.
func (a *assembly) append(part *assembled, text string) {
	if text == "" {
		return
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	part.body.WriteString(text)
	if part.part.Kind != events.PartToolCall {
		a.sink(Delta{Kind: part.part.Kind, Text: text})
	}
}

// end returns the response. err is what ended the stream, or nil. A reply is complete when the endpoint has said why it
// ended: a later loss of the connection loses only the usage. With an error the response has the usage and the model.
func (a *assembly) end(err error) (Response, error) {
	res := Response{Usage: a.usage, Model: a.model, ID: a.id}
	if own, ok := errors.AsType[*Error](err); ok {
		return res, own
	}
	if a.ended == nil {
		return res, cmp.Or(err, errors.New("the stream ended before the reply did"))
	}
	calls := false
	for _, part := range a.parts {
		p, keep := a.finish(part)
		calls = calls || keep && p.Kind == events.PartToolCall
		if keep && p.Kind == events.PartToolCall && p.Tool == "" {
			return res, Malformed("a call without a name")
		}
		if keep {
			res.Parts = append(res.Parts, p)
		}
	}
	detail := a.ended.Detail
	switch res.Stop = a.ended.stop(); {
	case res.Stop == events.StopEnd && calls:
		res.Stop = events.StopToolUse
	case res.Stop == events.StopEnd && a.refused:
		res.Stop, detail = events.StopContentFilter, "the model refused"
	}
	if res.Stop == events.StopUnknown || res.Stop == events.StopContentFilter {
		res.Detail = a.endpoint.redact(detail)
	}
	return res, nil
}

// finish returns a part, and whether it is one of the reply: empty text is none, nor is empty reasoning without Meta. A
// call without arguments gets "{}".
func (a *assembly) finish(part *assembled) (p events.Part, keep bool) {
	if part.part.Kind == "" {
		return p, false
	}
	a.append(part, part.tail)
	part.tail = ""
	p = part.part
	p.Meta = a.endpoint.meta(part)
	if p.Kind != events.PartToolCall {
		p.Text = part.body.String()
		return p, p.Text != "" || p.Kind == events.PartReasoning && len(p.Meta) > 0
	}
	p.Args = []byte(cmp.Or(part.body.String(), part.whole))
	if strings.TrimSpace(string(p.Args)) == "" {
		p.Args = []byte("{}")
	}
	return p, true
}

// incomplete is the number of bytes at the end of text that begin a character without completing it.
func incomplete(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		last := text[len(text)-n:]
		if !utf8.RuneStart(last[0]) {
			continue
		}
		if utf8.FullRuneInString(last) {
			return 0
		}
		return n
	}
	return 0
}
