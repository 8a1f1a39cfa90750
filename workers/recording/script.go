package recording

import "github.com/lash-go/lash/events"

// script is a conversation that is being read.
type script struct {
	conv   Conversation
	byID   openCalls[events.CallID]
	byTool openCalls[string]
	headed bool           // the first entry is the header of a pi file
	side   bool           // of a subagent
	ids    map[string]int // index in Entries by the entry's ID; the latest counts
	last   string         // ID of the latest entry that has one
	calls  map[int]int    // of replies that are open
}

func newScript(c Conversation) *script {
	return &script{
		conv: c, ids: map[string]int{}, calls: map[int]int{},
		byID: openCalls[events.CallID]{}, byTool: openCalls[string]{},
	}
}

// add appends e and resolves its references. A result is resolved by the call's ID, or with byTool by the tool's
// name.
func (s *script) add(e Entry, byTool bool) {
	e.Index = len(s.conv.Entries)
	switch {
	case e.Kind == EntryReply:
		s.openCalls(e.Index, e.Reply.Parts)
	case e.Kind == EntryResult && byTool:
		e.Result.resolve(s.byTool.take(e.Result.Tool))
	case e.Kind == EntryResult:
		e.Result.resolve(s.byID.take(e.Result.Call))
	}
	if e.ID != "" {
		_, known := s.ids[e.Parent]
		e.Jumps = e.Parent != s.last && (known || e.Parent == "")
		s.ids[e.ID], s.last = e.Index, e.ID
	}
	s.conv.Entries = append(s.conv.Entries, e)
}

func (s *script) openCalls(reply int, parts []events.Part) {
	for _, p := range parts {
		if p.Kind == events.PartToolCall {
			s.open(reply, p)
		}
	}
}

// extend adds a part to a reply.
func (s *script) extend(reply int, p events.Part) {
	r := &s.conv.Entries[reply].Reply
	r.Parts = append(r.Parts, p)
	if p.Kind == events.PartToolCall {
		s.open(reply, p)
	}
}

// open lets results find the newest call of a reply.
func (s *script) open(reply int, p events.Part) {
	index := s.calls[reply]
	s.calls[reply]++
	c := &recordedCall{reply: reply, index: index, id: p.Call, tool: p.Tool}
	s.byID.put(p.Call, c)
	s.byTool.put(p.Tool, c)
}

// lose counts something that the entries do not have.
func (s *script) lose(what string) {
	if s.conv.Lost == nil {
		s.conv.Lost = make(map[string]int)
	}
	s.conv.Lost[what]++
}

// resolve sets the call of r; c is nil for an orphan.
func (r *Result) resolve(c *recordedCall) {
	r.ReplyIndex, r.CallIndex = -1, -1
	if c == nil {
		return
	}
	r.ReplyIndex, r.CallIndex, r.Call = c.reply, c.index, c.id
	if r.Tool == "" {
		r.Tool = c.tool
	}
}
