package chat

import (
	"strings"

	"github.com/lash-go/lash/session/api"
)

// shownOutput is what the view has shown of the output of the call that printed last.
type shownOutput struct {
	try   try
	call  string
	lines int    // that were shown
	rest  string // the incomplete last line of the stream
	next  int64  // number of the next text
}

// printed shows the first complete lines that a running call prints. The result follows.
func (v *View) printed(d *api.Delta) {
	o, r := &d.Output, &v.running
	call := string(o.Call) + " " + o.Stream
	if now := (try{d.Turn, d.Iteration, d.Call, d.Attempt}); r.try != now || r.call != call || d.N != r.next {
		lines := 0
		if r.try == now && r.call == call {
			lines = r.lines // text was lost: the line before it stays incomplete
		}
		*r = shownOutput{try: now, call: call, lines: lines}
	}
	r.next = d.N + 1
	end := strings.LastIndexByte(o.Text, '\n')
	if end < 0 {
		r.rest = tail(r.rest + o.Text)
		return
	}
	text := r.rest + o.Text[:end+1]
	r.rest = tail(o.Text[end+1:])
	list := linesOf(Result, text)
	if left := resultLines - r.lines; !v.opts.Full && len(list) > max(left, 0) {
		list = list[:max(left, 0)]
		if r.lines <= resultLines {
			list = append(list, noted(Result, "... the call prints more"))
			r.lines = resultLines + 1
		}
	}
	for i := range list {
		list[i].Text = clipped(list[i].Text, v.opts.Full)
	}
	r.lines += len(list)
	v.emit(list...)
}

// tail limits an incomplete line.
func tail(line string) string { return line[:min(len(line), resultBytes)] }

func clipped(line string, full bool) string {
	if full || len(line) <= resultBytes {
		return line
	}
	return strings.ToValidUTF8(line[:resultBytes], "") + "..."
}
