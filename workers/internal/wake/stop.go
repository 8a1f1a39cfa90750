package wake

import (
	"context"
	"sync"
	"time"
)

// StopWait limits the time that a cancelled effect has to return.
const StopWait = 5 * time.Second

// Ended waits for a group until ctx ends, and reports whether the group has ended.
func Ended(ctx context.Context, group *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }() // ends with the group, which the owner of the group cancels
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// EndedSoon is Ended for a group that was cancelled: it waits for [StopWait].
func EndedSoon(group *sync.WaitGroup) bool {
	ctx, cancel := context.WithTimeout(context.Background(), StopWait) // the context of the caller has ended
	defer cancel()
	return Ended(ctx, group)
}
