package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/lash-go/lash/events"
)

// Markdown writes a report of the active path for people. All texts are in code blocks: what a model wrote is no part of the
// report's own structure.
func Markdown(w io.Writer, d *Document) (*Losses, error) {
	r := newReport(d)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Session %s\n\n", d.Session)
	for _, f := range r.facts {
		fmt.Fprintf(&b, "- %s: %s\n", f[0], inline(f[1]))
	}
	for i := range r.blocks {
		k := &r.blocks[i]
		fmt.Fprintf(&b, "\n%s %s\n\n", strings.Repeat("#", k.level), inline(k.title))
		for _, note := range k.notes {
			fmt.Fprintf(&b, "%s\n\n", inline(note))
		}
		if k.body {
			fence := strings.Repeat("`", max(3, longest(k.text, '`')+1))
			fmt.Fprintf(&b, "%s%s\n%s\n%s\n", fence, k.language, visible(k.text), fence)
		}
	}
	_, err := w.Write(b.Bytes())
	return r.lost, err
}

// longest is the length of the longest run of a character.
func longest(s string, c rune) int {
	best, n := 0, 0
	for _, r := range s {
		if n++; r != c {
			n = 0
		}
		best = max(best, n)
	}
	return best
}

// inline is a text on one line in which no character has a meaning for Markdown or HTML.
func inline(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r < utf8Self && strings.ContainsRune("\\`*_{}[]<>()#+!|&~$^=", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(shown(r))
		}
	}
	return b.String()
}

const utf8Self = 0x80

// visible replaces control characters, and characters that change the direction of text, by their pictures or U+FFFD.
// Newlines and tabs stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return shown(r)
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func shown(r rune) rune {
	switch {
	case r < ' ':
		return 0x2400 + r // the control pictures
	case r == 0x7f:
		return 0x2421
	case unicode.Is(unicode.Cf, r) && r != 0x200d || unicode.IsControl(r), r == 0x2028, r == 0x2029:
		return unicode.ReplacementChar
	}
	return r
}

// report is what the Markdown and the HTML report show.
type report struct {
	facts  [][2]string
	blocks []block
	lost   *Losses
}

// block is a part of a report: a turn's title, a message, a call, a result, an event.
type block struct {
	class    string // "turn", "user", "assistant", "system", "reasoning", "call", "result", "event"
	level    int    // of the title
	title    string
	notes    []string
	text     string
	body     bool // it has a text, which may be empty
	language string
}

// Losses of reports.
const (
	lostBytes   = "bytes of attachments"
	lostDetails = "payloads of events: a report has the kinds of some"
)

func newReport(d *Document) *report {
	r := &report{lost: &Losses{}}
	r.fact("began", d.Began.Time().UTC().Format("2006-01-02 15:04:05Z"))
	r.fact("last commit", fmt.Sprintf("%d, %s", d.Commits, d.Ended.Time().UTC().Format("2006-01-02 15:04:05Z")))
	r.fact("owner", d.Owner)
	r.fact("child of", string(d.Parent))
	r.fact("model", strings.Trim(d.Config.Provider+" "+d.Config.Model, " "))
	r.fact("turns", fmt.Sprint(len(d.Turns)))
	turn := events.TurnID("")
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Turn != turn && e.Turn != "" && (e.Node != nil && e.Active || e.Reply != nil) {
			turn = e.Turn
			r.blocks = append(r.blocks, block{class: "turn", level: 2, title: "Turn " + string(turn)})
		}
		r.entry(e)
	}
	return r
}

func (r *report) fact(name, value string) {
	if value != "" {
		r.facts = append(r.facts, [2]string{name, value})
	}
}

func (r *report) entry(e *Entry) {
	switch {
	case e.Node != nil && !e.Active:
		r.lost.Add(lostBranches)
	case e.Node != nil && e.Node.Kind != events.NodeMessage:
		r.blocks = append(r.blocks, block{class: "event", level: 3, title: "Node " + e.Node.Type, text: string(e.Node.Body), body: true})
	case e.Node != nil:
		r.message(e)
	case e.Reply != nil:
		r.blocks = append(r.blocks, block{class: "assistant", level: 3, title: "Reply without content", notes: replyNotes(e.Reply)})
	default:
		r.event(e)
	}
}

