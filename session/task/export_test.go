package task

// For tests.
var (
	CheckClaim = checkClaim
	StartArmed = startArmed
)

// Limits, for tests.
const (
	MaxHidden   = maxHidden
	MaxLeftArgs = maxLeftArgs
)
