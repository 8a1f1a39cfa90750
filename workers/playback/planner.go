package playback

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/recording"
)

// NewPlan plans a conversation for a session of the given id.
func NewPlan(id events.SessionID, conv *recording.Conversation) *Plan {
	p := &planner{
		plan:  &Plan{Session: id, Conv: conv, Turns: make(map[events.TurnID]*Turn)},
		leafs: make(map[int]events.NodeID), own: make(map[int]events.NodeID),
		byID: make(map[string]int),
	}
	for i := range conv.Entries {
		p.entry(&conv.Entries[i])
	}
	p.cut()
	return p.plan
}

type planner struct {
	plan  *Plan
	turn  *Turn                 // the open turn
	began int                   // entry that opened it
	wait  []action              // entries of the open turn before its next reply
	leaf  events.NodeID         // after the previous entry
	leafs map[int]events.NodeID // leaf after each entry, by index
	own   map[int]events.NodeID // node of each entry, by index
	byID  map[string]int
}

func (p *planner) entry(e *recording.Entry) {
	p.follow(e)
	switch e.Kind {
	case recording.EntrySystem:
		p.cut()
		p.act(action{entry: e.Index, node: messageNode(e.Index, e.Message)})
	case recording.EntryUser:
		p.user(e)
	case recording.EntryContext:
		if !isBlank(e.Message.Parts) {
			p.act(action{entry: e.Index, node: messageNode(e.Index, e.Message)})
		}
	case recording.EntryReply:
		p.reply(e)
	case recording.EntryResult:
		p.result(e)
	case recording.EntryConfig:
		if config := e.Config; config != (recording.Config{}) {
			p.act(action{entry: e.Index, config: &config})
		}
	case recording.EntryShell:
		p.node(e, events.NodePlugin)
	case recording.EntryOther:
		p.node(e, events.NodeProtocol)
	case recording.EntryCompaction:
		p.compaction(e)
	}
	p.leafs[e.Index] = p.leaf
	if e.ID != "" {
		p.byID[e.ID] = e.Index
	}
}

// follow branches if the parent of the entry is not the previous entry. Results in time have no place of their own.
func (p *planner) follow(e *recording.Entry) {
	if !e.Jumps || e.Kind == recording.EntryResult && inTime(p.plan.Conv, e.Index) {
		return
	}
	leaf := events.NodeID("")
	if parent, known := p.byID[e.Parent]; known {
		leaf = p.leafs[parent]
	}
	if leaf == p.leaf {
		return
	}
	p.cut()
	p.leaf = leaf
	p.plan.Steps = append(p.plan.Steps, Step{action: &action{entry: e.Index, branch: &leaf}})
}

// act adds an action: at once, or before the open turn's next reply.
func (p *planner) act(a action) {
	if a.node != nil || a.frame != nil {
		p.own[a.entry] = entryNode(a.entry)
		p.leaf = entryNode(a.entry)
	}
	if p.turn != nil {
		p.wait = append(p.wait, a)
		return
	}
	p.plan.Steps = append(p.plan.Steps, Step{action: &a})
}

func (p *planner) open(e *recording.Entry, in events.TurnInput) {
	p.turn = &Turn{ID: events.TurnID(fmt.Sprintf("t%04d", e.Index)), input: in}
	p.began = e.Index
	p.plan.Turns[p.turn.ID] = p.turn
	p.plan.Steps = append(p.plan.Steps, Step{Turn: p.turn})
}

// close ends the open turn. Entries that waited for its next reply follow it.
func (p *planner) close(end events.TurnEnd) {
	p.turn.end = end
	p.turn = nil
	wait := p.wait
	p.wait = nil
	for i := range wait {
		p.act(wait[i])
	}
}

// cut ends an open turn whose end is not recorded: the client cancels it.
func (p *planner) cut() {
	if p.turn == nil {
		return
	}
	p.turn.cancel = true
	if last := p.last(); last != nil {
		for _, c := range last.Calls {
			c.Hang = c.Result == nil
		}
		p.leaf = p.resultNode()
	}
	p.close(events.EndCancelled)
}

// last is the newest reply of the open turn.
func (p *planner) last() *Reply {
	if p.turn == nil || len(p.turn.Replies) == 0 {
		return nil
	}
	return p.turn.Replies[len(p.turn.Replies)-1]
}

// answered reports whether the open turn needs a model call after tool results.
func (p *planner) answered() bool {
	last := p.last()
	if last == nil || len(last.Calls) == 0 {
		return false
	}
	for _, c := range last.Calls {
		if c.Result == nil {
			return false
		}
	}
	return true
}

