package watch

import (
	"context"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// printing tracks the output of the calls of the newest recorded reply.
type printing struct {
	ended  map[events.EffectID]bool
	newest map[events.EffectID]printed
}

// printed is the newest output of a call.
type printed struct {
	try try
	n   int64
}

// end refuses later output of a call, and of the calls inside it.
func (p *printing) end(call events.EffectID) {
	if p.ended == nil {
		p.ended = make(map[events.EffectID]bool)
	}
	p.ended[call] = true
	delete(p.newest, call)
}

// accept reports whether output is newer than all output of its call, which has no result.
func (p *printing) accept(d *api.Delta) bool {
	for call := range p.ended {
		if call == d.Output.Call || strings.HasPrefix(string(d.Output.Call), string(call)+"/") {
			return false
		}
	}
	last := p.newest[d.Output.Call]
	if order := tryOf(d).compare(last.try); order < 0 || order == 0 && d.N <= last.n {
		return false
	}
	if p.newest == nil {
		p.newest = make(map[events.EffectID]printed)
	}
	p.newest[d.Output.Call] = printed{tryOf(d), d.N}
	return true
}

// output delivers what a call prints, until the commit of its result.
func (o *observer) output(ctx context.Context, d *api.Delta) error {
	if d.Turn != o.reply.turn && d.Turn != o.reply.ended || d.Turn == o.reply.turn && d.Iteration >= o.reply.iteration {
		if err := o.catchUp(ctx); err != nil { // the commit between was lost
			return err
		}
	}
	if d.Turn != o.reply.turn || d.Iteration != o.reply.iteration-1 || !o.reply.printing.accept(d) {
		return nil
	}
	return o.emit(api.Observed{Delta: d})
}

// output emits what a call prints.
func (e *eventStream) output(d *api.Delta) {
	if e.running() == nil {
		return
	}
	o := &d.Output
	e.emit(api.SessionEvent{
		Type: api.EventToolOutput, Call: o.Call, Text: o.Text, Stream: o.Stream, Offset: o.Offset, Attempt: d.Attempt, N: d.N,
	})
}
