package external

import (
	"errors"
	"sync/atomic"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Reasons why this node does not take a message of an instance.
const (
	signTooLarge    = "sign_too_large"
	signInvalid     = "sign_invalid"     // no JSON of its form, values out of range, or an id that is no token
	signTooMany     = "sign_too_many"    // of a further instance above maxInstances
	signOther       = "sign_other"       // of another program with the id of one that lives
	answerRate      = "answer_rate"      // above the limits in time of one call
	answerMalformed = "answer_malformed" // no JSON of its form
	answerTooDeep   = "answer_too_deep"  // above the limits of nesting and values, and neither a callback nor an outcome
	outputRefused   = "output_refused"   // above a limit, or with an offset out of range
	callbackRate    = "callback_rate"    // a repeat above the limits in time
)

// drops counts messages by reason.
type drops map[string]*atomic.Int64

func newDrops() drops {
	d := make(drops)
	for _, reason := range []string{signTooLarge, signInvalid, signTooMany, signOther, answerRate, answerMalformed, answerTooDeep, outputRefused, callbackRate} {
		d[reason] = new(atomic.Int64)
	}
	return d
}

// drop counts a message.
func (p *Plugins) drop(name, reason string) {
	if k := p.byName[name]; k != nil {
		k.drops[reason].Add(1)
	}
}

// Dropped yields how many messages of each plugin this node did not take, by reason.
func (p *Plugins) Dropped(yield func(plugin, reason string, n int64)) {
	for _, name := range p.names {
		for reason, n := range p.byName[name].drops {
			yield(name, reason, n.Load())
		}
	}
}

// parse reads an answer; ok is false for one that counts as lost. above is set for one above the limits of nesting and values.
func (o *instanceCall) parse(data []byte) (answer wire.Progress, above *events.FieldError, ok bool) {
	if o.limits.answer(len(data)) != nil {
		o.p.drop(o.plugin, answerRate)
		return answer, nil, false
	}
	err := wire.Decode(data, &answer)
	above, limited := errors.AsType[*events.FieldError](err)
	if err != nil && !limited {
		o.p.drop(o.plugin, answerMalformed)
		return answer, nil, false
	}
	return answer, above, true
}
