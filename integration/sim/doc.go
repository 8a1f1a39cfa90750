// Package sim simulates the whole protocol. Several nodes, hosts and clients run the pure machines over a log that
// loses, delays and refuses, a queue of wakes, timers, and a simulated clock. Rapid draws the process of each step and
// its faults. After each step the histories are verified. Rapid reduces a failing seed to the shortest script that
// still fails.
//
//	go test ./integration/sim -rapid.checks=100000 -rapid.seed=7
//
// The nodes drive the machine of package session/work, which is the code that workers run, and decide with session/turn, session/task and
// projector. Between any two steps of a node other processes may act, and the node may freeze or die.
//
// Of tasks the nodes take the steps of package workers/internal/task, one for one, under the same names. TestSimulationMatchesTasks compares the
// steps with the source of that package. It compares names of functions and of the calls that they make, and no conditions: it fails when a
// function there is added or renamed, or makes other calls of the listed names, or in another order. Of pairs that are
// marked loose it compares only that both functions exist.
//
// A schedule is of one of two kinds:
//
//	lossy     wakes are lost, and hosts die between an append and its wake; the sweep runs
//	lossless  no publish is lost, and no host dies there; everything must end without the sweep
//
// Two build tags remove a guard, and the simulation must fail: unguarded (the log ignores expected sequences) and
// nolook (a worker acknowledges a wake without a read of the log).
package sim
