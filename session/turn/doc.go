// Package turn is the state machine of a turn: pure, so that its tests read
// like transcripts. It imports events and projector.
//
// [Step] says which events follow from an input in a state; [Owed] says which
// effects a state owes. Effects are a function of durable state, so whatever
// a crash interrupted is found again by folding, and effect ids are derived
// from the state, so starting one twice is harmless.
//
//	       ┌────────────── started ──────────────┐
//	       ▼                                     │ results of all calls
//	owes a model call ── reply with calls ──► owes tool calls
//	       │                                     │
//	       └── reply, failure, limit, cancel ────┴──► completed
//
// # Turns in each other's way
//
// [Request] is where a turn joins the session's order, and the only place where
// its policy for company counts. Of the turns that wait, follow-ons of a frame
// switch come first, then those that interrupt, then the rest, each sort in the
// order of the log. One that asks to be injected waits like any other until a
// checkpoint of a running turn takes its message in, which is its end; where
// none does, because the turn before it ended otherwise or could ask no more,
// it runs itself. So its message is in exactly one turn, and nothing has to
// bring it back. One that branches never starts here: that it goes elsewhere is
// decided with its request, and [Branching] finds what is left to do for it.
//
// # Fewer, fuller writes
//
// The results of repeatable calls need not be durable before the model is
// asked to go on: were they lost, the calls would run again under the same
// idempotency keys and nothing recorded would contradict them. [Output.Linger]
// marks such commits. A runner holds them back for at most its linger time
// (2 ms), and where the model answers within it the results and the reply
// share one append. A runner does so only on a state that it knows to be
// current: another worker may have recorded the same results and the reply to
// them. So nothing that was recorded is ever asked for again, and
// what was not yet recorded could have been lost a moment earlier just as
// well: no promise is weaker for it. Calls that are not repeatable never linger.
//
// What plugins decide lingers likewise, and so does a reply while they are
// asked about it: their answers come in microseconds and share its append, so
// that hooks cost a turn no write of their own. Nothing but hooks runs ahead
// of a reply, though: calls start, and the model is asked again, only when the
// reply and what plugins made of it are durable. Were they lost with calls
// under way, the same idempotency keys could come to stand for other calls.
package turn
