package projector

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

// TurnSource is the ledger source of a turn's own model calls.
const TurnSource = "turn"

// UserMessage is the default id of a turn's first message.
func UserMessage(turn events.TurnID) events.MessageID {
	return events.MessageID("u-" + string(turn))
}

// ReplyMessage is the default id of a reply's message.
func ReplyMessage(turn events.TurnID, iteration int64) events.MessageID {
	return events.MessageID("a-" + string(turn) + "-" + strconv.FormatInt(iteration, 10))
}

// ResultMessage is the default id of a message of tool results.
func ResultMessage(turn events.TurnID, iteration int64) events.MessageID {
	return events.MessageID("r-" + string(turn) + "-" + strconv.FormatInt(iteration, 10))
}

// NoticeMessage is the default id of the message about the turn limit.
func NoticeMessage(turn events.TurnID) events.MessageID {
	return events.MessageID("n-" + string(turn))
}

func (s *State) applyRequested(id events.TurnID, p *events.TurnRequested, at events.Millis) {
	q := QueuedTurn{ID: id, Input: p.Input, RequestedAt: at, Root: p.Root, Switches: p.Switches, Busy: p.Busy, Behind: p.Behind, Seq: s.Seq, Callers: p.Callers, Trace: p.Trace}
	if due, ok := s.unschedule(id); ok {
		q.Seq, q.Callers = due.Seq, withNames(due.Callers, p.Callers...)
		if q.Trace.IsZero() {
			q.Trace = due.Trace
		}
	}
	place := len(s.Queue)
	switch {
	case p.Switches > 0:
		place = 0
	case p.Busy == events.BusyInterrupt:
		place = 0
		for place < len(s.Queue) && (s.Queue[place].Switches > 0 || s.Queue[place].Busy == events.BusyInterrupt) {
			place++
		}
	}
	if place == len(s.Queue) {
		s.Queue = append(s.Queue, q) // clones have clipped slices
		return
	}
	s.Queue = slices.Concat(s.Queue[:place], []QueuedTurn{q}, s.Queue[place:])
}

func (s *State) applyStarted(id events.TurnID, p *events.TurnStarted, at events.Millis) {
	if t := s.Turn(); t != nil && t.ID == id {
		t.Attempt, t.Worker, t.Points, t.ClaimedAt = p.Attempt, p.Worker, p.Points, at
		t.Starts++
		s.Worker = p.Worker
		return
	}
	if len(s.Run) > 0 {
		return
	}
	q, ok := s.dequeue(id)
	if !ok {
		return
	}
	s.Turns++
	s.Worker = p.Worker
	s.Run = []Turn{{
		ID: id, Index: s.Turns, Input: q.Input, Attempt: p.Attempt, Worker: p.Worker, Starts: 1, Seq: q.Seq,
		RequestedAt: q.RequestedAt, StartedAt: at, ClaimedAt: at, Root: q.Root, Switches: q.Switches, Base: s.Leaf, Points: p.Points, Callers: withNames(nil, q.Callers...),
		Trace: q.Trace, Since: at, Environment: s.Config.Environment,
	}}
	if !q.Input.Continue {
		s.appendMessage(events.Message{
			ID: cmp.Or(p.Message, UserMessage(id)), Role: events.RoleUser, Parts: inputParts(q.Input),
		}, id, at)
	}
}

// withNames returns a sorted list with names added. It does not change list.
func withNames(list []string, names ...string) []string {
	list = append(slices.Clone(list), names...)
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(name string) bool { return name == "" })
}

// inputParts drops empty texts. Without other parts it returns one empty text part.
func inputParts(in events.TurnInput) []events.Part {
	parts := make([]events.Part, 0, len(in.Parts))
	for _, p := range in.Parts {
		if p.Kind != events.PartText || p.Text != "" || !p.Blob.IsZero() {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, events.Part{Kind: events.PartText})
	}
	return parts
}

// running returns the running turn if it has this id, otherwise nil.
func (s *State) running(id events.TurnID) *Turn {
	if t := s.Turn(); t != nil && t.ID == id {
		return t
	}
	return nil
}

// progressed resets the count of the running turn's attempts.
func (s *State) progressed(id events.TurnID) {
	if t := s.running(id); t != nil {
		t.Starts = 0
	}
}

func (s *State) applyCancel(id events.TurnID, p *events.TurnCancelRequested) {
	if t := s.running(id); t != nil {
		if !t.Cancelled {
			t.Cancelled, t.Cancel = true, *p
		}
		return
	}
	for i := range s.Queue {
		if s.Queue[i].ID == id && !s.Queue[i].Cancelled {
			queue := slices.Clone(s.Queue)
			queue[i].Cancelled, queue[i].Cancel = true, *p
			s.Queue = queue
		}
	}
	for i := range s.Scheduled {
		if s.Scheduled[i].ID == id { // ends in the same commit
			s.Scheduled = slices.Clone(s.Scheduled)
			s.Scheduled[i].Cancel = *p
		}
	}
}

