package watch

import (
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
