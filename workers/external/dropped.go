package external

import (
	"errors"
	"sync/atomic"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// dropReason is why this node does not take a message of an instance.
type dropReason int

const (
	signTooLarge    dropReason = iota
	signInvalid                // no JSON of its form, values out of range, or an id that is no token
	signTooMany                // of a further instance above maxInstances
	signOther                  // of another program with the id of one that lives
	answerRate                 // above the limits in time of one call
	answerMalformed            // no JSON of its form
	answerTooDeep              // above the limits of nesting and values, and neither a callback nor an outcome
	outputRefused              // above a limit, or with an offset out of range
	callbackRate               // a repeat above the limits in time
	dropReasons                // how many
)

// String is the reason in metrics.
func (r dropReason) String() string {
	return [dropReasons]string{
		signTooLarge: "sign_too_large", signInvalid: "sign_invalid", signTooMany: "sign_too_many", signOther: "sign_other", answerRate: "answer_rate",
		answerMalformed: "answer_malformed", answerTooDeep: "answer_too_deep", outputRefused: "output_refused", callbackRate: "callback_rate",
	}[r]
}

// drops counts messages by reason.
type drops [dropReasons]atomic.Int64

// drop counts a message.
func (p *Plugins) drop(name string, reason dropReason) {
	if k := p.byName[name]; k != nil {
		k.drops[reason].Add(1)
	}
}

// Dropped yields how many messages of each plugin this node did not take, by reason.
func (p *Plugins) Dropped(yield func(plugin, reason string, n int64)) {
	for _, name := range p.names {
		for reason := range dropReasons {
			yield(name, reason.String(), p.byName[name].drops[reason].Load())
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
