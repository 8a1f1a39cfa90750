package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Message writes a message that is no node, for example one of a prompt.
func (p *Printer) Message(m *events.Message) {
	p.message(&projector.Node{ID: events.NodeID(m.ID), Kind: events.NodeMessage, Message: *m})
}

// Parts writes parts without the head of a message.
func (p *Printer) Parts(parts []events.Part) {
	for i := range parts {
		p.part(&parts[i], "")
	}
}

// Text writes a text, or the body that replaces it, below a head, with at most [Options.Lines] lines.
func (p *Printer) Text(text string, body events.BlobRef) {
	p.lines = p.opts.Lines
	p.text(1, plain, text, body)
	p.lines = 0
}

func (p *Printer) message(n *projector.Node) {
	m := &n.Message
	head := VisibleLine(string(m.Role))
	if onlyResults(m.Parts) {
		head = "tool results"
	}
	head += "  " + VisibleLine(string(n.ID))
	if m.Origin != "" {
		head += "  from " + VisibleLine(m.Origin)
	}
	if m.Stop != "" {
		head += "  stopped: " + VisibleLine(string(m.Stop))
	}
	p.line(0, roleColor(m.Role, head), head+p.more(p.opts.Head, n))
	results := 0
	for i := range m.Parts {
		note := ""
		if m.Parts[i].Kind == events.PartToolResult {
			if p.opts.Result != nil {
				note = added(p.opts.Result(n, results))
			}
			results++
		}
		p.part(&m.Parts[i], note)
	}
}

// more is the addition to a head, see [Options.Head].
func (p *Printer) more(of func(*projector.Node) string, n *projector.Node) string {
	if of == nil {
		return ""
	}
	return added(of(n))
}

func added(text string) string {
	if text == "" {
		return ""
	}
	return "  " + VisibleLine(text)
}

func onlyResults(parts []events.Part) bool {
	found := false
	for i := range parts {
		if parts[i].Kind != events.PartToolResult && parts[i].Kind != events.PartAttachment {
			return false
		}
		found = found || parts[i].Kind == events.PartToolResult
	}
	return found
}

// part writes a part. note is the addition to the head of a result.
func (p *Printer) part(part *events.Part, note string) {
	switch part.Kind {
	case events.PartText:
		p.text(1, plain, part.Text, part.Blob)
	case events.PartReasoning:
		p.line(1, dim, "(reasoning)")
		p.text(2, dim, part.Text, part.Blob)
	case events.PartToolCall:
		p.call(part)
	case events.PartToolResult:
		p.result(part, note)
	case events.PartAttachment:
		p.attachment(part)
	}
}

func (p *Printer) call(part *events.Part) {
	args := part.Args
	if !part.Blob.IsZero() {
		body, note := p.load(part.Blob)
		if note != "" {
			body = []byte(note)
		}
		args = body
	}
	p.line(1, cyan, "-> "+VisibleLine(part.Tool)+callName(part.Call)+" "+p.shorten(oneLine(args), p.opts.Args))
}

func callName(id events.CallID) string {
	if id == "" {
		return ""
	}
	return " [" + VisibleLine(string(id)) + "]"
}

// oneLine compacts JSON. Text that is not JSON only loses its line breaks.
func oneLine(args []byte) string {
	var packed bytes.Buffer
	if json.Compact(&packed, args) == nil {
		return Visible(packed.String())
	}
	return VisibleLine(string(args))
}

func (p *Printer) result(part *events.Part, note string) {
	outcome, color := part.Outcome, red
	if outcome == events.OutcomeSuccess {
		outcome, color = "success", green
	}
	p.line(1, color, "<- "+VisibleLine(part.Tool)+callName(part.Call)+" "+VisibleLine(string(outcome))+note)
	p.lines = p.opts.Lines
	p.text(2, plain, part.Text, part.Blob)
	p.lines = 0
}

func (p *Printer) attachment(part *events.Part) {
	size := int64(len(part.Text))
	if !part.Blob.IsZero() {
		size = part.Blob.Size
	}
	what := fmt.Sprintf("%d bytes", size)
	if strings.HasPrefix(part.Text, "https://") || strings.HasPrefix(part.Text, "http://") {
		what = p.shorten(VisibleLine(part.Text), p.opts.Args)
	}
	p.line(1, yellow, fmt.Sprintf("(attachment %s, %s)", VisibleLine(part.MediaType), what))
}

func (p *Printer) body(depth int, body []byte, blob events.BlobRef) {
	p.text(depth, plain, string(body), blob)
}

// text writes a text, or the body that replaces it, shortened unless Options.Full is set.
func (p *Printer) text(depth int, color, text string, blob events.BlobRef) {
	if !blob.IsZero() {
		body, note := p.load(blob)
		if note != "" {
			p.line(depth, dim, note)
			return
		}
		text = string(body)
	}
	if p.opts.Select != nil {
		text = p.opts.Select(text)
	}
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(p.shorten(Visible(text), p.opts.Limit), "\n"), "\n") {
		p.line(depth, color, line)
	}
}

// load reads a body outside the log. If the read fails, note is the text to show instead.
func (p *Printer) load(ref events.BlobRef) (body []byte, note string) {
	name := fmt.Sprintf("%d bytes, blob %.12s", ref.Size, VisibleLine(ref.Digest))
	if p.opts.Blob == nil {
		return nil, "(" + name + ")"
	}
	body, err := p.opts.Blob(ref)
	if err != nil {
		return nil, "(" + name + ", cannot be read: " + VisibleLine(err.Error()) + ")"
	}
	return body, ""
}

// shorten cuts a text to limit bytes, between characters, and adds the marker.
func (p *Printer) shorten(text string, limit int) string {
	if p.opts.Full {
		return text
	}
	if p.lines > 0 {
		limit = min(limit, lengthOf(text, p.lines))
	}
	if len(text) <= limit {
		return text
	}
	head := events.Clip(text, limit, "")
	more := fmt.Sprintf("[... %d more bytes", len(text)-len(head))
	if p.opts.More != "" {
		more += ", " + p.opts.More
	}
	return head + " " + more + "]"
}

// lengthOf is the number of bytes of the first lines of a text, without the last line break.
func lengthOf(text string, lines int) int {
	end := 0
	for range lines {
		next := strings.IndexByte(text[end:], '\n')
		if next < 0 || end+next+1 == len(text) {
			return len(text)
		}
		end += next + 1
	}
	return end - 1
}
