// Package hint publishes wakes and timers, by which workers learn that a session needs a worker. A hint that is lost costs time
// alone, as the sweep of the workers finds what the history needs.
package hint
