// Package code is the protocol of code execution: the model writes a program
// in a fenced block, the session's tools are its functions, and what it prints
// is what the model reads next. It imports session/plugin and its sandbox,
// which has the language and its bounds.
//
// # A turn
//
// A reply with a fenced block is a call of [plugin.ToolCode]: the stream is
// cut where the fence closes. A reply without one is the answer, or is
// corrected where the turn has to end by finish, see [Options]. In the history
// a program is a tool call and its output a result; the model is shown the
// block that it wrote and a message that begins with [output].
//
// # Guarantees
//
// Programs are repeatable: after a crash any node runs the program again from
// its start, and the calls that it had made answer from the history, also those
// that failed. One that must not run twice and was begun is lost, and says so.
// A call that waits for an approval suspends the program, which runs again when
// somebody has answered. A program sees a result's text only: attachments and
// controls of the tools that it calls do not leave it.
//
// Variables belong to the frame. They are recorded with the result of the
// program that changed them, or not at all. A program that did not end, because
// the clock stopped it or the turn was cancelled, changed none.
//
// continue_as(task, seed) goes on in a new frame that begins with the seed's
// entries as its variables. Handles in it must be live or ended tasks of the
// session; live tasks that it does not refer to are cancelled, monitors and
// subagents too. What Options.ContinueAt forces keeps every variable, and
// cancels nothing.
//
// A started tool is a background task of this process. It outlives its turn,
// not its process: the task then fails, and whoever waits for it reads why. Its
// hooks run; what they enqueue is dropped, and an approval cannot be had.
package code
