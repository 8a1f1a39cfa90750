package wake

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
)

// fetchWait limits the wait of one pull.
const fetchWait = 10 * time.Second

// Fetcher pulls messages for a worker: wakes of a class, or timers.
type Fetcher struct {
	Free  func() int      // capacity for further messages
	Freed <-chan struct{} // receives when capacity may have grown
	// Pull fetches up to n messages within wait. recreated: the stored messages were lost, see [bus.Queue.Fetch].
	Pull      func(ctx context.Context, n int, wait time.Duration) (recreated bool, err error)
	QueueLost func() // called after such a loss
	Log       *zap.Logger
}

// Run pulls until ctx ends. It logs errors and retries.
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
		recreated, err := f.Pull(ctx, free, fetchWait)
		if recreated {
			f.QueueLost()
		}
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("fetch", zap.Error(err))
			delay.Sleep(ctx, time.Second)
		}
	}
}
