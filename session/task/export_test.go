package task

// For tests.
var (
	CheckClaim = checkClaim
	StartArmed = startArmed
)
