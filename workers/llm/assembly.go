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
	request  *Request
	sink     func(Delta)
	size     int // bytes received

	parts   []*assembled
	byID    map[pieceID]*assembled
	byIndex map[pieceIndex]*assembled
	latest  map[events.PartKind]*assembled

	usage    events.Usage
	model    string
	id       string
	refused  bool
	ended    *End                       // nil until the endpoint says it
	events   int                        // received
	streamed bool                       // a piece that was no whole reply was received
	texts    bool                       // each whole reply has the next text
	wholes   map[events.PartKind]string // what whole replies have said until now
	content  int                        // pieces and ends received
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
	indexed   bool // its begin had an index
	begun     bool // not by a piece that came before its begin
	done      bool // the last piece of its item was received
	received  bool // a piece of the body
	cut       bool
	body      strings.Builder
	tagged    tagged
	tail      string // bytes of an incomplete character
	whole     string // counts if body is empty
	paragraph Number
	signature strings.Builder
	fields    map[string][]json.RawMessage
}

func newAssembly(e *Endpoint, req *Request, sink func(Delta)) *assembly {
	if sink == nil {
		sink = func(Delta) {}
	}
	return &assembly{
		endpoint: e, request: req, sink: sink,
		wholes: map[events.PartKind]string{}, byID: map[pieceID]*assembled{}, byIndex: map[pieceIndex]*assembled{}, latest: map[events.PartKind]*assembled{},
	}
}

// add takes an update over. The error is an [*Error] of kind malformed.
func (a *assembly) add(u Update) error {
	a.events++
	a.model, a.id = cmp.Or(a.model, u.Model), cmp.Or(a.id, u.ID)
	a.refused = a.refused || u.Refused
	u.Usage.add(&a.usage)
	if u.Whole && len(a.parts) > 0 {
		u.Pieces = a.missing(u.Pieces)
	}
	for _, p := range u.Pieces {
		if err := a.piece(p); err != nil {
			return err
		}
		if a.streamed = a.streamed || !u.Whole && p.Text != ""; u.Whole && a.wholes[p.Kind] == "" {
			a.wholes[p.Kind] = p.Text
		}
	}
	if u.End != nil && (a.ended == nil || u.End.Reason != "") {
		a.ended = u.End
		a.content++
	}
	return nil
}

// missing are the pieces of a whole reply that were not received before it: the calls after as many as were, and the texts of a
// kind of which there was none. It completes calls that have no arguments.
func (a *assembly) missing(whole []Piece) (list []Piece) {
	received := map[events.PartKind]bool{}
	var calls []*assembled
	for _, part := range a.parts {
		received[part.part.Kind] = received[part.part.Kind] || part.received
		if part.part.Kind == events.PartToolCall {
			calls = append(calls, part)
		}
	}
	for _, p := range whole {
		switch {
		case p.Kind == events.PartToolCall && len(calls) > 0:
			if part := calls[0]; !part.received && p.Text != "" {
				part.whole, part.part.Tool = p.Text, cmp.Or(part.part.Tool, p.Tool)
			}
			calls = calls[1:]
		case p.Kind == events.PartToolCall, p.Kind != "" && !received[p.Kind]:
			p.Begin = true
			list = append(list, p)
		case p.Kind != "" && p.Text != "":
			if p, ok := a.continued(p); ok {
				list = append(list, p)
			}
		}
	}
	return list
}

// continued is what a whole text adds to what was received of its kind. Some endpoints send whole replies in place of pieces, each with all
// text until then, or with the next text alone. After pieces a whole text is a repetition: it adds its rest where it begins with them.
func (a *assembly) continued(whole Piece) (Piece, bool) {
	said := a.wholes[whole.Kind]
	for _, part := range a.parts {
		if part.part.Kind != whole.Kind || !a.streamed {
			continue
		}
		if part.tagged.thought != nil {
			return whole, false
		}
		said += part.body.String() + part.tail + part.tagged.held
	}
	rest, grown := strings.CutPrefix(whole.Text, said)
	switch {
	case a.streamed && (said == "" || !grown):
		return whole, false
	case !a.streamed && (a.texts || !grown):
		a.texts, rest = true, whole.Text
	case !a.streamed:
		a.wholes[whole.Kind] = whole.Text
	}
	whole.ID, whole.Index, whole.Whole, whole.Text = "", nil, false, rest
	return whole, rest != ""
}

func (a *assembly) piece(p Piece) error {
	if !p.Begin && p.Text == "" && p.Signature == "" && p.Tool == "" && p.Call == "" && len(p.Fields) == 0 {
		return nil // it says nothing
	}
	if p.Text != "" || p.Signature != "" || p.Tool != "" || !p.Begin {
		a.content++
	}
	part, repeated := a.find(p)
	if part.part.Kind == "" || repeated {
		return nil
	}
	if part.cut = part.cut || p.Cut; p.Done {
		part.done, part.id = true, cmp.Or(p.ID, part.id)
	}
	part.part.Call = cmp.Or(part.part.Call, p.Call)
	if part.part.Tool == "" || !p.Whole && part.part.Tool != p.Tool {
		part.part.Tool += p.Tool
	}
	part.signature.WriteString(p.Signature)
	for name, value := range p.Fields {
		if part.fields == nil {
			part.fields = map[string][]json.RawMessage{}
		}
		if before := part.fields[name]; value[0] != '[' {
			part.fields[name] = append(before[:0], value)
		} else {
			part.fields[name] = append(before, value)
		}
	}
	return a.write(part, p)
}

