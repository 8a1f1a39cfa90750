package projector

// Invariants reports whether this build panics on violated invariants.
const Invariants = invariants

// Unexported constants for the tests.
const (
	BaseVersion     = baseVersion
	SegmentRequests = segmentRequests
	UnansweredText  = unansweredText
)
