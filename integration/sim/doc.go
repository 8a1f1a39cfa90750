// Package sim simulates the whole protocol. Several nodes, hosts and clients run the pure machines over a log that
// loses, delays and refuses, a queue of wakes, timers, and a simulated clock. Rapid draws the process of each step and
// its faults. After each step the histories are verified. Rapid reduces a failing seed to the shortest script that
// still fails.
//
//	go test ./integration/sim -rapid.checks=100000 -rapid.seed=7
//
// The nodes drive the machine of package session/work, which is the code that workers run, and decide about tasks with session/task, as package
// workers/internal/task does. Between any two steps of a node other processes may act, and the node may freeze or die.
//
// A schedule is of one of two kinds:
//
//	lossy     wakes are lost, and hosts die between an append and its wake; the sweep runs
//	lossless  no publish is lost, and no host dies there; everything must end without the sweep
//
// Two build tags remove a guard, and the simulation must fail: unguarded (the log ignores expected sequences) and
// nolook (a worker acknowledges a wake without a read of the log).
package sim