// find returns the part that p continues, or begins one. repeated: p is a call that was received before.
func (a *assembly) find(p Piece) (part *assembled, repeated bool) {
	found := a.known(p)
	if found != nil && p.Kind == events.PartToolCall && p.Tool != "" && !p.Whole {
		if next, again := found.followed(p); again {
			return found, true
		} else if next {
			found = nil
		}
	}
	if found != nil && (!p.Begin || p.Item && p.ID != "" && !found.begun) {
		found.begun = found.begun || p.Begin
		return found, false
	}
	part = &assembled{part: events.Part{Kind: p.Kind}, id: p.ID, indexed: p.Index != nil, begun: p.Begin}
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
	return part, false
}

// known is the part that p continues, or nil.
func (a *assembly) known(p Piece) *assembled {
	var at *assembled
	if p.Index != nil {
		at = a.byIndex[pieceIndex{p.Kind, *p.Index}]
		if left := a.byIndex[pieceIndex{"", *p.Index}]; left != nil && at == nil && p.Kind == events.PartToolCall && p.Tool == "" {
			return left // arguments of a call that the endpoint runs itself
		}
	}
	of := a.byID[pieceID{p.Kind, p.ID}]
	if p.ID == "" {
		of = nil
	}
	named := p.Kind == events.PartToolCall && p.Tool != ""
	switch {
	case p.Item && of != nil:
		return of
	case at != nil && (p.ID == "" || at.id == p.ID):
		return at
	case at != nil && at.id == "":
		at.id = p.ID
		a.byID[pieceID{p.Kind, p.ID}] = at
		return at
	case p.Item && p.ID != "" && (at == nil || p.Begin || !at.begun || at.done):
		return nil
	case p.Item && p.ID != "": // some endpoints have another id in each event of an item
		return at
	case at != nil && of == nil && !named: // some endpoints make up an id for each piece
		return at
	case at != nil: // and others number every call 0
		return of
	case named && (p.Index != nil || p.ID != "" && of == nil):
		return nil
	case of != nil:
		return of
	}
	latest := a.latest[p.Kind]
	if latest != nil && latest.indexed && p.Index != nil {
		return nil
	}
	return latest
}

// followed reports whether a piece with a name is the next call after that of part, which it would continue otherwise, or
// the same call again.
func (part *assembled) followed(p Piece) (next, again bool) {
	order := p.Index == nil && p.ID == ""
	if part.part.Tool == "" {
		return false, false
	}
	if args := strings.TrimSpace(p.Text); !strings.HasPrefix(args, "{") || !order && !json.Valid([]byte(args)) {
		return order && p.Tool != part.part.Tool, false
	}
	body := part.body.String()
	switch {
	case !json.Valid([]byte(body)):
		return order && p.Tool != part.part.Tool, false
	case !order && p.Tool == part.part.Tool && p.Text == body:
		return false, true
	}
	return true, false
}

func (a *assembly) write(part *assembled, p Piece) error {
	fragment := p.Text
	if fragment == "" {
		return nil
	}
	switch {
	case p.Whole && part.received:
		return nil
	case p.Whole && p.Kind == events.PartToolCall:
		part.whole, fragment = fragment, ""
		a.size += len(part.whole)
	default:
		part.received = true
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
	a.push(part, text[:cut])
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
	switch {
	case a.ended != nil:
	case err != nil:
		return res, err
	case a.events == 0:
		return res, errors.New("the endpoint answered with nothing")
	default:
		return res, unfinished(CodeUnknownEnd, "the stream ended before the reply did")
	}
	end := *a.ended
	stop, failed := end.stop(a.request.Sampling.Stop)
	if failed {
		return res, a.endpoint.failed(0, Failure{Type: end.Reason, Message: "the endpoint ended the reply with " + end.Reason})
	}
	for _, part := range a.parts {
		a.flush(part)
	}
	calls := false
	for _, part := range a.parts {
		p, keep := a.finish(part)
		if !keep {
			continue
		}
		if p.Kind == events.PartToolCall {
			if calls = true; p.Tool == "" {
				return res, Malformed("a call without a name")
			}
			if part.cut && (stop == events.StopEnd || stop == events.StopToolUse) {
				stop, end.Detail = events.StopUnknown, "the call of "+p.Tool+" is not complete"
			}
		}
		res.Parts = append(res.Parts, p)
	}
	switch res.Stop = stop; {
	case res.Stop == events.StopEnd && calls:
		res.Stop = events.StopToolUse
	case res.Stop == events.StopEnd && a.refused:
		res.Stop, end.Detail = events.StopContentFilter, "the model refused"
	}
	if res.Stop == events.StopUnknown || res.Stop == events.StopContentFilter {
		res.Detail = a.endpoint.redact(end.Detail)
	}
	return res, nil
}

// flush adds what was held of a part.
func (a *assembly) flush(part *assembled) {
	tail := part.tail
	part.tail = ""
	a.push(part, tail)
	if to := part.tagged.thought; part.tagged.state == thinking {
		a.append(to, part.tagged.held)
	} else {
		a.append(part, part.tagged.held)
	}
}

// push adds whole characters to a part.
func (a *assembly) push(part *assembled, text string) {
	switch part.part.Kind {
	case "":
	case events.PartText:
		a.say(part, text)
	default:
		a.append(part, text)
	}
}

// finish returns a part, and whether it is one of the reply: empty text is none, nor is empty reasoning without Meta. A
// call without arguments gets "{}".
func (a *assembly) finish(part *assembled) (p events.Part, keep bool) {
	if part.part.Kind == "" {
		return p, false
	}
	p = part.part
	p.Meta = a.endpoint.meta(part, a.request.Model)
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
