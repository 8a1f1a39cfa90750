// Package sandbox runs the programs of the protocol code: Starlark that a model
// wrote and that calls tools. It calls tools through a [Caller] and imports no
// other package of this module.
//
// # Guarantees
//
// The same code, state and answers give the same [Response], with the same steps.
// After a crash the caller runs the code again and returns recorded answers by
// ordinal. Time is the exception: a program that the clock stops leaves only its
// error. A panic of the interpreter, of a tool or of this package becomes an
// error.
//
// # The language
//
// Starlark with if, for and while at the top level, reassignment and sets;
// without recursion, load, time, randomness and I/O. There are json and math, and
//
//	search(query="x")              calls the tool search; also search({"query": "x"})
//	tool("my-tool", a=1)           the same for a tool whose name is no identifier or is taken
//	attempt(search, query="x")     returns .ok, .value and .error instead of failing
//	gather([call(search, query="x"), call(read, path="y")])
//	                               makes calls at the same time, results in order;
//	                               with attempt=True they return results of attempt
//	with_attachments(search, query="x")
//	                               a dict of value and attachments; attachments() has those of the conversation
//	show(a, b)                     attachments, for the model; they are dicts, which tools take as arguments
//	h = start(search, query="x")   starts a tool and continues
//	wait(h)                        its value, in this program or a later one
//	print(..), message("..")       for the model, and for clients
//	finish(value)                  ends the program at once, and the turn if it may
//	continue_as("task", {"x": x})  ends it too; the task continues in a new frame with these variables
//
// The value of a tool is decoded if it is JSON with at most 100 levels, else it is
// the text. attempt catches errors of tools. Errors of the program and of limits
// end it.
//
// # Variables
//
// The next run finds the global variables of this one, also after an error. The
// encoding (state.go) has None, bool, int, float, string, bytes, range, list,
// tuple, dict, set, results of attempt, handles and functions, with shared and
// cyclic references. The output names the variables that cannot be encoded; they
// are dropped. Variables that are too large together are an error: they stay as
// before the program, and the program did not finish. A variable hides a tool with
// its name. Names of the library are not kept.
//
// A function is encoded as its source, with the values of its defaults and of the
// variables of its closure. Starlark never rebinds these after the outer function
// has returned, so a copy of the bindings is equal to the function. A function
// reads globals by name when it is called; a name that no longer exists is then
// an error. Restored functions belong to the module of the program, so old and
// new code have the same globals.
//
// # Limits
//
// The interpreter counts steps and can be stopped between them. One step may do
// any amount of work, and the interpreter does not count memory. So the syntax
// tree is rewritten before it is compiled (rewrite.go): operators, comparisons,
// slices, keys, methods, spread arguments and library functions call guards. A
// guard charges a step for each element and the bytes of the result before the
// operation. Values are measured as trees before they are printed, compared,
// hashed, ordered or encoded, at most 100 levels deep.
//
//   - Steps, exactly. Memory that bulk operations allocate, cumulatively: freed
//     memory still counts. Any other step allocates some ten bytes, a hundred when
//     it stores in a dict, so 5 million steps are below 200 MB.
//   - Code, brackets and nesting before they are parsed, compiled or restored, so
//     that no input exhausts Go's stack, which cannot be recovered.
//   - Integers (2^16 bits by product, shift and text), output, state, calls,
//     waits, messages.
//   - Time: the program is stopped between steps. The bytes that a step reads,
//     compares and looks up in tables are charged first, so steps are short. If
//     one is not, Run returns anyway, a second after the limit; the step runs to its
//     end and calls no tool.
//
// Not limited: memory is an estimate. It does not cover the parser (some hundred
// bytes for each byte of code) or the answer of a Caller before it is decoded.
// Colliding keys that are stored one by one make a table slow: its growth is one
// step, which takes about as long as the stores before it. A Caller that ignores
// its context delays the run. The package does not isolate a process: it protects
// against mistakes and greed of a model within the language, not against a bug of
// the interpreter other than a panic.
//
// # Why one package
//
// The package has more than 3 000 lines because its parts share the unexported types of values and the budget of a run:
// the guards of operators, methods and library functions charge the steps and bytes that the limits define, and state.go
// encodes each type of value. Encoding and decoding (state.go, decode.go, save.go) could be cut. The types of
// functions, handles and results of attempt would then be exported, with fields that only a run may set.
package sandbox
