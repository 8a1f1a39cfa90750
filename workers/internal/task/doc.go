// Package task runs background tasks, monitors, and tool calls for turns on other nodes ([Service]).
//
// The history registers a task. The queue has the task's wake until the task has ended, and the worker that runs the
// task owns the wake:
//
//	registered ──► wake delivered ──► claimed: attempt n ──► work ends ──► end appended ──► wake acked
//	                    ▲                      │
//	                    └── no progress for AckWait: another worker receives the wake
//
// The other worker asks the first whether it still runs the task. Without a response it appends the next start, or
// the end of a task that must not start twice. The guarded append decides between two workers.
//
// A hidden task belongs to the process that spawned it. No other process runs it: it fails when its process dies.
package task
