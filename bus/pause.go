package bus

import (
	"context"
	"time"

	"github.com/lash-go/lash/bus/delay"
)

// pause waits after try n, from 2 ms to half a second.
func pause(ctx context.Context, n int) error {
	if !delay.Sleep(ctx, delay.Backoff(2*time.Millisecond, 500*time.Millisecond, n)) {
		return context.Cause(ctx)
	}
	return nil
}
