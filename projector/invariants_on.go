//go:build invariants

package projector

// invariants makes Apply check the whole state after every commit. It is for tests: its cost grows with the history.
const invariants = true
