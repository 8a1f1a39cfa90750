//go:build invariants

package projector

// invariants makes the end of every commit check the whole state, in Apply, Committed and CommittedUnproven. It is for tests: its cost grows with the history.
const invariants = true
