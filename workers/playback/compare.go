package playback

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/workers/recording"
)

// Difference is the first point at which a history differs from its recording.
type Difference struct {
	Session events.SessionID
	File    string
	Line    int // of the recording; 0 if the history has further items after its end
	reason  string
}

func (d *Difference) Error() string {
	return fmt.Sprintf("%s:%d: session %s: %s", d.File, d.Line, d.Session, d.reason)
}

// item is one unit of the comparison: the text of a message, reasoning, a call, a result.
type item struct {
	kind string // role of a message, or "reasoning", "call", "result", "attachment", "node", "summary"
	id   string // of calls and results
	name string // tool of a call, or type of a node
	text string
	line int
	// partial is the turn of an aborted reply. The history has the streamed part, unless the process died, which the
	// turn's attempts show.
	partial events.TurnID
	mayLose bool // a result; the history may have a lost call in its place
}

func (i item) String() string {
	text := []rune(i.text)
	if len(text) > 120 {
		text = append(text[:120:120], []rune(fmt.Sprintf("… (+%d)", len(text)-120))...)
	}
	return fmt.Sprintf("%s %s%s %q", i.kind, i.name, i.id, string(text))
}

// isLost reports whether i may be lost and j is a lost result of the same call.
func (i item) isLost(j item) bool {
	return i.mayLose && j.kind == i.kind && j.id == i.id && j.name == string(events.OutcomeLost)
}

// forgiveLost marks the results of calls that may be lost.
func forgiveLost(items []item, tools map[string]bool) {
	calls := make(map[string]bool)
	for i := range items {
		switch items[i].kind {
		case "call":
			calls[items[i].id] = tools[items[i].name]
		case "result":
			items[i].mayLose = calls[items[i].id]
		}
	}
}

func (i item) same(j item) bool {
	return i.kind == j.kind && i.id == j.id && i.name == j.name && i.text == j.text
}

// Compare compares a finished history with its recording: every message, and the end of every turn. nil means equal.
// The error is of reading.
func Compare(ctx context.Context, blobs blob.Store, plan *Plan, s *projector.State) (*Difference, error) {
	history, err := historyItems(ctx, blobs, s)
	if err != nil {
		return nil, err
	}
	records, err := s.Records()
	if err != nil {
		return nil, err
	}
	attempts := make(map[events.TurnID]int64)
	for i := range records {
		attempts[records[i].ID] = records[i].Attempts
	}
	differ := func(line int, format string, args ...any) *Difference {
		return &Difference{Session: plan.Session, File: plan.Conv.File, Line: line, reason: fmt.Sprintf(format, args...)}
	}
	want := expectedItems(plan)
	forgiveLost(want, plan.MayLose)
	for _, lane := range []string{"message", "node"} {
		if line, reason := compareItems(lane, want, history, attempts); reason != "" {
			return differ(line, "%s", reason), nil
		}
	}
	return compareEnds(plan, records, differ), nil
}

// compareItems compares one lane. Nodes and messages are separate lanes: a node that was recorded inside a turn is in
// the history at the next boundary.
func compareItems(lane string, want, got []item, attempts map[events.TurnID]int64) (int, string) {
	want, got = inLane(want, lane), inLane(got, lane)
	j := 0
	for _, w := range want {
		if j < len(got) && w.same(got[j]) {
			j++
			continue
		}
		if j < len(got) && w.isLost(got[j]) {
			j++
			continue
		}
		if w.partial != "" && attempts[w.partial] > 1 {
			continue
		}
		if j == len(got) {
			return w.line, fmt.Sprintf("recorded %v is missing", w)
		}
		return w.line, fmt.Sprintf("recorded %v, the history has %v", w, got[j])
	}
	if j < len(got) {
		return 0, fmt.Sprintf("the history has %v beyond the recording", got[j])
	}
	return 0, ""
}

func inLane(items []item, lane string) []item {
	var list []item
	for _, i := range items {
		if (i.kind == "node" || i.kind == "summary") == (lane == "node") {
			list = append(list, i)
		}
	}
	return list
}

func compareEnds(plan *Plan, records []projector.TurnRecord, differ func(int, string, ...any) *Difference) *Difference {
	var turns []*Turn
	for i := range plan.Steps {
		if t := plan.Steps[i].Turn; t != nil {
			turns = append(turns, t)
		}
	}
	for i, t := range turns {
		line := plan.line(&Step{Turn: t})
		if i >= len(records) || records[i].ID != t.ID {
			return differ(line, "turn %s is missing", t.ID)
		}
		if records[i].End != t.end {
			return differ(line, "turn %s was recorded as %s, the history says %s %s", t.ID, t.end, records[i].End, records[i].Issue.Code)
		}
	}
	if len(records) > len(turns) {
		return differ(0, "turn %s is beyond the recording", records[len(turns)].ID)
	}
	return nil
}

