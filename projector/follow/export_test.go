package follow

import "time"

// WholeOf is [Whole] with another log and other blobs.
var WholeOf = whole

// ReferWithin sets how much older than the commit that refers to it a body is at most.
func (s *BlobSweeper) ReferWithin(d time.Duration) { s.within = d }
