package recording

import (
	"slices"

	"github.com/lash-go/lash/events"
)

// script is a conversation that is being read.
type script struct {
	conv   Conversation
	open   []openCall     // calls without a result
	calls  map[int]int    // number of calls by the index of their reply
	headed bool           // the first entry is the header of a pi file
	side   bool           // of a subagent
	ids    map[string]int // index in Entries by the entry's ID; the latest counts
	last   string         // ID of the latest entry that has one
}

// openCall is a call without a result.
type openCall struct {
	reply int // index in Entries
	index int // among the reply's tool_call parts
	id    events.CallID
	tool  string
}

func newScript(c Conversation) *script {
	c.Lost = make(map[string]int)
	return &script{conv: c, ids: make(map[string]int), calls: make(map[int]int)}
}

// add appends e and resolves its references. A result is resolved by the call's ID.
func (s *script) add(e Entry) {
	if e.Kind == EntryResult {
		s.resolve(&e.Result, func(c openCall) bool { return c.id == e.Result.Call })
	}
	s.append(e)
}

// append appends an entry whose result is resolved.
func (s *script) append(e Entry) {
	e.Index = len(s.conv.Entries)
	if e.ID != "" {
		_, known := s.ids[e.Parent]
		e.Jumps = e.Parent != s.last && (known || e.Parent == "")
		s.ids[e.ID], s.last = e.Index, e.ID
	}
	s.conv.Entries = append(s.conv.Entries, e)
	for _, p := range e.Reply.Parts {
		s.called(e.Index, p)
	}
}

// extend adds parts to a reply.
func (s *script) extend(reply int, parts ...events.Part) {
	r := &s.conv.Entries[reply].Reply
	r.Parts = append(r.Parts, parts...)
	for _, p := range parts {
		s.called(reply, p)
	}
}

// called lets results find a call, which is the newest of its reply.
func (s *script) called(reply int, p events.Part) {
	if p.Kind == events.PartToolCall {
		s.open = append(s.open, openCall{reply: reply, index: s.calls[reply], id: p.Call, tool: p.Tool})
		s.calls[reply]++
	}
}

// resolve finds the call of a result: in the latest reply that has such a call without a result, the first one. There may be none.
func (s *script) resolve(r *Result, is func(openCall) bool) {
	r.ReplyIndex, r.CallIndex = -1, -1
	at := -1
	for i, c := range slices.Backward(s.open) {
		if at >= 0 && c.reply != s.open[at].reply {
			break
		}
		if is(c) {
			at = i
		}
	}
	if at < 0 {
		return
	}
	c := s.open[at]
	s.open = slices.Delete(s.open, at, at+1)
	r.ReplyIndex, r.CallIndex, r.Call = c.reply, c.index, c.id
	if r.Tool == "" {
		r.Tool = c.tool
	}
}
