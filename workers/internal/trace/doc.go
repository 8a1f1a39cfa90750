// Package trace exports what sessions do: [Commit] makes trace records of a commit, [File] writes trace records to a
// file.
//
// Turns and tool calls are traced from commits in the log, so each is traced once, even if nodes crash or effects run
// again. A commit whose node crashes between the append and the trace is in the history only.
//
// Neither blocks a turn: a [File] counts and drops the lines that it cannot write in time.
package trace
