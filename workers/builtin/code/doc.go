// Package code is the protocol of code execution: the model writes a program
// in a fenced block, the session's tools are its functions, and what it prints
// is what the model reads next. It imports session/plugin and its sandbox,
// which has the language and its bounds.
//
// # What the model is told
//
// Its prompt has three sections: the language in some twenty lines (docs.go),
// the tools that are showcased as signatures with a line each, and how the turn
// may end. Descriptions of tools take 48 KiB at most, those beyond are named.
// The request itself offers no tools.
//
// A program reads in the conversation as the block that the model wrote, and
// what came of it as a message that begins with [output]: what was printed, and
// what is wrong behind [error], with the lines of the program and a hint where
// Python differs. A reply that cannot be read as it was meant is answered with
// a correction: an open block, a tool call beside code, and no block at all
// where only finish ends the turn ([Options]).
//
// # A turn
//
// A reply with a fenced block is a call of [plugin.ToolCode]. What follows the
// block is not read: the stream may end by itself for 2 s, as its usage comes
// last, and is cut then. A reply without a block is the answer. In the history
// a program is a tool call and its output a result; a finish that is accepted
// ends the turn with its value, and one that does not fit the schema is an error
// that the model reads.
//
// # Limits
//
// Of one program, where [Config] sets no others: 5 million steps, 128 MiB that
// bulk operations allocate, 10 s without the time that it waits for tools,
// 64 KiB of code, 100 calls of tools, 1000 waits, 200 messages, 16 KiB of output
// (its head and its tail; the cut is marked), 1 MiB and 1000 names of variables,
// no recursion, and data that nests 100 levels. The task of continue_as has
// 16 000 bytes, and a turn goes on in other frames 16 times: the next time ends
// it with agent_frame_switch_limit.
// Whoever meets a limit reads which, and what to do instead.
//
// # Guarantees
//
// Programs are repeatable: after a crash any node runs the program again from
// its start, and the calls that it had made answer from the history, also those
// that failed. One that must not run twice and was begun is lost, and says so.
// A call that waits for an approval suspends the program, which runs again when
// somebody has answered. A program that does not make the same calls again, as
// its tools have changed meanwhile, ends with nested_call_changed. A program
// sees a result's text only: attachments and controls of the tools that it calls
// do not leave it. What it tells with message it may tell again.
//
// Variables belong to the frame. They are recorded with the result of the
// program that changed them, all or none: where they are too large together
// the program ends with an error, did neither finish nor go on elsewhere, and
// left them as they were; the calls that it made stay made. A program that the
// clock stopped, or whose turn was cancelled, changed none. One that ended with
// any other error changed what it had changed by then. A frame that somebody
// else opens, as a compaction does, begins without variables, and so does a fork.
// A branch back does not undo what programs did to variables.
//
// continue_as(task, seed) goes on in a new frame that begins with the seed's
// entries as its variables. Handles in it must be live or ended tasks of the
// session: otherwise the program reads which one is not, and nothing happens.
// Live tasks that it does not refer to are cancelled, monitors and subagents
// too, just before the switch is recorded. What Options.ContinueAt forces keeps
// every variable, and cancels nothing.
//
// A started tool is a background task of this process. It outlives its turn,
// not its process: the task then fails, and whoever waits for it reads why. Any
// node can wait for it. Its hooks run; what they enqueue is dropped, an approval
// cannot be had, and it calls no tools itself.
package code
