package wake

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
)

// fetchWait bounds how long one pull waits.
const fetchWait = 10 * time.Second

// Fetcher pulls what comes for a worker: wakes of a class, or timers.
type Fetcher struct {
	Free  func() int      // for how many more there is room
	Freed <-chan struct{} // there may be room
	// Pull takes up to n, as many as come within wait; remade: what was stored is lost, see [bus.Queue.Fetch].
	Pull func(ctx context.Context, n int, wait time.Duration) (remade bool, err error)
	Lost func() // is told of that
	Log  *zap.Logger
}

// Run pulls until ctx ends. Errors are logged, and tried again.
func (f Fetcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		free := f.Free()
		if free == 0 {
			select {
			case <-f.Freed:
			case <-ctx.Done():
			}
			continue
		}
		remade, err := f.Pull(ctx, free, fetchWait)
		if remade {
			f.Lost()
		}
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("fetch", zap.Error(err))
			bus.Sleep(ctx, time.Second)
		}
	}
}
