package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// maxReplyBytes limits the text, reasoning and arguments of one reply. A provider that streams more is broken or hostile.
const maxReplyBytes = 64 << 20

// assembly joins the updates of one streamed reply to a response, and passes text and reasoning to the sink. The joined
// deltas of a part equal the part's Text.
type assembly struct {
	request *Prepared
	sink    func(Delta)
	size    int    // bytes received
	events  int    // received
	content int    // pieces and ends received
	words   string // received in place of an event

	parts  []*assembled
	known  map[place]*assembled
	others []Update // of another choice

	reported Response // the usage, the model and the ID
	refused  bool
	ended    *End // nil until the endpoint says it
	streamed bool // a piece that was no whole reply was received
	texts    bool // each whole reply has the next text
}

// place is what a part of a kind is known by: its ID, its index, or neither, which is the latest one.
type place struct {
	kind    events.PartKind
	id      string
	indexed bool
	index   Number
}

func at(kind events.PartKind, index *Number) place {
	return place{kind: kind, indexed: true, index: *index}
}

// assembled is a part that is being received.
type assembled struct {
	part      events.Part
	id        string
	indexed   bool // its begin had an index
	begun     bool // not by a piece that came before its begin
	done      bool // the last piece of its item was received
	cut       bool
	said      strings.Builder // as received
	again     int             // offset in said at which the endpoint sent the arguments from the start once more
	body      strings.Builder
	tagged    tagged
	tail      string // bytes of an incomplete character
	whole     string // counts if body is empty, or no JSON
	paragraph Number
	signature strings.Builder
	fields    map[string][]json.RawMessage
}

func newAssembly(p *Prepared, sink func(Delta)) *assembly {
	if sink == nil {
		sink = func(Delta) {}
	}
	return &assembly{request: p, sink: sink, known: map[place]*assembled{}}
}

// add takes an update over. The error is an [*Error] of kind malformed.
func (a *assembly) add(u Update) error {
	a.events++
	if u.Choice != 0 {
		a.others = append(a.others, u)
		a.content += len(u.Pieces)
		u = Update{Model: u.Model, ID: u.ID, Usage: u.Usage}
	}
	a.reported.Model, a.reported.ID = cmp.Or(a.reported.Model, u.Model), cmp.Or(a.reported.ID, u.ID)
	a.refused = a.refused || slices.ContainsFunc(u.Pieces, func(p Piece) bool { return p.Refused && p.Text != "" })
	u.Usage.add(&a.reported.Usage)
	if u.Whole && len(a.parts) > 0 {
		u.Pieces = a.missing(u.Pieces)
	}
	for _, p := range u.Pieces {
		if err := a.piece(p); err != nil {
			return err
		}
		a.streamed = a.streamed || !u.Whole && p.Text != ""
	}
	if u.End != nil && (a.ended == nil || u.End.Reason != "") {
		a.ended = u.End
		a.content++
	}
	return nil
}

// choose adds the updates of the first other choice where the one that was requested did not come.
func (a *assembly) choose() (err error) {
	if len(a.parts) > 0 || a.ended != nil && a.ended.Reason != "" {
		return nil
	}
	for _, u := range a.others {
		if u.Choice == a.others[0].Choice && err == nil {
			u.Choice, u.Usage = 0, Counts{}
			err = a.add(u)
		}
	}
	return err
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
	found := a.continuedBy(p)
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
	part = &assembled{part: events.Part{Kind: p.Kind}, id: p.ID, indexed: p.Index != nil, begun: p.Begin, fields: map[string][]json.RawMessage{}}
	a.parts = append(a.parts, part)
	a.known[place{kind: p.Kind}] = part
	if p.ID != "" {
		a.known[place{kind: p.Kind, id: p.ID}] = part
	}
	if p.Index != nil {
		delete(a.known, at("", p.Index))
		a.known[at(p.Kind, p.Index)] = part
	}
	return part, false
}

