//go:build invariants

package projector

// invariants makes Apply check the whole state after every commit. For tests: it costs as much as the history is long.
const invariants = true
