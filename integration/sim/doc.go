// Package sim simulates the whole protocol: the pure machines of several
// nodes, hosts and clients, over a log that loses, delays and refuses, a queue
// of wakes, timers, and a clock of its own. Rapid draws which of them makes its
// next step and what goes wrong; after each step the histories are verified. A
// failing seed is cut down to the shortest script that still fails.
//
//	go test ./integration/sim -rapid.checks=100000 -rapid.seed=7
//
// The nodes are written anew here, step for step as packages workers/internal/run
// and workers/internal/task do it, so that every point between two of their
// steps is one at which others act, the node stops for any time, or dies. What
// decides is the product's own: session/turn, session/task, projector.
//
// A schedule is of one of two kinds. Either hints are lost and hosts die
// between an append and its wake: then the sweep runs. Or no publish is lost
// and no host dies there: then everything must end without the sweep.
//
// Two build tags take a guard away, and the simulation must notice:
// unguarded (the log ignores expected sequences) and nolook (a worker
// acknowledges a wake without a look at the log).
package sim
