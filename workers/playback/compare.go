package playback

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
}

func (i item) String() string {
	return fmt.Sprintf("%s %s%s %q", i.kind, i.name, i.id, events.Clip(i.text, 120, "…"))
}

// want is a recorded item.
type want struct {
	item
	line int
	// partial is the turn of an aborted reply. The history has the streamed part, unless the process died, which the
	// turn's attempts show.
	partial events.TurnID
	mayLose bool // a result; the history may have a lost call in its place
}

// matches reports whether the history has the item, or a lost call where one may be lost.
func (w *want) matches(got item) bool {
	lost := item{kind: w.kind, id: w.id, name: string(events.OutcomeLost), text: got.text}
	return w.item == got || w.mayLose && lost == got
}

// forgiveLost marks the results of calls that may be lost.
func forgiveLost(list []want, tools map[string]bool) {
	calls := make(map[string]bool)
	for i := range list {
		switch list[i].kind {
		case "call":
			calls[list[i].id] = tools[list[i].name]
		case "result":
			list[i].mayLose = calls[list[i].id]
		}
	}
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
	expected := expectedItems(plan)
	forgiveLost(expected, plan.MayLose)
	for _, nodes := range []bool{false, true} {
		if line, reason := compareItems(nodes, expected, history, attempts); reason != "" {
			return plan.differs(line, reason), nil
		}
	}
	return compareEnds(plan, records), nil
}

func (p *Plan) differs(line int, reason string) *Difference {
	return &Difference{Session: p.Session, File: p.Conv.File, Line: line, reason: reason}
}

// compareItems compares nodes, or else messages: a node that was recorded inside a turn is in the history at the next boundary.
func compareItems(nodes bool, list []want, got []item, attempts map[events.TurnID]int64) (line int, reason string) {
	other := func(i item) bool { return (i.kind == "node" || i.kind == "summary") != nodes }
	got = slices.DeleteFunc(slices.Clone(got), other)
	for i := range list {
		w := &list[i]
		switch {
		case other(w.item):
		case len(got) > 0 && w.matches(got[0]):
			got = got[1:]
		case w.partial != "" && attempts[w.partial] > 1:
		case len(got) == 0:
			return w.line, fmt.Sprintf("recorded %v is missing", w)
		default:
			return w.line, fmt.Sprintf("recorded %v, the history has %v", w, got[0])
		}
	}
	if len(got) > 0 {
		return 0, fmt.Sprintf("the history has %v beyond the recording", got[0])
	}
	return 0, ""
}

// History is a history and what reads its bodies.
type History struct {
	State *projector.State
	Blobs blob.Store
}

// Unlike returns the first difference between the conversations of two histories: their messages, reasoning, calls, results
// and attachments, on all branches in the order of the log. It ignores ids, times and turns. Equal ones give "". The error is
// of reading.
func Unlike(ctx context.Context, a, b History) (string, error) {
	left, err := historyItems(ctx, a.Blobs, a.State)
	right, wrong := historyItems(ctx, b.Blobs, b.State)
	if err = errors.Join(err, wrong); err != nil {
		return "", err
	}
	list := make([]want, len(left))
	for i := range left {
		list[i].item = left[i]
	}
	_, reason := compareItems(false, list, right, nil)
	return reason, nil
}

func compareEnds(plan *Plan, records []projector.TurnRecord) *Difference {
	for i := range plan.Steps {
		t := plan.Steps[i].Turn
		if t == nil {
			continue
		}
		line := plan.line(&plan.Steps[i])
		if len(records) == 0 || records[0].ID != t.ID {
			return plan.differs(line, fmt.Sprintf("turn %s is missing", t.ID))
		}
		if r := &records[0]; r.End != t.end {
			return plan.differs(line, fmt.Sprintf("turn %s was recorded as %s, the history says %s %s", t.ID, t.end, r.End, r.Issue.Code))
		}
		records = records[1:]
	}
	if len(records) > 0 {
		return plan.differs(0, fmt.Sprintf("turn %s is beyond the recording", records[0].ID))
	}
	return nil
}

// expectedItems flattens a recording. It uses the plan only to find the turn of an aborted reply. Results follow
// their reply in call order; late results are at the position of their entry.
func expectedItems(plan *Plan) (list []want) {
	aborted := make(map[int]events.TurnID)
	for _, t := range plan.Turns {
		for _, r := range t.Replies {
			if r.hang {
				aborted[r.entry] = t.ID
			}
		}
	}
	add := func(line int, partial events.TurnID, items ...item) {
		for _, i := range items {
			list = append(list, want{item: i, line: line, partial: partial})
		}
	}
	conv := plan.Conv
	for i := range conv.Entries {
		e := &conv.Entries[i]
		switch e.Kind {
		case recording.EntrySystem, recording.EntryUser, recording.EntryContext:
			if e.Kind == recording.EntrySystem || !isBlank(e.Message.Parts) {
				add(e.Line, "", messageItems(string(e.Message.Role), e.Message.Parts)...)
			}
		case recording.EntryReply:
			if len(e.Reply.Parts) > 0 { // an empty reply adds no message; the comparison of the turn's end covers it
				add(e.Line, aborted[i], messageItems(string(events.RoleAssistant), e.Reply.Parts)...)
			}
			results := resultsOf(conv, i)
			for n, call := range callParts(e.Reply.Parts) {
				if r := results[n]; r != nil {
					add(r.Line, "", resultItems(call.Call, &r.Result)...)
				} else { // cancelled
					add(e.Line, aborted[i], item{kind: "result", id: string(call.Call), name: string(events.OutcomeCancelled)})
				}
			}
		case recording.EntryResult:
			if !inTime(conv, i) {
				add(e.Line, "", resultItems(e.Result.Call, &e.Result)...)
			}
		case recording.EntryShell, recording.EntryOther:
			add(e.Line, "", item{kind: "node", name: "pi." + e.Type, text: string(e.Raw)})
		case recording.EntryCompaction:
			add(e.Line, "", item{kind: "summary", text: e.Compaction.Summary})
		case recording.EntryConfig:
		}
	}
	return list
}

// messageItems are the text of a message and each of its other parts.
func messageItems(role string, parts []events.Part) []item {
	list := []item{{kind: role}}
	for _, p := range parts {
		switch p.Kind {
		case events.PartText:
			list[0].text += p.Text
		case events.PartReasoning:
			list = append(list, item{kind: "reasoning", text: p.Text})
		case events.PartToolCall:
			list = append(list, item{kind: "call", id: string(p.Call), name: p.Tool, text: string(p.Args)})
		case events.PartAttachment:
			list = append(list, item{kind: "attachment", name: p.MediaType, text: p.Text + string(p.Meta)})
		case events.PartToolResult:
		}
	}
	return list
}

// resultItems are a result and its attachments.
func resultItems(call events.CallID, r *recording.Result) []item {
	outcome := events.OutcomeSuccess
	if r.Failed {
		outcome = events.OutcomeFailure
	}
	attached := messageItems("", r.Attachments)
	attached[0] = item{kind: "result", id: string(call), name: string(outcome), text: r.Text}
	return attached
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
		return messageItems(string(m.Role), m.Parts)
	}
	var list []item
	for _, p := range m.Parts {
		if p.Kind == events.PartAttachment {
			list = append(list, messageItems("", []events.Part{p})[1])
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
