// Package decision compares the decisions of a recorded history with those of this program's turn machine. It executes
// nothing: each commit is decided again on the fold of the commits before it, from the inputs that the history has. A
// difference means that this program would continue such a session in another way than the program that recorded it.
//
// # Decisions and inputs
//
// A commit is a sequence of steps: an input arrives, and events follow. These events are decisions of the machine (package
// session/turn). They are decided again, and compared field by field:
//
//	turn.requested        of a host: whether it waits, is refused or interrupts; of the machine: a follow-on turn, a
//	                      turn for a monitor's input, a scheduled turn that is due
//	turn.started          attempt and message id; turn.diverted to a running turn; turn.checkpointed; turn.completed
//	tool.state_applied    with a claim: generation and kept overrides
//	tool.called, tool.returned, tool.lost, tool.pended
//	                      which calls, and the results that the machine itself gives to cancelled calls
//	input.accepted        which inputs enter, and where
//	graph.appended        messages of hooks and corrections: ids, order and number
//	graph.branched        the repair of a leaf, and the leaf after a failed start
//	frame.opened          with a switch
//	model.replied, model.failed, model.interrupted, hook.ran, turn.prepared, tool.approval_asked
//	                      that the machine accepts them in this state, the message id, and the next model after a failure
//	tool.approval_given, tool.resolved
//	                      that the state accepts them; those that are due, which ones
//
// Everything else is an input:
//
//   - Commits of hosts: requests, cancels, injected inputs, answers, results from outside, configuration, branches, frames.
//   - What effects return: replies, results, the hooks' decisions and prompts, failures. [Hooks] runs hooks again: then
//     their decisions are compared as well.
//   - What a worker adds: its id, hook points and tools; instances that hold calls; announcements, told plugins, released
//     turns, plugin states, tasks, monitors, nested calls, usage.
//   - Times and commit ids. Whether a commit lingers is not recorded.
//
// Some inputs are recorded only by what followed from them: why a claim was refused, why a turn could not continue, the
// protocol's correction of a reply. The comparison takes these from the events that follow. So it finds a machine that
// ignores them, and cannot find that one was given wrongly.
//
// The package is pure. It imports events, projector, session/turn and, for the digests of large bodies, session/blob.
package decision
