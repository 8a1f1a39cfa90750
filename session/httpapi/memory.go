package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/lash-go/lash/session/memory"
)

// smallBody is the size, in bytes, up to which a body takes no memory of the pool: the slots of requests bound those.
const smallBody = 64 << 10

// A body of a request is in memory as its bytes, their values and a message to the log; one that is stored or read as it is, twice.
const (
	copiesOfJSON = 4
	copiesOfBlob = 2
)

// memoryShare is the part of a short request's time that it waits for memory.
const memoryShare = 4

// take takes memory of the pool until the request is answered: the first one in the order of requests, and further ones without a wait.
func (c *httpRequest) take(bytes int64) error {
	var give func()
	var err error
	if len(c.taken) > 0 {
		give, err = c.s.cfg.Memory.TakeNow(c.caller.Name, bytes)
	} else {
		ctx, cancel := context.WithTimeout(c.Context(), c.s.cfg.RequestTimeout/memoryShare)
		give, err = c.s.cfg.Memory.Take(ctx, c.caller.Name, bytes)
		cancel()
	}
	switch {
	case errors.Is(err, memory.ErrBusy):
		return errMemory
	case err != nil:
		return err
	}
	c.taken = append(c.taken, give)
	return nil
}

// compute runs what needs much of a processor, of a request that has taken memory: half of the processors are for the others.
func (c *httpRequest) compute(do func() error) error {
	if len(c.taken) == 0 {
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

// giveBack returns all memory that the request has taken.
func (c *httpRequest) giveBack() {
	for _, give := range c.taken {
		give()
	}
	c.taken = nil
}

var errMemory = &problem{
	Status: http.StatusTooManyRequests, Code: "memory_in_use", Detail: "requests of this caller, or of all, have the memory of this node that is for requests",
	Details: map[string]string{"limit": "memory"}, retry: retryAfter,
}
