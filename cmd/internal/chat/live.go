package chat

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/transcript"
)

// live is the streamed part of the unfinished reply. Complete lines stay on screen; the last line is incomplete.
type live struct {
	try  try
	text string // of the attempt so far
	done int    // bytes of text that were shown as lines
	cut  bool   // deltas were lost: the commit shows the rest
}

// try identifies one attempt of one model call.
type try struct {
	turn                     events.TurnID
	iteration, call, attempt int64
}

// delta shows a delta. The observer passes only those of the newest attempt.
func (v *View) delta(d *api.Delta) {
	if m := d.Message; !m.IsZero() {
		v.emit(linesOf(Result, m.Text)...)
		return
	}
	if !d.Output.IsZero() {
		v.printed(d)
		return
	}
	if now := (try{d.Turn, d.Iteration, d.Call, d.Attempt}); now != v.live.try {
		v.retract()
		v.live.try = now
	}
	if v.live.cut || d.Kind != events.PartText {
		return
	}
	v.live.text += d.Text
	if end := strings.LastIndexByte(v.live.text, '\n'); end >= v.live.done {
		v.emit(linesOf(Reply, v.live.text[v.live.done:end+1])...)
		v.live.done = end + 1
	}
}

// retried shows that a model call is repeated, also where replies are not streamed.
func (v *View) retried(r api.RetryStatus) {
	v.retry = r
	v.emit(noted(Note, "waiting for the model, %s in %.1f s: %s", tryOf(r), float64(r.WaitMillis)/1000, r.Reason))
}

// tryOf is the number of the next try, and their limit if there is one.
func tryOf(r api.RetryStatus) string {
	if r.Attempts == 0 {
		return fmt.Sprintf("try %d", r.Attempt+1)
	}
	return fmt.Sprintf("try %d of %d", r.Attempt+1, r.Attempts)
}

// gap stops streaming of the attempt: its commit has the whole reply.
func (v *View) gap(g *api.Gap) {
	if g.Turn == v.live.try.turn && g.Iteration == v.live.try.iteration {
		v.live.cut = true
		return
	}
	v.live = live{try: try{turn: g.Turn, iteration: g.Iteration}, cut: true}
}

// retract marks the streamed part as no reply.
func (v *View) retract() {
	if v.live.done > 0 {
		v.emit(noted(Note, "the reply above was cut off and does not count"))
	}
	v.live = live{}
}

// interrupted shows the rest of a partial reply, and marks all of it.
func (v *View) interrupted(p *events.ModelInterrupted) {
	text := textOf(p.Parts)
	rest, ok := strings.CutPrefix(text, v.live.text[:v.live.done])
	if !ok {
		v.retract()
		rest = text
	}
	v.live = live{}
	v.thought(p.Parts)
	v.emit(linesOf(Partial, rest)...)
	if text != "" {
		v.emit(noted(Note, "the reply above is partial: later turns do not read it"))
	}
}

// finish shows the part of a reply's text that was not streamed.
func (v *View) finish(text string) {
	rest, ok := strings.CutPrefix(text, v.live.text[:v.live.done])
	if !ok {
		v.retract()
		rest = text
	}
	v.live = live{}
	v.emit(linesOf(Reply, rest)...)
}

// Live is the unfinished last line of the streamed reply, escaped; empty where there is none.
func (v *View) Live() string { return transcript.VisibleLine(v.live.text[v.live.done:]) }