func (p *planner) user(e *recording.Entry) {
	if isBlank(e.Message.Parts) {
		return // another program took it as a prompt
	}
	inject := action{entry: e.Index, inject: &api.InjectRequest{ID: events.InputID(fmt.Sprintf("i%04d", e.Index)), Parts: e.Message.Parts}}
	if p.waitsForMessage() || p.isFull() {
		p.cut()
	}
	switch {
	case p.answered():
		call := p.last().Calls[0]
		call.Inject = append(call.Inject, inject)
		p.become(e.Index, events.NodeID("m_ingress_"+string(inject.inject.ID)))
		return
	case p.turn != nil && len(p.turn.Replies) == 0 && !p.turn.input.Continue:
		p.joinUsers(e)
	default:
		p.cut()
		p.open(e, events.TurnInput{Parts: e.Message.Parts})
	}
	p.become(e.Index, events.NodeID("u-"+string(p.turn.ID)))
}

// isBlank reports whether a message has nothing but white space, which is no prompt here.
func isBlank(parts []events.Part) bool {
	says := false
	for i := range parts {
		p := &parts[i]
		if p.Kind != events.PartText || !p.Blob.IsZero() || strings.TrimSpace(p.Text) != "" {
			return false
		}
		says = says || p.Text != ""
	}
	return says
}

// waitsForMessage reports whether a message waits for the open turn's next reply. An input of the turn would be before it.
func (p *planner) waitsForMessage() bool {
	return slices.ContainsFunc(p.wait, func(a action) bool { return a.node != nil && a.node.Message != nil })
}

// isFull reports whether the open turn's next checkpoint takes no more inputs.
func (p *planner) isFull() bool {
	switch {
	case p.turn == nil:
		return false
	case p.answered():
		return len(p.last().Calls[0].Inject) >= turn.MaxAccepted
	}
	return len(p.turn.before) >= turn.MaxAccepted
}

// become stores the node of an entry.
func (p *planner) become(entry int, node events.NodeID) { p.own[entry], p.leaf = node, node }

// joinUsers makes an earlier user message without a reply an input before this turn.
func (p *planner) joinUsers(e *recording.Entry) {
	old, began := p.turn, p.began
	delete(p.plan.Turns, old.ID)
	p.plan.Steps = p.plan.Steps[:len(p.plan.Steps)-1]
	wait := p.wait
	p.turn, p.wait = nil, nil
	for i := range wait {
		p.act(wait[i])
	}
	p.open(e, events.TurnInput{Parts: e.Message.Parts})
	id := events.InputID(fmt.Sprintf("i%04d", began))
	node := events.NodeID("m_ingress_" + string(id))
	p.own[began] = node
	for i := began; i < e.Index; i++ {
		if p.leafs[i] == events.NodeID("u-"+string(old.ID)) {
			p.leafs[i] = node
		}
	}
	p.turn.before = append(old.before, action{inject: &api.InjectRequest{ID: id, Parts: old.input.Parts}})
}

func (p *planner) reply(e *recording.Entry) {
	if last := p.last(); last != nil {
		for _, c := range last.Calls {
			if c.Result == nil {
				c.Hang = false // the conversation continued without its result
			}
		}
	}
	if p.turn == nil {
		p.open(e, events.TurnInput{Continue: true})
	}
	r := &Reply{entry: e.Index, before: p.wait, Response: llm.Response{
		Parts: e.Reply.Parts, Stop: e.Reply.Stop, Usage: e.Reply.Usage, Model: e.Reply.Model, Detail: e.Reply.Error, Accepted: true,
	}}
	p.wait = nil
	results := resultsOf(p.plan.Conv, e.Index)
	for i, part := range callParts(e.Reply.Parts) {
		call := &Call{}
		if result := results[i]; result != nil {
			call.Result = &result.Result
		}
		r.Calls = append(r.Calls, call)
		if !slices.Contains(p.plan.Tools, part.Tool) {
			p.plan.Tools = append(p.plan.Tools, part.Tool)
		}
	}
	iteration := len(p.turn.Replies)
	p.turn.Replies = append(p.turn.Replies, r)
	if r.Response.Stop == events.StopUnknown || r.Response.Stop == events.StopToolUse && len(r.Calls) == 0 {
		r.Response.Stop = events.StopEnd // the recorded agent took it as one
	}
	if len(e.Reply.Parts) > 0 {
		p.become(e.Index, events.NodeID(fmt.Sprintf("a-%s-%d", p.turn.ID, iteration)))
	}
	p.settle(r, len(results) > 0)
}

