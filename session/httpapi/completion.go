package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// CompletionDelta is a piece of a reply outside of turns: never truth, as the result is.
type CompletionDelta struct {
	Kind  events.PartKind `json:"kind,omitempty" jsonschema:"text or reasoning; no other kind comes in pieces"`
	Text  string          `json:"text,omitempty"`
	Reset bool            `json:"reset,omitempty" jsonschema:"instead of both: what came so far is taken back, as the try failed"`
}

// streamCompletion answers with a stream once the reply begins, or is long in coming. What rules it out before is an answer, and not in the stream.
func streamCompletion(c *call, in NewCompletion) (reply, error) {
	args, err := in.args(c)
	if err != nil {
		return reply{}, err
	}
	run := c.completing(args)
	long := time.NewTimer(c.s.cfg.KeepAlive)
	defer long.Stop()
	select {
	case <-long.C:
	case <-run.news:
		run.tell() // those who read the pieces
	case <-run.ended:
		if run.err != nil && !run.any() {
			return reply{}, run.err
		}
	}
	return reply{stream: run.messages, release: run.stop, outcome: true}, nil
}

// maxWaits bounds the pieces that wait. Beyond it a delta is appended to the last piece of its kind, so the order of the
// kinds is lost, and the memory stays proportional to the text.
const maxWaits = 256

// completing is a completion that goes on beside the request that shows it, however slowly the client reads. What
// the client has not read yet waits here: never more than one reply.
type completing struct {
	news  chan struct{} // has one where something waits
	ended chan struct{}
	stop  func() // ends it, and waits for that

	got plugin.Completion // like err once it has ended
	err error

	mu    sync.Mutex
	waits []piece
}

// piece is a delta that grows.
type piece struct {
	kind  events.PartKind
	text  []byte
	reset bool
}

// completing starts a completion, which ends with the call.
func (c *call) completing(args operation.CompleteArgs) *completing {
	run := &completing{news: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(operation.WithStream(c.Context(), run.add))
	run.stop = func() {
		cancel()
		<-run.ended
	}
	go func() { // stop waits for it
		defer close(run.ended)
		defer func() {
			if v := recover(); v != nil {
				run.err = panicError(v)
			}
		}()
		run.got, run.err = operation.Complete.Do(ctx, c.s.cfg.Service, c.session, args)
	}()
	return run
}

// add takes the next delta.
func (run *completing) add(d plugin.CompletionDelta) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if d.Reset { // also what waits
		run.waits = []piece{{reset: true}}
	} else if p := run.takes(d); p != nil {
		p.text = append(p.text, d.Text...)
	} else {
		run.waits = append(run.waits, piece{kind: d.Kind, text: []byte(d.Text)})
	}
	run.tell()
}

// takes is the piece that a delta joins; nil: none, it is one by itself.
func (run *completing) takes(d plugin.CompletionDelta) *piece {
	for i := len(run.waits) - 1; i >= 0 && (i == len(run.waits)-1 || len(run.waits) >= maxWaits); i-- {
		p := &run.waits[i]
		if p.kind == d.Kind && !p.reset {
			if len(p.text)+len(d.Text) > plugin.MaxDeltaBytes {
				return nil
			}
			return p
		}
	}
	return nil
}

// tell wakes who waits for news.
func (run *completing) tell() {
	select {
	case run.news <- struct{}{}:
	default:
	}
}

// any reports whether something waits.
func (run *completing) any() bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	return len(run.waits) > 0
}

// take is what waits.
func (run *completing) take() []piece {
	run.mu.Lock()
	defer run.mu.Unlock()
	list := run.waits
	run.waits = nil
	return list
}

// messages are the deltas, and at last the result or the error.
func (run *completing) messages(yield func(message, error) bool) {
	for ended := false; !ended; {
		select {
		case <-run.news:
		case <-run.ended:
			ended = true
		}
		for _, p := range run.take() {
			if !yield(message{name: "delta", data: CompletionDelta{Kind: p.kind, Text: string(p.text), Reset: p.reset}}, nil) {
				return
			}
		}
	}
	yield(message{name: "result", data: completed(run.got)}, run.err)
}
