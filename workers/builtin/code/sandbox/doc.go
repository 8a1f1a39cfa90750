// Package sandbox runs the programs of the code-executing protocol: Starlark
// that a model wrote, which calls tools. It knows tools by a [Caller] and
// imports nothing of this module.
//
// # Guarantees
//
// The same code, state and answers give the same [Response], steps included:
// after a crash the caller runs the code again and gives recorded answers back
// by ordinal. The exception is the clock, and what it stops leaves no trace but
// its error. A panic of the interpreter, of a tool or of ours becomes an error.
//
// # The language
//
// Starlark with if, for and while at the top level, reassignment and sets;
// without recursion, load, time, randomness and I/O. There are json and math, and
//
//	search(query="x")              runs the tool search; also search({"query": "x"})
//	tool("my-tool", a=1)           the same for a tool whose name is no identifier or is taken
//	attempt(search, query="x")     gives .ok, .value and .error instead of failing
//	gather([call(search, query="x"), call(read, path="y")])
//	                               runs calls at the same time, results in order;
//	                               attempt=True makes them as those of attempt
//	h = start(search, query="x")   begins a tool and goes on
//	wait(h)                        its value, in this program or a later one
//	print(..), message("..")       for the model, and for whoever watches
//	finish(value)                  ends the program at once, and the turn if it may
//	continue_as("task", {"x": x})  ends it too; the task goes on afresh, with these variables
//
// A tool's value is decoded if it is JSON that nests at most 100 levels, else
// it is the text. Attempt catches what a tool reports; mistakes of the program
// and limits end it.
//
// # Variables
//
// What the code leaves in global variables the next run finds, also after an
// error. The encoding (state.go) keeps None, bool, int, float, string, bytes,
// range, list, tuple, dict, set, results of attempt, handles and functions, shared and
// cyclic references included. What has no encoding is named in the output and not
// kept. Variables that are too large together are an error: they are as before
// the program, and it did not finish. A variable hides a tool of its name; names
// of the library are not kept.
//
// A function is kept as its source, with the values of its defaults and of the
// variables it closes over; Starlark never rebinds the latter once the outer
// function has returned, so a copy of the bindings is the function. Globals it
// reads by name when it is called. A name that has gone by then is an error
// when it is used. Restored functions belong to the program's own module, so
// old and new code see the same globals.
//
// # What is bounded
//
// The interpreter counts steps and can be stopped between them; one step may do
// any amount of work, and memory is not counted. So the syntax tree is
// rewritten before it is compiled (rewrite.go): operators, comparisons, slices,
// keys, methods, spread arguments and library functions go through guards that
// charge a step per element and the bytes of what they make, before it is made.
// Values are measured as trees before they are printed, compared, hashed,
// ordered or encoded, at most 100 levels deep.
//
//   - Steps, exactly. Memory that bulk operations allocate, cumulatively: what
//     was freed still counts. Beyond it a step allocates some ten bytes, a
//     hundred when it stores in a dict, so 5 million steps are below 200 MB.
//   - Code, brackets and nesting before they are parsed, compiled or restored,
//     so that no input exhausts Go's stack, which could not be recovered.
//   - Integers (2^16 bits by product, shift and text), output, state, calls, waits, messages.
//   - Time: the program is stopped between steps. What a step reads, compares and
//     looks up in tables is charged before it is done, so that a step is short. Where
//     one is not, Run returns all the same, [Slack] after the limit; the step is left
//     to its end, and calls no tool.
//
// Not bounded: memory is an estimate, not what the process uses, and does not
// cover the parser (some hundred bytes per byte of code) or what a Caller
// returns before it is decoded. Keys that collide, stored one by one, make a table
// slow: growing it is one step, which takes about as long as storing them took.
// A Caller that ignores its context holds the run up. Nothing here isolates the process: this guards
// against a model's mistakes and greed in the language's own terms, not against
// a bug of the interpreter that panics cannot report.
package sandbox
