package httpapi

import "context"

// smallBody is the size, in bytes, up to which a body takes no memory of the pool: the slots of requests bound those.
const smallBody = 64 << 10

// A body of a request is in memory as its bytes, their values and a message to the log; one that is stored or read as it is, twice.
const (
	copiesOfJSON = 4
	copiesOfBlob = 2
)

// memoryShare is the part of a short request's time that it waits for memory.
const memoryShare = 4

// compute runs what needs much of a processor, of a request that has taken memory: half of the processors are for the others.
func (c *httpRequest) compute(do func() error) error {
	if !c.memory.Holds() {
		return do()
	}
	select {
	case c.s.computing <- struct{}{}:
	case <-c.Context().Done():
		return context.Cause(c.Context())
	}
	defer func() { <-c.s.computing }()
	return do()
}