// continuedBy is the part that p continues, or nil.
func (a *assembly) continuedBy(p Piece) *assembled {
	var indexed, named *assembled
	if p.Index != nil {
		indexed = a.known[at(p.Kind, p.Index)]
		if left := a.known[at("", p.Index)]; left != nil && indexed == nil && p.Kind == events.PartToolCall && p.Tool == "" {
			return left // arguments of a call that the endpoint runs itself
		}
	}
	if p.ID != "" {
		named = a.known[place{kind: p.Kind, id: p.ID}]
	}
	begins := p.Kind == events.PartToolCall && p.Tool != ""
	latest := a.known[place{kind: p.Kind}]
	switch {
	case p.Item && named != nil:
		return named
	case indexed != nil && (p.ID == "" || indexed.id == p.ID):
		return indexed
	case indexed != nil && indexed.id == "":
		indexed.id = p.ID
		a.known[place{kind: p.Kind, id: p.ID}] = indexed
		return indexed
	case p.Item && p.ID != "" && (indexed == nil || p.Begin || !indexed.begun || indexed.done):
		return nil
	case p.Item && p.ID != "": // some endpoints have another id in each event of an item
		return indexed
	case indexed != nil && named == nil && !begins: // some endpoints make up an id for each piece
		return indexed
	case indexed != nil: // and others number every call 0
		return named
	case begins && (p.Index != nil || p.ID != "" && named == nil):
		return nil
	case named != nil:
		return named
	case latest != nil && latest.indexed && p.Index != nil:
		return nil
	}
	return latest
}

// followed reports whether a piece with a name is the next call after that of part, which it would continue otherwise, or
// the same call again.
func (part *assembled) followed(p Piece) (next, again bool) {
	order := p.Index == nil && p.ID == ""
	args, body := strings.TrimSpace(p.Text), part.body.String()
	switch {
	case part.part.Tool == "":
		return false, false
	case !strings.HasPrefix(args, "{"), !order && !json.Valid([]byte(args)), !json.Valid([]byte(body)):
		return (order || json.Valid([]byte(body))) && p.Tool != part.part.Tool, false
	}
	again = !order && p.Tool == part.part.Tool && p.Text == body
	return !again, again
}

func (a *assembly) write(part *assembled, p Piece) error {
	fragment, said := p.Text, part.said.String()
	switch rest, grown := strings.CutPrefix(fragment, said); {
	case fragment == "":
		return nil
	case p.Whole && p.Kind == events.PartToolCall && said == "":
		part.whole, fragment = fragment, ""
		a.size += len(part.whole)
	case p.Whole && p.Kind == events.PartToolCall:
		part.whole = fragment // a repetition, unless the pieces are none
		return nil
	case p.Whole && said != "" && !grown:
		return nil // a repetition
	case p.Whole && said != "":
		fragment = rest
	case said != "" && p.Paragraph != part.paragraph:
		fragment = "\n\n" + fragment
	}
	part.paragraph = p.Paragraph
	if part.begunAgain(fragment) {
		part.again = part.said.Len()
	}
	part.said.WriteString(fragment)
	if a.size += len(fragment); a.size > maxReplyBytes {
		return Malformed(fmt.Sprintf("a reply of more than %d bytes", maxReplyBytes))
	}
	text := part.tail + fragment
	cut := len(text) - incomplete(text)
	part.tail = text[cut:]
	a.say(part, text[:cut])
	return nil
}

