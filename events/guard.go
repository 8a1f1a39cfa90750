//go:build !unguarded

package events

// checksExpected is what keeps two deciders apart in a [MemLog]. The tag
// unguarded takes it away: the simulation must notice.
const checksExpected = true
