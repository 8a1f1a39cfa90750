// Package turn is the state machine of a turn. It is pure, so its tests read like transcripts. It imports events and
// projector.
//
// [Step] computes the events that follow from an input in a state. [Next] computes the effects that a state needs.
// Effects are a function of durable state: after a crash, the fold finds them again. Effect ids are derived from the
// state, so a second start of an effect is harmless.
//
//	        +-------------- started --------------+
//	        v                                     | results of all calls
//	needs a model call -- reply with calls --> needs tool calls
//	        |                                     |
//	        +-- reply, failure, limit, cancel ----+--> completed
//
// Transitions and the faults that they survive:
//
//   - A worker dies during a model call: the next claim (turn.started) needs the same model call again.
//   - A worker dies during repeatable calls: they run again under the same idempotency keys.
//   - A worker dies during a call that is not repeatable: tool.called was recorded before its start, so the next claim
//     records it as lost (tool.lost).
//   - Two workers run the turn: their appends conflict. The worker whose append fails folds again. If the other worker
//     recorded the same result, its own is [ErrStale].
//   - A cancel arrives in any state: it wins if it is earlier in the log than the end of the turn.
//
// # Concurrent turns
//
// [Request] adds a turn to the session's queue and is the only place that applies its policy ([events.WhenBusy]). The
// queue has three groups: follow-on turns of a frame switch, then interrupting turns, then all others. Each group is in
// log order.
//
// A turn with the policy inject waits like any other. A checkpoint of a running turn may take its message, which ends
// it. Without such a checkpoint the turn runs itself. So its message is in exactly one turn.
//
// A turn with the policy branch never starts here. Its request decides that it runs in another session, and [Branching]
// finds the remaining work for it.
//
// # Lingering commits
//
// The results of repeatable calls need not be durable before the next model call: if they are lost, the calls run again
// under the same idempotency keys, and nothing recorded contradicts them. [Output].Linger marks such commits. A runner
// holds them back for at most its linger time (2 ms). If the model replies within it, results and reply share one
// append.
//
// A runner does this only on a state that it knows to be current, because another worker may have recorded the same
// results and the reply to them. So no recorded effect is repeated, and an unrecorded one could have been lost a moment
// earlier anyway. Calls that are not repeatable never linger.
//
// Decisions of plugins linger too, and so does a reply while hooks process it. Hooks take microseconds and share the
// reply's append, so they cost no write of their own. Only hooks run before the reply is durable: calls and the next
// model call start after the reply and the hooks' decisions are durable. Otherwise a loss during running calls could
// give the same idempotency keys to other calls.
package turn