func (r *report) message(e *Entry) {
	m := &e.Node.Message
	title := map[events.Role]string{events.RoleUser: "User", events.RoleAssistant: "Assistant", events.RoleSystem: "System"}[m.Role]
	if m.Origin != "" {
		title += ", by plugin " + m.Origin
	}
	notes := []string{e.At.Time().UTC().Format("2006-01-02 15:04:05Z")}
	if e.Reply != nil {
		notes = append(notes, replyNotes(e.Reply)...)
	}
	for i := range m.Parts {
		b := partBlock(&m.Parts[i], string(m.Role), title, r.lost)
		b.notes = append(notes, b.notes...)
		notes = nil
		r.blocks = append(r.blocks, b)
	}
}

func replyNotes(p *events.ModelReplied) []string {
	note := strings.TrimSpace(p.Provider + " " + p.Model)
	if !p.Usage.IsZero() {
		note += fmt.Sprintf(", %d tokens in, %d out", p.Usage.Input+p.Usage.CacheRead+p.Usage.CacheWrite, p.Usage.Output)
	}
	notes := []string{strings.TrimPrefix(note, ", ")}
	if p.Stop != events.StopEnd && p.Stop != events.StopToolUse {
		notes = append(notes, strings.TrimSuffix(fmt.Sprintf("ended: %s, %s", p.Stop, p.Detail), ", "))
	}
	return notes
}

func partBlock(p *events.Part, role, title string, lost *Losses) block {
	switch p.Kind {
	case events.PartReasoning:
		return block{class: "reasoning", level: 4, title: "Reasoning", text: p.Text, body: true}
	case events.PartToolCall:
		text, language := string(p.Args), ""
		var pretty bytes.Buffer
		if json.Indent(&pretty, p.Args, "", "  ") == nil {
			text, language = pretty.String(), "json"
		}
		return block{class: "call", level: 4, title: fmt.Sprintf("Call %s of %s", p.Call, p.Tool), text: text, body: true, language: language}
	case events.PartToolResult:
		b := block{class: "result", level: 4, title: fmt.Sprintf("Result of %s (%s)", p.Call, p.Tool), text: p.Text, body: true}
		if p.Outcome != events.OutcomeSuccess {
			b.notes = []string{"outcome: " + string(p.Outcome)}
		}
		return b
	case events.PartAttachment:
		lost.Add(lostBytes)
		return block{class: role, level: 4, title: "Attachment", notes: []string{fmt.Sprintf("%s, %d characters, not shown", p.MediaType, len(p.Text)+len(p.Meta))}}
	case events.PartText:
	}
	return block{class: role, level: 3, title: title, text: p.Text, body: true}
}

// event adds an event that a reader of the conversation needs.
func (r *report) event(e *Entry) {
	note, text := "", ""
	switch p := e.Event.Payload.(type) {
	case *events.TurnCompleted:
		note = "turn " + string(e.Turn) + " ended: " + string(p.End)
		text = p.Issue.Message
	case *events.TurnStarted:
		if p.Attempt == 1 {
			return
		}
		note = fmt.Sprintf("turn %s continues, attempt %d", e.Turn, p.Attempt)
	case *events.TurnCancelRequested:
		note, text = "turn "+string(e.Turn)+" is to be cancelled, by "+e.Actor.String(), p.Reason
	case *events.ToolApprovalAsked:
		note, text = "approval of "+string(p.Effect)+" asked by "+p.Plugin, p.Question
	case *events.ToolApprovalGiven:
		note = "approval of " + string(p.Effect) + " refused by " + p.By
		if p.Granted {
			note = "approval of " + string(p.Effect) + " given by " + p.By
		}
		text = p.Reason
	case *events.ToolLost:
		note = fmt.Sprintf("calls %v of turn %s are lost: whether they took effect is unknown", p.Calls, e.Turn)
	case *events.ModelFailed:
		note, text = "model call failed: "+p.Error+" "+p.Code, p.Message
	case *events.GraphBranched:
		note = "the conversation continues below " + string(p.Leaf)
	case *events.FrameOpened:
		note = "frame " + string(p.Frame) + " opened: " + p.Reason
	case *events.SessionClosed:
		note, text = "the session is closed", p.Reason
	default:
		r.lost.Add(lostDetails)
		return
	}
	r.blocks = append(r.blocks, block{class: "event", level: 4, title: note, text: text, body: text != ""})
}
