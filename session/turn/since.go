package turn

import (
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Since is the time that an effect of the running turn gets for now: that of the commit after which it could begin. It is the
// same wherever the effect runs, and runs again. 0 if no turn runs.
func Since(s *projector.State, effect events.EffectID) events.Millis {
	t := s.Turn()
	if t == nil {
		return 0
	}
	at := t.Since
	of := func(i int) events.EffectID { return ToolEffect(t.ID, t.Iteration, int64(i)) }
	for i := range t.Calls {
		outer := of(i)
		if effect != outer && !strings.HasPrefix(string(effect), string(outer)+"/") {
			continue
		}
		if tool, ok := s.Catalog.Tool(t.Calls[i].Tool); ok && tool.Serial {
			for j := range t.Calls { // it began after the others that have results, but for those that it did not wait for
				if c := &t.Calls[j]; j != i && c.Done && !c.Pended && t.Approval(of(j)) == nil && !t.Asked(of(j)) {
					at = max(at, c.At)
				}
			}
		}
		for _, id := range []events.EffectID{outer, effect} {
			if a := t.Approval(id); a != nil {
				at = max(at, a.At)
			}
			if r := t.Resolution(id); r != nil {
				at = max(at, r.At)
			}
		}
	}
	return at
}
