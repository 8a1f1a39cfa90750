package chat

import "time"

// waits says once for what a chat waits that waits for long.
type waits struct {
	ticker *time.Ticker
	what   string
	ticks  int // since that began
	told   bool
}

// tick is how often it is looked at.
const tick = 500 * time.Millisecond

func newWaits() *waits { return &waits{ticker: time.NewTicker(tick)} }

func (w *waits) C() <-chan time.Time { return w.ticker.C }
func (w *waits) stop()               { w.ticker.Stop() }

// late is what is waited for, at the tick at which that lasts for long; else empty.
func (w *waits) late(what string) string {
	if what != w.what {
		w.what, w.ticks, w.told = what, 0, false
	}
	w.ticks++
	if w.told || what == "" || time.Duration(w.ticks)*tick <= slow {
		return ""
	}
	w.told = true
	return what
}
