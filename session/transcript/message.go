package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

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
	p.line(0, roleColor(m.Role, head), head)
	for i := range m.Parts {
		p.part(&m.Parts[i])
	}
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

func (p *Printer) part(part *events.Part) {
	switch part.Kind {
	case events.PartText:
		p.text(1, plain, part.Text, part.Blob)
	case events.PartReasoning:
		p.line(1, dim, "(reasoning)")
		p.text(2, dim, part.Text, part.Blob)
	case events.PartToolCall:
		p.call(part)
	case events.PartToolResult:
		p.result(part)
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

func (p *Printer) result(part *events.Part) {
	outcome, color := part.Outcome, red
	if outcome == events.OutcomeSuccess {
		outcome, color = "success", green
	}
	p.line(1, color, "<- "+VisibleLine(part.Tool)+callName(part.Call)+" "+VisibleLine(string(outcome)))
	p.text(2, plain, part.Text, part.Blob)
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
	if p.opts.Full || len(text) <= limit {
		return text
	}
	head := events.Clip(text, limit, "")
	more := fmt.Sprintf("[... %d more bytes", len(text)-len(head))
	if p.opts.More != "" {
		more += ", " + p.opts.More
	}
	return head + " " + more + "]"
}
