package projector

// Invariants reports whether this build panics on broken invariants.
const Invariants = invariants
