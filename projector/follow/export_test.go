package follow

// WholeOf is [Whole] with another log and other blobs.
var WholeOf = whole
