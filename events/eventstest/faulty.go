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

// Fault is what goes wrong with one publish or one read.
type Fault int

// The faults. One that does not fit the call it falls on does nothing.
const (
	FaultNone       Fault = iota
	FaultLostBefore       // publish: it never arrives
	FaultLostAfter        // publish: it lands, its reply is lost
	FaultMoved            // publish: refused as if the session had moved, which it has not
	FaultDelayed          // publish: its reply is lost and it arrives just before a later publish
	FaultCut              // read: it breaks off after at most two commits
)

var faultNames = [...]string{"none", "lost_before", "lost_after", "moved", "delayed", "cut"}

func (f Fault) String() string { return faultNames[f] }

// FaultOptions says what goes wrong. With neither a script nor a rate nothing does.
type FaultOptions struct {
	Script      []Fault // one for each publish and read, in order; none after its end
	Seed        uint64  // of faults drawn at random, where there is no script
	Rate        float64 // how many calls are hit: 0 to below 1
	GiveUpAfter int     // tries after which an append ends with ErrOutcomeUnknown; 0: only when ctx ends
}

// FaultyLog is an [events.Log] over another one which loses, delays and
// refuses, and which keeps the promises of a log all the same, by [events.Settle].
// Reads resume where they were cut; appends ride out what can be ridden out.
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

// Trace is the fault of each publish and read so far. As a script it makes
// the same things go wrong again, as long as calls come in the same order.
func (l *FaultyLog) Trace() []Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.trace)
}

// draw picks the fault of one call among those that fit it.
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
	if c, err = events.Decode(data); err != nil { // the caller's may change while a publish is delayed
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
		return 0, fmt.Errorf("publish: %w", events.ErrMoved) // all that a store says
	}
	return seq, err
}

// arrive lets what was delayed arrive. It was sent by others, whose contexts say nothing any more.
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
