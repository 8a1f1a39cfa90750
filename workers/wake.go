package workers

import (
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/bus"
)

// errLater is a wake that comes while a turn runs, which may take its inputs.
var errLater = errors.New("a turn runs")

// needless reports whether a wake has nothing of its own to start: no input
// waits, or a queued turn is going to take it. It looks at the log first.
func (r *run) needless(ctx context.Context) (bool, error) {
	if err := r.catchUp(ctx); err != nil {
		return false, err
	}
	if r.state.Turn() != nil {
		return false, errLater
	}
	return len(r.state.Inputs) == 0 || len(r.state.Queue) > 0, nil
}

// later is how long a wake waits that met a running turn, which may be parked for days.
func later(j *bus.Job) time.Duration {
	return min(time.Second<<min(max(j.Deliveries-1, 0), 10), 10*time.Second)
}