// settle decides how the turn continues after a reply. A reply with results was complete, however it is marked.
// Others end as marked.
func (p *planner) settle(r *Reply, acted bool) {
	if acted {
		r.Response.Stop = events.StopToolUse
		return // open: results follow
	}
	end := events.EndFinished
	switch r.Response.Stop {
	case events.StopCancelled:
		r.hang, p.turn.cancel, end = true, true, events.EndCancelled
	case events.StopOutputLimit:
		end = events.EndIncomplete
	case events.StopProviderError, events.StopContextOverflow, events.StopContentFilter:
		end = events.EndProviderError
	case events.StopEnd, events.StopToolUse, events.StopUnknown:
		if len(r.Calls) > 0 {
			return // open: cut ends it if no results follow
		}
		if strings.TrimSpace((events.Message{Parts: r.Response.Parts}).Text()) == "" {
			end = events.EndProviderError // an empty reply
		}
	}
	if len(r.Calls) > 0 {
		p.leaf = p.resultNode()
	}
	p.close(end)
}

func (p *planner) resultNode() events.NodeID {
	if last := p.last(); last != nil && len(last.Calls) > 0 {
		return events.NodeID(fmt.Sprintf("r-%s-%d", p.turn.ID, len(p.turn.Replies)-1))
	}
	return p.leaf
}

// result handles a result that is late or has no call. reply has attached the others.
func (p *planner) result(e *recording.Entry) {
	if inTime(p.plan.Conv, e.Index) {
		p.become(e.Index, p.resultNode())
		return
	}
	m := events.Message{Role: events.RoleUser, Parts: orphanParts(&e.Result)}
	p.act(action{entry: e.Index, node: messageNode(e.Index, m)})
}

func orphanParts(r *recording.Result) []events.Part {
	part := events.Part{Kind: events.PartToolResult, Call: r.Call, Tool: r.Tool, Text: r.Text}
	if r.Failed {
		part.Outcome = events.OutcomeFailure
	}
	return append([]events.Part{part}, r.Attachments...)
}

func (p *planner) node(e *recording.Entry, kind events.NodeKind) {
	p.act(action{entry: e.Index, node: &api.AppendNode{Kind: kind, ID: entryNode(e.Index), Type: "pi." + e.Type, Body: e.Raw}})
}

func (p *planner) compaction(e *recording.Entry) {
	summary := events.Message{
		ID: events.MessageID(entryNode(e.Index)), Role: events.RoleUser, Origin: "compaction",
		Parts: []events.Part{{Kind: events.PartText, Text: e.Compaction.Summary}},
	}
	frame := &api.FrameRequest{
		Frame: events.FrameID(fmt.Sprintf("f%04d", e.Index)), Reason: "compaction",
		Nodes: []api.AppendNode{{Message: &summary}},
	}
	a := action{entry: e.Index, frame: frame}
	for i := max(e.Compaction.FirstKept, 0); e.Compaction.FirstKept >= 0 && i < e.Index; i++ {
		if node := p.own[i]; node != "" {
			a.keep = append(a.keep, node)
		}
	}
	p.act(a)
}

func entryNode(index int) events.NodeID { return events.NodeID(fmt.Sprintf("e%04d", index)) }

func messageNode(index int, m events.Message) *api.AppendNode {
	m.ID = events.MessageID(entryNode(index))
	return &api.AppendNode{Message: &m}
}

func callParts(parts []events.Part) []events.Part {
	var calls []events.Part
	for _, p := range parts {
		if p.Kind == events.PartToolCall {
			calls = append(calls, p)
		}
	}
	return calls
}

// resultsOf finds the results of a reply's calls that are in time: before any other message, and on the same branch. The
// results may all have the reply as their parent. The key is the position of the call.
func resultsOf(conv *recording.Conversation, reply int) map[int]*recording.Entry {
	found := make(map[int]*recording.Entry)
	for i := reply + 1; i < len(conv.Entries); i++ {
		e := &conv.Entries[i]
		if e.Jumps && !isSince(conv.Entries[reply:i], e) {
			break
		}
		switch e.Kind {
		case recording.EntryUser, recording.EntryReply, recording.EntrySystem:
			return found
		case recording.EntryResult:
			if r := &e.Result; r.ReplyIndex == reply && found[r.CallIndex] == nil {
				found[r.CallIndex] = e
			}
		case recording.EntryConfig, recording.EntryContext, recording.EntryShell, recording.EntryCompaction, recording.EntryOther:
		}
	}
	return found
}

// isSince reports whether e is a result of the first of the entries, and one of them is its parent.
func isSince(list []recording.Entry, e *recording.Entry) bool {
	return e.Kind == recording.EntryResult && e.Parent != "" && e.Result.ReplyIndex == list[0].Index &&
		slices.ContainsFunc(list, func(other recording.Entry) bool { return other.ID == e.Parent })
}

// inTime reports whether the result at index is one of [resultsOf] its reply.
func inTime(conv *recording.Conversation, index int) bool {
	e := &conv.Entries[index]
	return !e.Result.Orphan() && resultsOf(conv, e.Result.ReplyIndex)[e.Result.CallIndex] == e
}
