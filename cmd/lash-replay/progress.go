package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
)

// progress prints the progress of a long verification to stderr. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	now   func() time.Time
	began time.Time

	mu      sync.Mutex
	printed time.Time
}

const (
	// quietFor is the time without output: a short verification prints no progress.
	quietFor = 2 * time.Second
	// progressEvery is the interval of progress lines after that.
	progressEvery = time.Second
)

// of prints the progress of one session.
func (p *progress) of(id events.SessionID) func(at, last events.Seq) {
	return func(at, last events.Seq) { p.print(id, at, last) }
}

// print prints, at intervals, the current commit of the verification.
func (p *progress) print(id events.SessionID, at, last events.Seq) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) < quietFor || now.Sub(p.printed) < progressEvery {
		return
	}
	p.printed = now
	_, _ = fmt.Fprintf(p.w, "lash-replay: session %s, commit %d of %d\n", id, at, last)
}
