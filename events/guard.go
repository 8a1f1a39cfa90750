//go:build !unguarded

package events

// checksExpected makes [MemLog] refuse an append with a wrong expected sequence. The build tag unguarded turns the
// check off: then the simulation must fail.
const checksExpected = true
