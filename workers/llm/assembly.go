package llm

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// maxReplyBytes limits the text, reasoning and arguments of one reply. A provider that streams more is broken or
// hostile.
const maxReplyBytes = 64 << 20

// Assembly joins the deltas of one streamed reply into parts, and passes text and reasoning to the sink. It is for
// adapters. One goroutine at a time may use it. The joined deltas of a part equal the part's Text.
type Assembly struct {
	sink  func(Delta)
	slots []*Slot
	size  int // bytes received
}

// NewAssembly returns an empty reply. The sink may be nil.
func NewAssembly(sink func(Delta)) *Assembly {
	if sink == nil {
		sink = func(Delta) {}
	}
	return &Assembly{sink: sink}
}

// Slot is a part that is being received.
type Slot struct {
	Part events.Part // the adapter sets Call, Tool and Meta; Parts sets Text and Args

	body  strings.Builder
	tail  string // bytes of an incomplete character
	owner *Assembly
}

// Open appends a part of the given kind: text, reasoning or tool_call.
func (a *Assembly) Open(kind events.PartKind) *Slot {
	s := &Slot{Part: events.Part{Kind: kind}, owner: a}
	a.slots = append(a.slots, s)
	return s
}

// Write appends a fragment, which may begin and end inside a character. The error is an [*Error] of kind malformed:
// the reply exceeds maxReplyBytes.
func (s *Slot) Write(fragment string) error {
	s.owner.size += len(fragment)
	if s.owner.size > maxReplyBytes {
		return &Error{Kind: KindMalformed, Message: fmt.Sprintf("reply is larger than %d bytes", maxReplyBytes)}
	}
	text := s.tail + fragment
	cut := len(text) - incomplete(text)
	s.tail = text[cut:]
	s.append(text[:cut])
	return nil
}

// append appends text and passes it to the sink.
func (s *Slot) append(text string) {
	if text == "" {
		return
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	s.body.WriteString(text)
	if s.Part.Kind != events.PartToolCall {
		s.owner.sink(Delta{Kind: s.Part.Kind, Text: text})
	}
}

// Parts ends the reply and returns its parts in the order in which they were opened. It leaves out empty text and
// reasoning without Meta. A call without arguments gets "{}".
func (a *Assembly) Parts() []events.Part {
	var parts []events.Part
	for _, s := range a.slots {
		s.append(s.tail)
		s.tail = ""
		p := s.Part
		switch {
		case p.Kind != events.PartToolCall:
			p.Text = s.body.String()
			if p.Text == "" && len(p.Meta) == 0 {
				continue
			}
		case strings.TrimSpace(s.body.String()) == "":
			p.Args = []byte("{}")
		default:
			p.Args = []byte(s.body.String())
		}
		parts = append(parts, p)
	}
	return parts
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
