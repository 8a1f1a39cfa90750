package eventstest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/lash-go/lash/events"
)

// Fault is a fault of one publish or one read.
type Fault int

// Faults. A fault that does not fit its call has no effect.
const (
	FaultNone       Fault = iota
	FaultLostBefore       // publish: it never arrives
	FaultLostAfter        // publish: it succeeds, its reply is lost
	FaultMoved            // publish: refused with a wrong ErrMoved
	FaultDelayed          // publish: its reply is lost, and it arrives just before a later publish
	FaultCut              // read: it ends after at most two commits
)

var faultNames = [...]string{"none", "lost_before", "lost_after", "moved", "delayed", "cut"}

func (f Fault) String() string { return faultNames[f] }

// FaultOptions selects the faults. Without script and rate there are none.
type FaultOptions struct {
	Script      []Fault // one fault per publish or read, in order; none after its end
	Seed        uint64  // seed of random faults, if Script is empty
	Rate        float64 // share of calls with a fault: 0 to below 1
	GiveUpAfter int     // number of attempts after which an append fails with ErrOutcomeUnknown; 0: only when ctx ends
}

// FaultyLog is an [events.Log] over another one that loses, delays and refuses. With [events.Settle] it keeps the
// promises of a log: reads resume after a cut, and appends retry.
type FaultyLog struct {
	inner events.Log
	opts  FaultOptions

	mu      sync.Mutex
	random  *rand.Rand
	trace   []Fault
	delayed []func(context.Context)
}

var (
	errCut    = errors.New("read was cut")
	errGiveUp = errors.New("out of tries")
)

// NewFaultyLog wraps inner.
func NewFaultyLog(inner events.Log, opts FaultOptions) *FaultyLog {
	return &FaultyLog{inner: inner, opts: opts, random: rand.New(rand.NewPCG(opts.Seed, 0))}
}

// Trace lists the fault of each publish and read so far. Used as a script, it repeats the same faults for calls in
// the same order.
func (l *FaultyLog) Trace() []Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.trace)
}

// draw selects the fault of one call among those that fit it.
func (l *FaultyLog) draw(fit ...Fault) Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := FaultNone
	switch {
	case len(l.trace) < len(l.opts.Script):
		f = l.opts.Script[len(l.trace)]
	case len(l.opts.Script) == 0 && l.random.Float64() < l.opts.Rate:
		f = fit[l.random.IntN(len(fit))]
	}
	l.trace = append(l.trace, f)
	return f
}

// Append implements [events.Log].
func (l *FaultyLog) Append(ctx context.Context, c *events.Commit, at events.Seq) (events.Seq, error) {
	data, err := events.Encode(c)
	if err != nil {
		return 0, err
	}
	if c, err = events.Decode(data); err != nil { // the caller may change its commit during a delayed publish
		return 0, err
	}
	return events.Settle(ctx, events.Publication{
		Commit:  c,
		At:      at,
		Publish: func(ctx context.Context) (events.Seq, error) { return l.publish(ctx, c, at) },
		Read: func(ctx context.Context, from events.Seq) iter.Seq2[events.Entry, error] {
			return l.readOnce(ctx, c.Session, from)
		},
		Last: func(ctx context.Context) (events.Seq, error) { return l.inner.Last(ctx, c.Session) },
		Wait: func(ctx context.Context, n int) error {
			if l.opts.GiveUpAfter > 0 && n >= l.opts.GiveUpAfter {
				return errGiveUp
			}
			return ctx.Err()
		},
	})
}

func (l *FaultyLog) publish(ctx context.Context, c *events.Commit, at events.Seq) (events.Seq, error) {
	l.arrive(ctx)
	fault := l.draw(FaultLostBefore, FaultLostAfter, FaultMoved, FaultDelayed)
	switch fault {
	case FaultLostBefore:
		return 0, fmt.Errorf("publish: %w", events.ErrOutcomeUnknown)
	case FaultMoved:
		return 0, fmt.Errorf("publish: %w", events.ErrMoved)
	case FaultDelayed:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.delayed = append(l.delayed, func(ctx context.Context) { _, _ = l.inner.Append(ctx, c, at) })
		return 0, fmt.Errorf("publish: %w", events.ErrOutcomeUnknown)
	default:
	}
	seq, err := l.inner.Append(ctx, c, at)
	if fault == FaultLostAfter {
		return 0, fmt.Errorf("publish: %w", events.ErrOutcomeUnknown)
	}
	if _, ok := errors.AsType[*events.ConflictError](err); ok {
		return 0, fmt.Errorf("publish: %w", events.ErrMoved) // a store reports nothing more
	}
	return seq, err
}

// arrive publishes delayed commits. Their callers' contexts have ended, so it ignores them.
func (l *FaultyLog) arrive(ctx context.Context) {
	l.mu.Lock()
	due := l.delayed
	l.delayed = nil
	l.mu.Unlock()
	for _, publish := range due {
		publish(context.WithoutCancel(ctx))
	}
}

// readOnce reads and may be cut.
func (l *FaultyLog) readOnce(ctx context.Context, session events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		left := -1
		if l.draw(FaultCut) == FaultCut {
			l.mu.Lock()
			left = l.random.IntN(3)
			l.mu.Unlock()
		}
		for entry, err := range l.inner.Read(ctx, session, from) {
			if left == 0 {
				yield(events.Entry{}, fmt.Errorf("read %s: %w", session, errCut))
				return
			}
			left--
			if !yield(entry, err) {
				return
			}
		}
	}
}

// Read implements [events.Log].
func (l *FaultyLog) Read(ctx context.Context, session events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		last, err := l.inner.Last(ctx, session)
		if err != nil {
			yield(events.Entry{}, err)
			return
		}
		for cut := true; cut; {
			cut = false
			for entry, err := range l.readOnce(ctx, session, from) {
				if cut = errors.Is(err, errCut); cut {
					break
				}
				if err == nil && entry.Seq > last {
					return
				}
				if !yield(entry, err) || err != nil {
					return
				}
				from = entry.Seq + 1
			}
		}
	}
}

// Last implements [events.Log].
func (l *FaultyLog) Last(ctx context.Context, session events.SessionID) (events.Seq, error) {
	return l.inner.Last(ctx, session)
}
