package callback

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lash-go/lash/session/plugin/wire"
)

// A call keeps the answers of its callbacks for repeats. An instance repeats a callback without an answer every
// [wire.CallbackRepeat], so one that does not for answersKept has its answer.
const (
	answersKept   = 30 * wire.CallbackRepeat
	maxAnswerSize = 16 * wire.MaxCallbackAnswer // of the bodies of one call; the oldest ones are dropped
)

// Ledger has the callbacks of one call and their answers. The zero Ledger is empty.
type Ledger struct {
	work sync.WaitGroup

	mu      sync.Mutex
	running map[string]bool
	answers map[string]*wire.CallbackAnswer // for repeats; nil: the body is dropped
	ended   []performed                     // of answers, in the order of their ends
	bodies  int                             // of ended: those before have no body
	size    int                             // of the bodies
}

// performed is a callback that has its answer.
type performed struct {
	id string
	at time.Time
}

// Wait waits for the callbacks that run.
func (l *Ledger) Wait() { l.work.Wait() }

// Go runs a callback, which Wait waits for.
func (l *Ledger) Go(run func()) { l.work.Go(run) }

// Knows reports whether a callback runs, or has its answer.
func (l *Ledger) Knows(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, answered := l.answers[id]
	return l.running[id] || answered
}

// Begin reports whether a callback has to run. Otherwise it runs, or has the answer.
func (l *Ledger) Begin(id string) (run bool, answer *wire.CallbackAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer, answered := l.answers[id]
	switch {
	case l.running[id]:
		return false, nil
	case answered && answer == nil:
		return false, Problem(http.StatusGone, "gone", "", "the callback was performed, and its answer is no longer kept")
	case answered:
		return false, answer
	case len(l.running) >= wire.MaxCallbacks:
		return false, Problem(http.StatusTooManyRequests, "too_many_requests", "callbacks", fmt.Sprintf("a call waits for at most %d callbacks at once", wire.MaxCallbacks))
	}
	if l.running == nil {
		l.running, l.answers = make(map[string]bool), make(map[string]*wire.CallbackAnswer)
	}
	l.running[id] = true
	return true, nil
}

// End keeps the answer of a callback, which is not performed again: where there are too many answers, the oldest ones
// lose their bodies, and are forgotten when nothing repeats them any more.
func (l *Ledger) End(id string, answer *wire.CallbackAnswer, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
	l.answers[id] = answer
	l.ended = append(l.ended, performed{id, now})
	for l.size += len(answer.Body); l.size > maxAnswerSize; l.bodies++ {
		l.dropBodyLocked(l.ended[l.bodies].id)
	}
	for now.Sub(l.ended[0].at) > answersKept {
		l.dropBodyLocked(l.ended[0].id)
		delete(l.answers, l.ended[0].id)
		l.ended, l.bodies = l.ended[1:], max(l.bodies-1, 0)
	}
}

func (l *Ledger) dropBodyLocked(id string) {
	if answer := l.answers[id]; answer != nil {
		l.size -= len(answer.Body)
		l.answers[id] = nil
	}
}
