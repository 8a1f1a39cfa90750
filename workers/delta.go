package workers

import (
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/llm"
)

// deltaEvery is how long streamed output gathers before it is published. A
// reply that is whole sooner is seen in its commit and publishes none.
const deltaEvery = 25 * time.Millisecond

// deltas gathers one model call's streamed output and publishes it.
type deltas struct {
	b       *bus.Bus
	session events.SessionID

	mu    sync.Mutex
	next  session.Delta // what gathers, and where
	timer *time.Timer
	done  bool
}

func newDeltas(b *bus.Bus, id events.SessionID, turn events.TurnID, iteration int64) *deltas {
	return &deltas{b: b, session: id, next: session.Delta{
		Turn: turn, Iteration: iteration, Call: time.Now().UnixNano(), Attempt: 1,
	}}
}

// add is the provider's sink.
func (d *deltas) add(delta llm.Delta) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done || delta.Text == "" {
		return
	}
	if d.next.Kind != delta.Kind {
		d.publishLocked()
		d.next.Kind = delta.Kind
	}
	d.next.Text += delta.Text
	if d.timer == nil {
		d.timer = time.AfterFunc(deltaEvery, d.tick)
	}
}

func (d *deltas) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = nil
	if !d.done {
		d.publishLocked()
	}
}

// publishLocked sends what gathered. A lost delta is a gap that the commit closes.
func (d *deltas) publishLocked() {
	if d.next.Text == "" && d.next.Retry.IsZero() {
		return
	}
	if data, err := events.EncodePayload(&d.next); err == nil {
		_ = d.b.PublishDelta(d.session, d.next.Turn, data)
	}
	d.next.N++
	d.next.Text, d.next.Retry = "", session.RetryStatus{}
}

// sideMessages sends what running code says to those who watch.
func (w *Worker) sideMessages(id events.SessionID, turn events.TurnID, iteration int64) func(text, kind string) {
	return func(text, kind string) {
		d := session.Delta{Turn: turn, Iteration: iteration, Message: session.SideMessage{Text: clip(text), Kind: clip(kind)}}
		if data, err := events.EncodePayload(&d); err == nil {
			_ = w.cfg.Bus.PublishDelta(id, turn, data)
		}
	}
}

// retry retracts the failed attempt's text and says how long the wait is.
func (d *deltas) retry(attempt, attempts int, wait time.Duration, failure *llm.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next.Text = ""
	d.next.Kind = ""
	d.next.Attempt, d.next.N = int64(attempt)+1, 0
	d.next.Retry = session.RetryStatus{
		WaitMillis: wait.Milliseconds(), Attempt: int64(attempt), Attempts: int64(attempts), Reason: failure.Error(),
	}
	d.publishLocked()
}

// stop drops what gathers: the commit follows.
func (d *deltas) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	if d.timer != nil {
		d.timer.Stop()
	}
}