func (s *State) applyReplied(id events.TurnID, p *events.ModelReplied, at events.Millis) {
	t := s.running(id)
	if t == nil || t.Replied || p.Iteration != t.Iteration {
		return
	}
	s.charge(TurnSource, p.Model, p.Cost())
	t.Usage = t.Usage.Add(p.Cost())
	s.Prompted = p.Usage.Input + p.Usage.CacheRead + p.Usage.CacheWrite
	t.Replied, t.Calls, t.Since = true, nil, at
	t.Primed, t.Gated, t.Asks, t.Nested, t.Resolved = false, false, nil, nil, nil
	for i := range p.Parts {
		if c := &p.Parts[i]; c.Kind == events.PartToolCall {
			t.Calls = append(t.Calls, Call{ID: c.Call, Tool: c.Tool, Args: c.Args, Blob: c.Blob})
		}
	}
	t.ToolCalls += int64(len(t.Calls))
	if len(p.Parts) > 0 {
		m := events.Message{ID: cmp.Or(p.Message, ReplyMessage(id, p.Iteration)), Role: events.RoleAssistant, Parts: p.Parts}
		if p.Stop != events.StopEnd && p.Stop != events.StopToolUse {
			m.Stop = p.Stop
		}
		s.appendMessage(m, id, at)
	}
	switch {
	case p.Fault != "":
		t.Faults++
	case len(t.Calls) == 0:
		t.Faults = 0
	}
	if len(t.Calls) == 0 {
		t.Iteration, t.Replied = t.Iteration+1, false
	}
}

// applyFailed switches to a fallback. Without one, a turn.completed in the same commit ends the turn.
func (s *State) applyFailed(id events.TurnID, p *events.ModelFailed, at events.Millis) {
	if t := s.running(id); t != nil && !t.Replied && p.Iteration == t.Iteration && !p.Fallback.IsZero() {
		t.Fallback, t.Since = p.Fallback, at
	}
}

func (s *State) applyInterrupted(id events.TurnID, p *events.ModelInterrupted) {
	if t := s.running(id); t != nil && !t.Replied && p.Iteration == t.Iteration {
		s.charge(TurnSource, p.Model, p.Usage)
		t.Usage = t.Usage.Add(p.Usage)
	}
}

func (s *State) charge(source, model string, u events.Usage) {
	if u.IsZero() {
		return
	}
	i, found := slices.BinarySearchFunc(s.Ledger, LedgerEntry{Source: source, Model: model}, func(a, b LedgerEntry) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Model, b.Model))
	})
	if !found {
		s.Ledger = slices.Insert(s.Ledger, i, LedgerEntry{Source: source, Model: model})
	}
	s.Ledger[i].Usage = s.Ledger[i].Usage.Add(u)
}

func (s *State) applyCalled(id events.TurnID, p *events.ToolCalled) {
	t := s.running(id)
	if t == nil || !t.Replied || p.Iteration != t.Iteration {
		return
	}
	for i, c := range p.Calls {
		if c < int64(len(t.Calls)) {
			t.Calls[c].Called = true
			if len(p.Holders) > 0 {
				t.Calls[c].Holder, t.Calls[c].Term = p.Holders[i], ""
			}
			if len(p.Terms) > 0 {
				t.Calls[c].Term = p.Terms[i]
			}
		}
	}
}

func (s *State) applyReturned(id events.TurnID, p *events.ToolReturned, at events.Millis) {
	t := s.running(id)
	if t == nil || !t.Replied || p.Iteration != t.Iteration {
		return
	}
	for _, r := range p.Results {
		if r.Call < int64(len(t.Calls)) && !t.Calls[r.Call].Done {
			t.Calls[r.Call].Done, t.Calls[r.Call].Result, t.Calls[r.Call].At = true, r, at
		}
	}
	s.finishCalls(t, p.Message, at)
}

// LostText is the model's text for the result of a lost call.
const LostText = "[lost] The call was begun and its worker died. It may or may not have taken effect. It was not repeated."

func (s *State) applyLost(id events.TurnID, p *events.ToolLost, at events.Millis) {
	t := s.running(id)
	if t == nil || !t.Replied || p.Iteration != t.Iteration {
		return
	}
	for _, c := range p.Calls {
		if c < int64(len(t.Calls)) && !t.Calls[c].Done {
			t.Calls[c].Done, t.Calls[c].At = true, at
			t.Calls[c].Result = events.ToolResult{Call: c, Outcome: events.OutcomeLost, Text: LostText}
		}
	}
	s.finishCalls(t, p.Message, at)
}

