// Package task runs background tasks, monitors, and tool calls of turns that run
// on another node ([Service]). It imports bus, call, events, projector, session,
// session/task and wake.
//
// A task is registered in the history. Its wake is in the queue until the task
// has ended: the worker that runs the task holds the wake. When that worker is
// silent another one gets the wake, asks the first whether it still runs the
// task, and where no answer comes appends the next start, or the end of a
// task that may not start twice. The guarded append decides between two workers.
//
// A hidden task is of the process that spawned it, and in no history. An await
// sees those of its own process alone. When the process dies they are gone; what
// they appended stays, and what they had not is not done by another process.
package task
