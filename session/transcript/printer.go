package transcript

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Printer writes a transcript node by node, also of a running session. It is not safe for concurrent use.
type Printer struct {
	w     io.Writer
	opts  Options
	err   error // sticky
	turn  events.TurnID
	frame events.FrameID
	begun bool
	acted map[events.TurnID]int // number of written acts of a turn
	lines int                   // visible lines of the text that is written; 0 for all
}

// NewPrinter makes a printer.
func NewPrinter(w io.Writer, opts Options) *Printer {
	opts.Limit = cmp.Or(max(opts.Limit, 0), 1200)
	opts.Args = cmp.Or(max(opts.Args, 0), 160)
	return &Printer{w: w, opts: opts, acted: make(map[events.TurnID]int)}
}

// Err is the first write error. After it the printer writes nothing more.
func (p *Printer) Err() error { return p.err }

// Node writes a node, and before it the start of its turn or frame.
func (p *Printer) Node(n *projector.Node) {
	p.frameOf(n)
	if n.Turn != "" && n.Turn != p.turn {
		p.turn = n.Turn
		p.gap()
		p.line(0, bold, "--- turn "+VisibleLine(string(n.Turn))+"  "+clock(n.At)+p.requester(n.Turn)+" ---")
	}
	p.begun = true
	if n.Turn != "" {
		p.acts(n.Turn, n.Seq)
	}
	if n.Kind == events.NodeMessage {
		p.message(n)
	} else {
		p.line(0, yellow, fmt.Sprintf("%s node  %s  %s", VisibleLine(string(n.Kind)), VisibleLine(n.Type), VisibleLine(string(n.ID))))
		p.body(1, n.Body, n.Blob)
	}
	p.branches(n.ID)
}

// requester names the actor that requested a turn.
func (p *Printer) requester(turn events.TurnID) string {
	if p.opts.Actor == nil || p.opts.Actor(turn) == "" {
		return ""
	}
	return ", requested by " + VisibleLine(p.opts.Actor(turn))
}

// TurnEnded writes how a turn ended.
func (p *Printer) TurnEnded(r *projector.TurnRecord) {
	color := dim
	if r.End.Stopped() {
		color = red
	}
	p.acts(r.ID, math.MaxUint64)
	p.line(0, color, "--- end of turn "+EndLine(r)+p.ended(r)+" ---")
	if p.turn == r.ID {
		p.turn = ""
	}
}

// ended is the addition to the end of a turn.
func (p *Printer) ended(r *projector.TurnRecord) string {
	if p.opts.End == nil || p.opts.End(r) == "" {
		return ""
	}
	return ", " + VisibleLine(p.opts.End(r))
}

// acts writes the unwritten acts of a turn before a commit.
func (p *Printer) acts(turn events.TurnID, before events.Seq) {
	if p.opts.Acts == nil {
		return
	}
	list := p.opts.Acts(turn)
	for p.acted[turn] < len(list) && list[p.acted[turn]].After < before {
		p.Act(&list[p.acted[turn]])
		p.acted[turn]++
	}
}

// Act writes an act, with its texts.
func (p *Printer) Act(a *Act) {
	p.line(0, dim, "--- "+VisibleLine(a.Line))
	for i := range a.Parts {
		p.part(&a.Parts[i], "")
	}
}

// EndLine describes how a turn ended, on one line.
func EndLine(r *projector.TurnRecord) string {
	list := []string{VisibleLine(string(r.ID) + ": " + string(r.End))}
	if r.By != "" {
		list[0] += " by turn " + VisibleLine(string(r.By))
		if r.Session != "" {
			list = append(list, "goes on in session "+VisibleLine(string(r.Session)))
		}
		return strings.Join(list, ", ")
	}
	if !r.Issue.IsZero() {
		list = append(list, VisibleLine(strings.TrimSpace(r.Issue.Kind+" "+r.Issue.Code+" "+r.Issue.Message)))
	}
	if r.Attempts != 1 {
		list = append(list, count(r.Attempts, "attempt"))
	}
	list = append(list, count(r.ModelCalls, "model call"), count(r.ToolCalls, "tool call"))
	if u := r.Usage; !u.IsZero() {
		list = append(list, UsageLine(u))
	}
	if lasted := r.Lasted(); lasted > 0 {
		list = append(list, (time.Duration(lasted) * time.Millisecond).String())
	}
	return strings.Join(list, ", ")
}

// UsageLine lists token usage, on one line.
func UsageLine(u events.Usage) string {
	text := fmt.Sprintf("%d tokens in, %d out", u.Input, u.Output)
	if u.CacheRead != 0 || u.CacheWrite != 0 {
		text += fmt.Sprintf(", cache %d read, %d written", u.CacheRead, u.CacheWrite)
	}
	return text
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func clock(at events.Millis) string {
	if at == 0 {
		return ""
	}
	return at.Time().Format("2006-01-02 15:04:05.000Z")
}

// frameOf writes a mark before the first visible node of a frame. Nodes of the initial frame may have no frame id.
func (p *Printer) frameOf(n *projector.Node) {
	id := n.Frame
	if len(p.opts.Frames) > 0 && id == p.opts.Frames[0].ID {
		id = ""
	}
	if id == p.frame {
		return
	}
	p.frame = id
	p.gap()
	if id == "" {
		p.line(0, magenta, "=== back in the initial frame ===")
		return
	}
	p.line(0, magenta, "=== frame "+p.frameName(id)+" ===")
}

func (p *Printer) frameName(id events.FrameID) string {
	for _, f := range p.opts.Frames {
		if f.ID == id {
			text := VisibleLine(string(id)) + " (" + VisibleLine(f.Reason) + ")"
			if f.Keep != "" {
				text += ", keeps what came from " + VisibleLine(string(f.Keep)) + " on"
			}
			return text
		}
	}
	return VisibleLine(string(id))
}

func (p *Printer) branches(at events.NodeID) {
	for _, b := range p.opts.Branches[at] {
		where := "here"
		if at == "" {
			where = "before the first node"
		}
		p.line(0, magenta, fmt.Sprintf(" \\- a branch leaves %s: %s, %s to %s",
			where, count(int64(b.Nodes), "node"), VisibleLine(string(b.First)), VisibleLine(string(b.Leaf))))
	}
}

func (p *Printer) gap() {
	if p.begun {
		p.write("\n")
	}
	p.begun = true
}

func (p *Printer) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}