// expectedItems flattens a recording. It uses the plan only to find the turn of an aborted reply. Results follow
// their reply in call order; late results are at the position of their entry.
func expectedItems(plan *Plan) []item {
	aborted := make(map[int]events.TurnID)
	for _, t := range plan.Turns {
		for _, r := range t.Replies {
			if r.hang {
				aborted[r.entry] = t.ID
			}
		}
	}
	var list []item
	conv := plan.Conv
	for i := range conv.Entries {
		e := &conv.Entries[i]
		switch e.Kind {
		case recording.EntrySystem, recording.EntryUser, recording.EntryContext:
			if e.Kind != recording.EntrySystem && isBlank(e.Message.Parts) {
				continue
			}
			list = append(list, messageItems(string(e.Message.Role), e.Message.Parts, e.Line, "")...)
		case recording.EntryReply:
			list = append(list, replyItems(conv, e, aborted[i])...)
		case recording.EntryResult:
			if !inTime(conv, i) {
				list = append(list, resultItems(e.Result.Call, &e.Result, e.Line, "")...)
			}
		case recording.EntryShell, recording.EntryOther:
			list = append(list, item{kind: "node", name: "pi." + e.Type, text: string(e.Raw), line: e.Line})
		case recording.EntryCompaction:
			list = append(list, item{kind: "summary", text: e.Compaction.Summary, line: e.Line})
		case recording.EntryConfig:
		}
	}
	return list
}

func replyItems(conv *recording.Conversation, e *recording.Entry, partial events.TurnID) []item {
	if len(e.Reply.Parts) == 0 {
		return nil // an empty reply adds no message; the comparison of the turn's end covers it
	}
	list := messageItems(string(events.RoleAssistant), e.Reply.Parts, e.Line, partial)
	results := resultsOf(conv, e.Index)
	for i, call := range callParts(e.Reply.Parts) {
		list = append(list, resultItems(call.Call, results[i], lineOf(conv, e, results[i]), partial)...)
	}
	return list
}

// lineOf is the line of a result, or else the line of its reply.
func lineOf(conv *recording.Conversation, reply *recording.Entry, r *recording.Result) int {
	for i := reply.Index + 1; r != nil && i < len(conv.Entries); i++ {
		if &conv.Entries[i].Result == r {
			return conv.Entries[i].Line
		}
	}
	return reply.Line
}

// messageItems are the text of a message and each of its other parts.
func messageItems(role string, parts []events.Part, line int, partial events.TurnID) []item {
	head := item{kind: role, line: line, partial: partial}
	var rest []item
	for _, p := range parts {
		switch p.Kind {
		case events.PartText:
			head.text += p.Text
		case events.PartReasoning:
			rest = append(rest, item{kind: "reasoning", text: p.Text, line: line, partial: partial})
		case events.PartToolCall:
			rest = append(rest, item{kind: "call", id: string(p.Call), name: p.Tool, text: string(p.Args), line: line, partial: partial})
		case events.PartAttachment:
			rest = append(rest, item{kind: "attachment", name: p.MediaType, text: p.Text + string(p.Meta), line: line, partial: partial})
		case events.PartToolResult:
		}
	}
	return append([]item{head}, rest...)
}

// resultItems is a result, or the cancellation of a call without one.
func resultItems(call events.CallID, r *recording.Result, line int, partial events.TurnID) []item {
	if r == nil {
		return []item{{kind: "result", id: string(call), name: string(events.OutcomeCancelled), line: line, partial: partial}}
	}
	outcome := events.OutcomeSuccess
	if r.Failed {
		outcome = events.OutcomeFailure
	}
	list := []item{{kind: "result", id: string(call), name: string(outcome), text: r.Text, line: line}}
	for _, p := range r.Attachments {
		list = append(list, item{kind: "attachment", name: p.MediaType, text: p.Text + string(p.Meta), line: line})
	}
	return list
}

// historyItems flattens a session's graph with all branches, in the order of the log.
func historyItems(ctx context.Context, blobs blob.Store, s *projector.State) ([]item, error) {
	nodes, err := s.AllNodes()
	if err != nil {
		return nil, err
	}
	var list []item
	for _, n := range nodes {
		if n.Kind != events.NodeMessage {
			body, err := blob.Body(ctx, blobs, n.Body, n.Blob)
			if err != nil {
				return nil, err
			}
			list = append(list, item{kind: "node", name: n.Type, text: string(body)})
			continue
		}
		filled, err := blob.Fill(ctx, blobs, []events.Message{n.Message})
		if err != nil {
			return nil, err
		}
		list = append(list, nodeItems(filled[0])...)
	}
	return list, nil
}

func nodeItems(m events.Message) []item {
	if m.Origin == "compaction" {
		return []item{{kind: "summary", text: m.Text()}}
	}
	if len(m.Parts) == 0 || m.Parts[0].Kind != events.PartToolResult {
		return messageItems(string(m.Role), m.Parts, 0, "")
	}
	var list []item
	for _, p := range m.Parts {
		if p.Kind == events.PartAttachment {
			list = append(list, item{kind: "attachment", name: p.MediaType, text: p.Text + string(p.Meta)})
			continue
		}
		i := item{kind: "result", id: string(p.Call), name: string(p.Outcome), text: p.Text}
		if p.Outcome == events.OutcomeCancelled {
			i.text = "" // this text is the runtime's own
		}
		list = append(list, i)
	}
	return list
}
