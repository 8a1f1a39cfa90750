package chat

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
)

// Recent shows the last messages of the conversation and the pending questions, for a chat that joins a session. limit
// is the number of messages.
func (v *View) Recent(limit int) ([]Line, error) {
	path, err := v.s.Path()
	if err != nil {
		return nil, err
	}
	v.out = nil
	if left := len(path) - limit; left > 0 {
		v.emit(noted(Note, "(%d earlier messages)", left))
		path = path[left:]
	}
	for i, n := range path {
		if n.Kind == events.NodeMessage {
			v.message(&n.Message, v.caller(n))
		}
		if last := i == len(path)-1 || path[i+1].Turn != n.Turn; last && n.Turn != "" {
			v.ending(n.Turn)
		}
	}
	for _, q := range v.s.UnansweredApprovals() {
		v.asked(&q, "")
	}
	return v.out, nil
}

// ending shows how a turn without an answer ended. Its partial reply is only in the history.
func (v *View) ending(turn events.TurnID) {
	r, err := v.s.Record(turn)
	if err != nil || r == nil || !r.End.Stopped() || r.By != "" { // a diverted turn continues elsewhere
		return
	}
	why := strings.TrimSpace(r.Issue.Code + " " + r.Issue.Message)
	v.emit(noted(Note, "(turn %s ended: %s%s; lash-replay show has its partial reply, if any)", turn, r.End, because(why)))
}

// caller is the caller that requested the message's turn with it. It is empty for other messages of the turn: plugins
// and other callers may have added them.
func (v *View) caller(n *projector.Node) string {
	if n.Message.ID != projector.UserMessage(n.Turn) {
		return ""
	}
	if t := v.s.Turn(); t != nil && t.ID == n.Turn && len(t.Callers) > 0 {
		return t.Callers[0]
	}
	if r, err := v.s.Record(n.Turn); err == nil && r != nil {
		return r.Callers
	}
	return ""
}

// message shows a recorded message of the conversation.
func (v *View) message(m *events.Message, caller string) {
	if m.Role == events.RoleAssistant {
		v.thought(m.Parts)
		v.emit(linesOf(Reply, textOf(m.Parts))...)
	} else if text := textOf(m.Parts); text != "" {
		v.said(cmp.Or(caller, m.Origin, string(m.Role)), text)
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind { //nolint:exhaustive // texts are shown above
		case events.PartToolCall:
			v.emit(noted(Call, "%s %s", p.Tool, v.plain(packed(p.Args), 1, argsBytes)))
		case events.PartToolResult:
			v.emit(noted(Result, "%s: %s", strings.TrimSpace(p.Tool+" "+string(p.Outcome)), v.plain(p.Text, 1, resultBytes)))
		}
	}
}

func (v *View) plain(text string, lines, limit int) string {
	if v.opts.Full {
		return text
	}
	return clip(text, lines, limit, v.more("lash-replay show has all"))
}

// Place is a message of the conversation that /branch can return to.
type Place struct {
	Node events.NodeID
	Text string // its beginning, escaped
}

// speaker is the author of a message. Tool results have the user's role in a conversation.
func speaker(m *events.Message) string {
	results := func(p events.Part) bool { return p.Kind == events.PartToolResult }
	if len(m.Parts) > 0 && !slices.ContainsFunc(m.Parts, func(p events.Part) bool { return !results(p) }) {
		return "tool"
	}
	return string(m.Role)
}

// Places are the messages of the active path, oldest first.
func (v *View) Places() ([]Place, error) {
	path, err := v.s.Path()
	if err != nil {
		return nil, err
	}
	list := make([]Place, 0, len(path))
	for _, n := range path {
		said := string(n.Kind)
		if n.Kind == events.NodeMessage {
			said = speaker(&n.Message) + ": " + clip(beginning(n.Message.Parts), 1, 60, "…")
		}
		list = append(list, Place{n.ID, transcript.VisibleLine(said)})
	}
	return list, nil
}

// beginning is a message's text. A message without text is described by the calls that it makes or answers.
func beginning(parts []events.Part) string {
	text := textOf(parts)
	if strings.TrimSpace(text) != "" {
		return text
	}
	var list []string
	for i := range parts {
		switch p := &parts[i]; p.Kind { //nolint:exhaustive // the others are no calls
		case events.PartToolCall:
			list = append(list, "calls "+p.Tool)
		case events.PartToolResult:
			list = append(list, "result of "+p.Tool)
		}
	}
	return strings.Join(list, ", ")
}
