package follow_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// unsteady fails reads of bodies.
type unsteady struct {
	*bus.Bus
	failures int // of the reads that follow
	err      error
	reads    int
}

// Blob implements [follow.BlobReader].
func (u *unsteady) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if u.reads++; u.failures > 0 {
		u.failures--
		return nil, fmt.Errorf("blob %s: %w", ref.Digest, u.err)
	}
	return u.Bus.Blob(ctx, ref)
}

// firsts is a log that records the first sequence of each read.
type firsts struct {
	events.Log
	from []events.Seq
}

// Read implements [events.Log].
func (l *firsts) Read(ctx context.Context, session events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	l.from = append(l.from, from)
	return l.Log.Read(ctx, session, from)
}

// TestTransientReads loads a session while reads of its bodies fail. After a transient failure the body is read again, and the
// state is kept; where the servers never answer, that is the error. Only a body that is lost leads to a fold from the log.
func TestTransientReads(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 40, 10)
	mustProject(t, b, "s")
	grow(t, b, "s", 40, 43, 1)
	want := encoded(t, refold(t, b, "s"))
	for name, c := range map[string]struct {
		failures int
		err      error
		refolds  bool
		fails    bool
	}{
		"none":      {0, nil, false, false},
		"one":       {1, events.ErrOutcomeUnknown, false, false},
		"some":      {4, events.ErrOutcomeUnknown, false, false},
		"no_answer": {1000, events.ErrOutcomeUnknown, false, true},
		"lost":      {1, bus.ErrNotFound, true, false},
		"damaged":   {1, events.ErrMalformed, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobs, log := &unsteady{Bus: b, failures: c.failures, err: c.err}, &firsts{Log: b.Log()}
			s, err := follow.WholeOf(t.Context(), b, log, blobs, "s")
			if (err != nil) != c.fails || c.fails && !errors.Is(err, events.ErrOutcomeUnknown) {
				t.Fatalf("got %v, want a failure: %v", err, c.fails)
			}
			if log.from[0] != 41 || (len(log.from) > 1) != c.refolds {
				t.Errorf("reads of the log: got from %v, want from 41, and from 1 as well: %v", log.from, c.refolds)
			}
			if err == nil && string(encoded(t, s)) != string(want) {
				t.Error("the state differs from that of the fold")
			}
			if blobs.reads <= c.failures && !c.fails && !c.refolds {
				t.Errorf("got %d reads of bodies, with %d failures", blobs.reads, c.failures)
			}
		})
	}
}
