package call

import (
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// deltaEvery is the interval between published batches of streamed output. A shorter reply publishes none, because
// its commit has the text.
const deltaEvery = 25 * time.Millisecond

// deltas publishes the streamed output of one model call in batches.
type deltas struct {
	b       *bus.Bus
	session events.SessionID
	quiet   bool // nothing is published

	mu    sync.Mutex
	next  api.Delta // the pending batch, and its position
	timer *time.Timer
	done  bool
}

func newDeltas(b *bus.Bus, quiet bool, id events.SessionID, turn events.TurnID, iteration int64) *deltas {
	return &deltas{b: b, quiet: quiet, session: id, next: api.Delta{
		Turn: turn, Iteration: iteration, Call: b.Now().UnixNano(), Attempt: 1, // another node's are compared with it
	}}
}

// add is the provider's sink.
func (d *deltas) add(delta llm.Delta) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done || d.quiet || delta.Text == "" {
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

// publishLocked sends the pending batch. A delta that is lost is a gap until the commit.
func (d *deltas) publishLocked() {
	if d.next.Text == "" && d.next.Retry.IsZero() && d.next.Event.IsZero() {
		return
	}
	if data, err := events.EncodePayload(&d.next); err == nil {
		_ = d.b.PublishDelta(d.session, d.next.Turn, data)
	}
	d.next.N++
	d.next.Text, d.next.Retry, d.next.Event = "", api.RetryStatus{}, api.PluginEvent{}
}

// event publishes what a plugin shows, at once.
func (d *deltas) event(e api.PluginEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done || d.quiet || len(e.Data) > api.MaxEventBytes {
		return
	}
	d.publishLocked()
	d.next.Kind, d.next.Event = "", e
	d.publishLocked()
}

// MessageSender publishes the messages of running code to the observers of a session. They are not recorded.
func (e *Env) MessageSender(id events.SessionID, turn events.TurnID, iteration int64) func(text, kind string) {
	return func(text, kind string) {
		if e.Quiet {
			return
		}
		d := api.Delta{Turn: turn, Iteration: iteration, Message: api.SideMessage{Text: clip(text), Kind: clip(kind)}}
		if data, err := events.EncodePayload(&d); err == nil {
			_ = e.Bus.PublishDelta(id, turn, data)
		}
	}
}

// retry retracts the failed attempt's text and publishes the wait.
func (d *deltas) retry(attempt, attempts int, wait time.Duration, failure *llm.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.quiet {
		return
	}
	d.next.Text = ""
	d.next.Kind = ""
	d.next.Attempt, d.next.N = int64(attempt)+1, 0
	d.next.Retry = api.RetryStatus{
		WaitMillis: wait.Milliseconds(), Attempt: int64(attempt), Attempts: int64(attempts), Reason: failure.Error(),
	}
	d.publishLocked()
}

// stop discards the pending batch: the commit follows.
func (d *deltas) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	if d.timer != nil {
		d.timer.Stop()
	}
}
