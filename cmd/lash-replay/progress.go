package main

import (
	"fmt"
	"io"
	"time"

	"github.com/lash-go/lash/events"
)

// progress tells on stderr how far a long verification is.
type progress struct {
	w     io.Writer
	now   func() time.Time
	began time.Time
	told  time.Time
}

const (
	// quietFor is how long nothing is told: what is quick needs no progress.
	quietFor = 2 * time.Second
	// tellEvery is how often progress is told then.
	tellEvery = time.Second
)

// tell says, now and then, at which commit of a session the verification is.
func (p *progress) tell(id events.SessionID, at, last events.Seq) {
	now := p.now()
	if now.Sub(p.began) < quietFor || now.Sub(p.told) < tellEvery {
		return
	}
	p.told = now
	_, _ = fmt.Fprintf(p.w, "lash-replay: session %s, commit %d of %d\n", id, at, last)
}