// begunAgain reports whether a piece of arguments has all of them until then: some endpoints send those in each piece, or once more at the
// end, or {} before them. Arguments may have a value that begins as they do.
func (part *assembled) begunAgain(fragment string) bool {
	before := part.said.String()[part.again:]
	switch {
	case part.part.Kind != events.PartToolCall || before == "":
		return false
	case before == "{}":
		return strings.HasPrefix(fragment, "{")
	}
	said := strings.TrimRight(before, blanks)
	return said != "" && strings.HasPrefix(fragment, before) && (part.again > 0 || !strings.ContainsAny(said[len(said)-1:], ":[,"))
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
	res := a.reported
	_, own := errors.AsType[*Error](err)
	switch {
	case err != nil && (own || a.ended == nil):
		return res, err
	case a.ended != nil:
	case a.words != "":
		return res, Malformed(a.words)
	case a.events == 0:
		return res, errors.New("the endpoint answered with nothing")
	default:
		return res, unfinished(CodeUnknownEnd, "the stream ended before the reply did")
	}
	end, calls, failed := *a.ended, false, false
	if res.Stop, failed = end.stop(a.request.Sampling.Stop); failed {
		return a.reported, a.request.endpoint.failed(0, Failure{Type: end.Reason, Message: "the endpoint ended the reply with " + end.Reason})
	}
	for _, part := range slices.Clone(a.parts) { // what was held may be thinking: a part before it
		a.say(part, part.tail)
		to, t := part, part.tagged
		if t.state == thinking {
			to = t.thought
		}
		if a.append(to, t.held); t.implied && t.state == thinking && res.ends() {
			t.thought.part.Kind = events.PartText // the reply had no thinking
		}
	}
	for _, part := range a.parts {
		p, keep := a.finish(part)
		if !keep {
			continue
		}
		if thought, answer, found := unopened(p.Text); found && p.Kind == events.PartText && part.tagged.thought == nil {
			a.request.learn(endsThinking, true)
			res.Parts = append(res.Parts, events.Part{Kind: events.PartReasoning, Text: thought})
			if p.Text = answer; answer == "" {
				continue
			}
		}
		if p.Kind == events.PartToolCall {
			if calls = true; p.Tool == "" {
				return a.reported, Malformed("a call without a name")
			}
			switch {
			case res.ends() && a.request.limit > 0 && res.Usage.Output-res.Usage.Reasoning >= a.request.limit: // vLLM says calls where the limit cut one
				res.Stop = events.StopOutputLimit
			case res.ends() && part.cut:
				res.Stop, end.Detail = events.StopUnknown, "the call of "+p.Tool+" is not complete"
			}
		}
		res.Parts = append(res.Parts, p)
	}
	switch {
	case res.Stop == events.StopEnd && calls:
		res.Stop = events.StopToolUse
	case res.Stop == events.StopEnd && a.refused:
		res.Stop, end.Detail = events.StopContentFilter, "the model refused"
	}
	if res.Stop == events.StopUnknown || res.Stop == events.StopContentFilter {
		res.Detail = a.request.endpoint.redact(end.Detail)
	}
	return res, nil
}

// finish returns a part, and whether it is one of the reply: empty text is none, nor is empty reasoning without Meta. A
// call without arguments gets "{}".
func (a *assembly) finish(part *assembled) (p events.Part, keep bool) {
	p = part.part
	if p.Kind == "" || p.Kind == events.PartToolCall && p.Tool+part.said.String()+part.whole == "" { // an id alone is no call
		return p, false
	}
	p.Meta = a.request.meta(part)
	if p.Kind != events.PartToolCall {
		p.Text = part.body.String()
		return p, p.Text != "" || p.Kind == events.PartReasoning && len(p.Meta) > 0
	}
	p.Args = []byte(cmp.Or(part.body.String(), part.whole))
	switch args, form := strings.TrimSpace(plain(p.Args)), a.request.byName[p.Tool]; {
	case args == "", args == "[]": // of a tool that needs some they were cut off, whatever the end says
		p.Args, part.cut = []byte("{}"), part.cut || form != nil && IsSet(MembersOf(form.Schema)["required"])
	case strings.HasPrefix(args, "{"): // also in a JSON string
		p.Args = []byte(args)
	}
	for _, other := range []string{part.whole, part.said.String()[part.again:]} {
		if !json.Valid(p.Args) && json.Valid([]byte(other)) {
			p.Args = []byte(other)
		}
	}
	return p, true
}

// incomplete is the number of bytes at the end of text that begin a character without completing it.
func incomplete(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) && !utf8.FullRuneInString(last) {
			return n
		}
	}
	return 0
}
