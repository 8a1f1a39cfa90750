package registry

import (
	"sync/atomic"
)

// DropReason is why this node does not take a message of an instance.
type DropReason int

// The reasons. Those of signs of life are of this package.
const (
	signTooLarge DropReason = iota
	signInvalid             // no JSON of its form, values out of range, or an id that is no token
	signTooMany             // of a further instance above maxInstances
	signOther               // of another program with the id of one that lives

	AnswerRate      // above the limits in time of one call
	AnswerMalformed // no JSON of its form
	AnswerTooDeep   // above the limits of nesting and values, and neither a callback nor an outcome
	OutputRefused   // above a limit, or with an offset out of range
	CallbackRate    // a repeat above the limits in time

	dropReasons // how many
)

// String is the reason in metrics.
func (r DropReason) String() string {
	return [dropReasons]string{
		signTooLarge: "sign_too_large", signInvalid: "sign_invalid", signTooMany: "sign_too_many", signOther: "sign_other", AnswerRate: "answer_rate",
		AnswerMalformed: "answer_malformed", AnswerTooDeep: "answer_too_deep", OutputRefused: "output_refused", CallbackRate: "callback_rate",
	}[r]
}

// drops counts messages by reason.
type drops [dropReasons]atomic.Int64

// Drop counts a message.
func (r *Registry) Drop(name string, reason DropReason) {
	if k := r.byName[name]; k != nil {
		k.drops[reason].Add(1)
	}
}

// Dropped yields how many messages of each plugin this node did not take, by reason.
func (r *Registry) Dropped(yield func(plugin, reason string, n int64)) {
	for _, name := range r.names {
		for reason := range dropReasons {
			yield(name, reason.String(), r.byName[name].drops[reason].Load())
		}
	}
}
