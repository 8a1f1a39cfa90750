package chat

import "time"

// waits reports a long wait once.
type waits struct {
	ticker   *time.Ticker
	what     string
	ticks    int // since the wait began
	reported bool
}

// tick is the interval of the checks.
const tick = 500 * time.Millisecond

func newWaits() *waits { return &waits{ticker: time.NewTicker(tick)} }

func (w *waits) C() <-chan time.Time { return w.ticker.C }
func (w *waits) stop()               { w.ticker.Stop() }

// late is what, at the tick at which the wait counts as long; else empty.
func (w *waits) late(what string) string {
	if what != w.what {
		w.what, w.ticks, w.reported = what, 0, false
	}
	w.ticks++
	if w.reported || what == "" || time.Duration(w.ticks)*tick <= slow {
		return ""
	}
	w.reported = true
	return what
}
