//go:build !unix

package serve

import "math"

// openFiles is the limit of open files. This system has none.
func openFiles() (uint64, error) { return 1 << 20, nil }

// hardLimits are those of the processor time and the data of processes. This system has none.
func hardLimits() (seconds, bytes uint64, err error) { return math.MaxUint64, math.MaxUint64, nil }
