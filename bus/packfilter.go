package bus

import (
	"hash/fnv"

	"github.com/lash-go/lash/events"
)

// PackFilter is a set of sessions, as a Bloom filter: it has every session that was added, and one in a hundred of the others.
type PackFilter []byte

// Bits of a filter: of each session in it, and how many of them are set.
const (
	filterBits   = 10
	filterHashes = 7
)

// NewPackFilter makes the filter of sessions.
func NewPackFilter(sessions []events.SessionID) PackFilter {
	f := make(PackFilter, len(sessions)*filterBits/8+1)
	for _, id := range sessions {
		f.each(id, func(bit uint64) bool {
			f[bit/8] |= 1 << (bit % 8)
			return true
		})
	}
	return f
}

// Has reports whether a session may have been added. An empty filter may have every session.
func (f PackFilter) Has(session events.SessionID) bool {
	has := true
	f.each(session, func(bit uint64) bool {
		has = f[bit/8]&(1<<(bit%8)) != 0
		return has
	})
	return has
}

func (f PackFilter) each(session events.SessionID, visit func(bit uint64) bool) {
	if len(f) == 0 {
		return
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(session)) // never fails
	sum := h.Sum64()
	step := sum>>32 | 1
	for i := range uint64(filterHashes) {
		if !visit((sum + i*step) % (8 * uint64(len(f)))) {
			return
		}
	}
}
