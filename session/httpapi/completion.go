package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// streamCompletion starts a stream once the reply starts, or after a short wait. A refusal before that is a normal
// response, outside of the stream.
func streamCompletion(c *httpRequest) (reply, error) {
	var args operation.CompleteArgs
	if err := c.read(new(newCompletionJSON), &args); err != nil {
		return reply{}, err
	}
	run := c.startCompletion(args)
	long := time.NewTimer(c.s.cfg.KeepAlive)
	defer long.Stop()
	select {
	case <-long.C:
	case <-run.pending:
		run.signal() // wakes the reader of the deltas
	case <-run.ended:
		if run.err != nil && !run.hasDeltas() {
			return reply{}, run.err
		}
	}
	return reply{stream: run.messages, release: run.stop, outcome: true}, nil
}

// maxDeltas limits the waiting deltas. Above it a delta is appended to the last delta of its kind. The order of the
// kinds is then lost, and the memory stays proportional to the text.
const maxDeltas = 256

// completionRun is a completion that runs independently of the client's reading speed. It buffers what the client has
// not read: at most one reply.
type completionRun struct {
	pending chan struct{} // signalled when a delta waits
	ended   chan struct{}
	stop    func() // cancels the completion and waits for its end

	result plugin.Completion // set, like err, when it has ended
	err    error

	mu     sync.Mutex
	deltas []mergedDelta
}

// mergedDelta is a delta to which further text can be appended.
type mergedDelta struct {
	kind  events.PartKind
	text  []byte
	reset bool
}

// startCompletion starts a completion, which is cancelled at the end of the call.
func (c *httpRequest) startCompletion(args operation.CompleteArgs) *completionRun {
	run := &completionRun{pending: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(operation.WithStream(c.Context(), run.add))
	run.stop = func() {
		cancel()
		<-run.ended
	}
	go func() { // stop waits for this goroutine
		defer close(run.ended)
		defer func() {
			if v := recover(); v != nil {
				run.err = panicError(v)
			}
		}()
		run.result, run.err = operation.Complete.Do(ctx, c.s.cfg.Service, c.session, args)
	}()
	return run
}

// add adds the next delta.
func (run *completionRun) add(d plugin.CompletionDelta) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if d.Reset { // a reset also discards the waiting deltas
		run.deltas = []mergedDelta{{reset: true}}
	} else if p := run.mergeTarget(d); p != nil {
		p.text = append(p.text, d.Text...)
	} else {
		run.deltas = append(run.deltas, mergedDelta{kind: d.Kind, text: []byte(d.Text)})
	}
	run.signal()
}

// mergeTarget returns the delta to append a delta to; nil: the delta is a delta of its own.
func (run *completionRun) mergeTarget(d plugin.CompletionDelta) *mergedDelta {
	for i := len(run.deltas) - 1; i >= 0 && (i == len(run.deltas)-1 || len(run.deltas) >= maxDeltas); i-- {
		p := &run.deltas[i]
		if p.kind == d.Kind && !p.reset {
			if len(p.text)+len(d.Text) > plugin.MaxDeltaBytes {
				return nil
			}
			return p
		}
	}
	return nil
}

// signal signals that a delta waits.
func (run *completionRun) signal() {
	select {
	case run.pending <- struct{}{}:
	default:
	}
}

// hasDeltas reports whether a delta waits.
func (run *completionRun) hasDeltas() bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	return len(run.deltas) > 0
}

// takeDeltas removes and returns the waiting deltas.
func (run *completionRun) takeDeltas() []mergedDelta {
	run.mu.Lock()
	defer run.mu.Unlock()
	list := run.deltas
	run.deltas = nil
	return list
}

// messages yields the deltas, and then the result or the error.
func (run *completionRun) messages(yield func(message, error) bool) {
	for ended := false; !ended; {
		select {
		case <-run.pending:
		case <-run.ended:
			ended = true
		}
		for _, p := range run.takeDeltas() {
			if !yield(message{name: "delta", data: plugin.CompletionDelta{Kind: p.kind, Text: string(p.text), Reset: p.reset}}, nil) {
				return
			}
		}
	}
	yield(message{name: "result", data: shown(new(completedJSON), run.result)}, run.err)
}
