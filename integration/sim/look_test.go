//go:build !nolook

package sim

// looks reports whether a worker reads the end of the log before it acknowledges a wake that arrived after its last
// read or append. The tag nolook disables this guard, and the simulation must fail.
const looks = true
