//go:build !nolook

package sim

// looks is whether a worker looks at the log before it acknowledges a wake that
// came since its last look or append. The tag nolook takes that away: the
// simulation must notice.
const looks = true