// finishCalls adds the message of results after the last call has one, and starts the next iteration.
func (s *State) finishCalls(t *Turn, id events.MessageID, at events.Millis) {
	parts := make([]events.Part, 0, len(t.Calls))
	for i := range t.Calls {
		c := &t.Calls[i]
		if !c.Done {
			return
		}
		parts = append(parts, events.Part{
			Kind: events.PartToolResult, Call: c.ID, Tool: c.Tool,
			Text: c.Result.Text, Blob: c.Result.Blob, Outcome: c.Result.Outcome,
		})
		parts = append(parts, c.Result.Attachments...)
	}
	s.appendMessage(events.Message{
		ID: cmp.Or(id, ResultMessage(t.ID, t.Iteration)), Role: events.RoleUser, Parts: parts,
	}, t.ID, at)
	t.Iteration, t.Replied, t.Calls, t.Since = t.Iteration+1, false, nil, at
}

func (s *State) applyCompleted(id events.TurnID, p *events.TurnCompleted, at events.Millis) {
	record := TurnRecord{ID: id, End: p.End, Issue: p.Issue, Tool: p.Tool, Call: p.Call, CompletedAt: at, Seq: s.Seq, Protocol: s.Config.Protocol}
	var cancel events.TurnCancelRequested
	var input *events.TurnInput
	if t := s.running(id); t != nil {
		if p.Notice != "" {
			text := fmt.Sprintf("turn limit reached (%d)", s.Config.MaxIterations)
			s.appendMessage(events.Message{ID: p.Notice, Role: events.RoleSystem, Parts: []events.Part{{Kind: events.PartText, Text: text}}}, id, at)
		}
		record.Index, record.Attempts, record.Usage = t.Index, t.Attempt, t.Usage
		record.ModelCalls, record.ToolCalls = t.Iteration, t.ToolCalls
		record.RequestedAt, record.StartedAt, record.Asked = t.RequestedAt, t.StartedAt, t.Seq
		input, cancel = &t.Input, t.Cancel
		record.Callers, s.Callers = strings.Join(t.Callers, " "), t.Callers
		s.Run = nil
	} else if q, ok := s.dequeue(id); ok {
		record.RequestedAt, record.Asked = q.RequestedAt, q.Seq
		input, cancel = &q.Input, q.Cancel
	} else if due, ok := s.unschedule(id); ok {
		record.RequestedAt, record.Asked = due.Asked, due.Seq
		input, cancel = &due.Input, due.Cancel
	} else {
		return
	}
	if p.End == events.EndCancelled {
		record.Cancel = cancel
	}
	s.recordTurn(record, input)
}

func (s *State) applyAnnounced(id events.TurnID, p *events.TurnAnnounced) {
	i := slices.IndexFunc(s.Unnotified, func(n Notice) bool { return n.Turn == id })
	switch {
	case i < 0:
		s.Unnotified = append(slices.Clip(s.Unnotified), Notice{Turn: id, Worker: p.Worker})
	case s.Unnotified[i].Worker == "":
		s.Unnotified = slices.Clone(s.Unnotified)
		s.Unnotified[i].Worker = p.Worker
	}
}

// notified removes what plugins and the parent were notified of.
func (s *State) notified(key NoticeKey) {
	s.Unnotified = slices.DeleteFunc(slices.Clone(s.Unnotified), func(n Notice) bool { return n.Key() == key })
}

// dequeue removes a turn from the queue.
func (s *State) dequeue(id events.TurnID) (QueuedTurn, bool) {
	i := slices.IndexFunc(s.Queue, func(q QueuedTurn) bool { return q.ID == id })
	if i < 0 {
		return QueuedTurn{}, false
	}
	q := s.Queue[i]
	switch {
	case len(s.Queue) == 1:
		s.Queue = nil
	case i == 0:
		s.Queue = s.Queue[1:]
	default:
		s.Queue = slices.Concat(s.Queue[:i], s.Queue[i+1:])
	}
	return q, true
}

func (s *State) applyDiverted(id events.TurnID, p *events.TurnDiverted, at events.Millis) {
	q, ok := s.dequeue(id)
	if !ok {
		return
	}
	if p.End == events.EndInjected {
		s.appendMessage(events.Message{
			ID: cmp.Or(p.Message, UserMessage(id)), Role: events.RoleUser, Parts: inputParts(q.Input),
		}, p.By, at)
		if t := s.running(p.By); t != nil {
			t.Callers = withNames(t.Callers, q.Callers...)
		}
	}
	s.recordTurn(TurnRecord{
		ID: id, End: p.End, By: p.By, Session: p.Session, RequestedAt: q.RequestedAt, CompletedAt: at, Seq: s.Seq, Asked: q.Seq,
	}, &q.Input)
}

// recordTurn records the end of a turn with an input.
func (s *State) recordTurn(record TurnRecord, input *events.TurnInput) {
	record.Leaf, record.Input = s.Leaf, InputDigest(*input)
	if input.Answers != "" && record.End != events.EndBranched { // else the turn of the other session answers
		s.Unnotified = append(slices.Clip(s.Unnotified), Notice{Turn: record.ID, Answers: input.Answers})
	}
	s.body.turns = append(s.body.turns, record)
	if s.body.index != nil {
		s.body.ended[record.ID] = &record
	}
}

// InputDigest identifies a turn's input, for idempotency.
func InputDigest(in events.TurnInput) string { return encodedDigest(in) }
