// Package code is the protocol of code execution. The model writes a program in a fenced block, the session's tools
// are its functions, and its output is what the model reads next. Package sandbox has the language and its
// limits.
//
// # The prompt
//
// The prompt has three sections: the language in some twenty lines (docs.go), the showcased tools as signatures with
// one line each, and how a turn ends. Descriptions of tools take at most 48 KiB; the tools above that are named. The
// request to the model offers no tools.
//
// In the conversation a program is the block that the model wrote. Its result is a message that begins with [output]:
// the printed text, and an error after [error], with the lines of the program and a hint where Python differs. A
// reply that cannot be read gets a correction: an open block, a tool call with code, or no block if only finish ends
// the turn ([Options]).
//
// # A turn
//
// A reply with a fenced block is a call of [plugin.ToolCode]. The text after the block is not read: the stream has
// 2 seconds to end, because its usage comes last, and is then cut. A reply without a block is the answer. In the history a
// program is a tool call and its output a result. A finish that is accepted ends the turn with its value. A finish
// that does not fit the schema is an error for the model.
//
// # Limits
//
// The defaults for one program, see [Config]: 5 million steps, 128 MiB of memory at once, 10 s without the
// time of tools, 64 KiB of code, 100 tool calls, 1000 waits, 200 messages, 16 shown attachments, 16 KiB of output (head and tail; the cut
// is marked), 1 MiB and 1000 names of variables, no recursion, data nested up to 100 levels. The task of continue_as
// has at most 16 000 bytes. A turn continues in another frame at most 16 times; then it ends with
// agent_frame_switch_limit. The error of a limit names the limit, and says what to do instead.
//
// A program runs in a process of its own, which is this executable again, see package sandbox. That ends with a program
// that goes beyond its memory or its time, and no other program notices.
//
// # Guarantees
//
// Programs are repeatable. After a crash any node runs the program again from its start, and the history answers the
// calls that it had made, also the failed ones. A call that must not run twice and had started is lost, and its result
// says so. A call that waits for an approval suspends the program, which runs again after the answer. A program that
// does not repeat its calls, because its tools have changed, ends with nested_call_changed. A program sees the text
// of a result, and with with_attachments its attachments, as references to bodies that the session has. It does not see the
// controls of the tools that it calls. The model sees the attachments that a program shows, with its output; one whose digest the
// session's history does not name fails the program's call. A message of a program may be sent again.
//
// Variables belong to the frame. They are recorded with the result of the program that changed them, all or none:
//
//	the program ends            its variables
//	in order                    are recorded
//	with an error               are recorded as far as they changed
//	too large together          stay as before it; it fails, and neither finishes nor continues; its calls stay made
//	by time, by memory          stay as before it
//	cancelled                   stay as before it
//
// A frame that something else opens, such as a compaction, begins without variables, and so does a fork. A branch
// back does not undo changes of variables.
//
// continue_as(task, seed) continues in a new frame whose variables are the entries of the seed. Its handles must be
// live or ended tasks of the session; else the program gets an error that names the wrong one. Live tasks that the
// seed does not refer to are cancelled just before the switch is recorded, also monitors and subagents. A switch by
// Options.ContinueAt keeps every variable and cancels nothing.
//
// A started tool is a background task of this process. It outlives its turn, but not its process: then the task
// fails, and a wait for it returns the reason. Any node can wait for it. Its hooks run; events that they enqueue are
// dropped. It cannot ask for an approval, and it calls no tools.
package code
