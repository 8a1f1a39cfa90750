package projector

// Invariants reports whether this build panics on violated invariants.
const Invariants = invariants
