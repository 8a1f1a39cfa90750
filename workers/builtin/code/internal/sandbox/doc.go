// Package sandbox runs the programs of the protocol code: Starlark that a model
// wrote and that calls tools. It calls tools through a [Caller].
//
// # Guarantees
//
// The same code, state and answers give the same [Response], with the same steps. After a crash the caller runs the code
// again and returns recorded answers by ordinal. Time and memory are the exception: a program that one of them stops
// leaves its error, what it printed and its calls, and no variables. A panic of the interpreter, of a tool or of this
// package becomes an error.
//
// # The process
//
// Each program runs in a process of its own. It has no environment, reads and writes nothing but the pipes to the node
// (process.go has the messages), and ends with its run, with the run's context, and with the node. It is this executable
// again, under another name: the init function of this package does not return there. So every program that imports
// lash can run programs, also a test, and none has to do anything for it. Packages that Go initializes before this one
// are initialized in the process too: what they print is dropped, and if one of them ends the process, Run returns an
// error.
//
// A process starts in about five times the time of an empty Go program, 10 ms to 40 ms. While its program waits for a tool, it keeps
// some 10 MiB of its own, and what the program has.
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
// end it. Arguments of tools and the value of finish are JSON of at most 16 MiB; a set is an array.
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
//   - Steps of the interpreter, exactly. One step may do any amount of work.
//   - Memory that the program has at once; its process looks every 10 ms. Garbage does not count: the collector works
//     the harder the nearer the limit is, so that a program there may also run out of time. On Linux the system gives
//     the process at most three times the limit and 64 MiB beyond what it began with: a step that wants that much ends
//     it at once, also one that nests too deeply for its stack. On other systems such a step takes its memory until
//     the process looks.
//   - Memory of all programs together, where the caller gives a pool: a program waits for its share, and fails after 10 s.
//   - Time: the process is killed, in the middle of a step too. The time of its tools and of its start does not count.
//   - Code, output, variables, calls, waits, messages, shown attachments; the parser limits how deeply code nests.
//
// A process that ends in any other way before its program, such as by a signal, counts as beyond its memory.
//
// Not limited: the answer of a Caller, in the node. A Caller that ignores its context delays the run. The package protects
// against mistakes and greed of a model within the language, not against a bug of the interpreter that runs other code:
// the process has the rights of the node's user.
package sandbox
