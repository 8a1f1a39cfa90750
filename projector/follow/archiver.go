package follow

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// ArchiverConfig of an archiver.
type ArchiverConfig struct {
	After  time.Duration // how long a session must have had no work to go cold
	Retain time.Duration // how long one that does not say is kept after its last event; 0 is for ever
	Least  time.Duration // how long one is kept at least, whatever it says
	// Parked reports whether the running turn waits for somebody outside, and for
	// nothing else, so that no worker has it. Without it, none is.
	Parked func(*projector.State) bool
	Logger *zap.Logger // nil is silent
}

// Archiver makes sessions cold that had no work for a while, and erases those
// past their time. Any number may run at once, anywhere, and die at any line:
// see [bus.Bus.Archive] and [Erase].
type Archiver struct {
	b   *bus.Bus
	cfg ArchiverConfig
	log *zap.Logger
}

// NewArchiver makes an archiver.
func NewArchiver(b *bus.Bus, cfg ArchiverConfig) *Archiver {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &Archiver{b: b, cfg: cfg, log: cfg.Logger.Named("archiver")}
}

// Run looks at every hot session now and then, and less often at the directory
// and at blobs, until ctx ends. Where After is negative, sessions stay hot.
func (a *Archiver) Run(ctx context.Context) {
	every, blobs := min(max(a.cfg.After/8, time.Second), time.Minute), NewBlobs(a.b)
	if a.cfg.After < 0 {
		every = time.Minute
	}
	retained := time.Now()
	swept := retained
	for bus.Sleep(ctx, every) {
		now := time.Now()
		var errs []error
		if a.cfg.After >= 0 {
			errs = append(errs, a.archiveDue(ctx))
		}
		if now.Sub(retained) >= retainEvery {
			errs, retained = append(errs, a.retainNow(ctx)), now
		}
		if now.Sub(swept) >= sweepBlobsEvery {
			_, err := blobs.Sweep(ctx, now)
			errs, swept = append(errs, err), now
		}
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
			a.log.Warn("archive", zap.Error(err))
		}
	}
}

// archivesAtOnce is how many sessions one archiver makes cold at once: most of the time of each goes into waiting for servers.
const archivesAtOnce = 4

// archiveDue makes those cold that are due, in an order of its own, so that several archivers share the work.
func (a *Archiver) archiveDue(ctx context.Context) error {
	var due []events.SessionID
	for hot, err := range a.b.Hot(ctx) {
		if err != nil {
			return err
		}
		if a.due(hot) {
			due = append(due, hot.ID)
		}
	}
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	var at atomic.Int64
	var wait sync.WaitGroup
	for range min(archivesAtOnce, len(due)) {
		wait.Go(func() {
			for i := int(at.Add(1)) - 1; i < len(due) && ctx.Err() == nil; i = int(at.Add(1)) - 1 {
				if _, err := a.Archive(ctx, due[i]); err != nil && ctx.Err() == nil {
					a.log.Warn("archive", zap.String("session", string(due[i])), zap.Error(err))
				}
			}
		})
	}
	wait.Wait()
	return a.b.SweepOrphans(ctx)
}

// due reports whether it is time to look. A sealed stream is of an archiver that died.
func (a *Archiver) due(hot bus.HotSession) bool {
	return hot.Sealed || time.Since(hot.ChangedAt) >= a.cfg.After
}

// snapshotCold is how many commits a cold session has at most that is folded
// from its archive; a longer one keeps its snapshot, so that opening it costs the same.
const snapshotCold = 512

// Archive makes a session cold. It is false where the session has work.
func (a *Archiver) Archive(ctx context.Context, session events.SessionID) (bool, error) {
	s, err := Open(ctx, a.b, session)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return false, nil // a creator died before its first commit, or has not made it yet
	case err != nil || !a.restful(s):
		return false, err
	}
	if s.Seq > snapshotCold {
		if _, err := Save(ctx, a.b, s); err != nil {
			return false, err
		}
	}
	err = a.b.Archive(ctx, session, s.Seq)
	if errors.As(err, new(*events.ConflictError)) {
		return false, nil // it has work again
	}
	if err == nil {
		err = Sync(ctx, a.b.Log(), a.b, s) // it may have moved just before it was sealed
	}
	if err != nil {
		return false, err
	}
	if err := putRow(ctx, a.b, s, PlaceCold); err != nil { // before the stream goes, so that whoever finds that repeats it
		return false, err
	}
	return true, a.b.Discard(ctx, session)
}

// restful reports whether nothing runs, or is about to run, and nothing waits
// but for somebody outside: whose answer wakes the session, on any node.
func (a *Archiver) restful(s *projector.State) bool {
	if s.Status == projector.StatusOpening || len(s.Queue) > 0 || len(s.Untold) > 0 {
		return false
	}
	if s.Turn() != nil && (a.cfg.Parked == nil || !a.cfg.Parked(s)) {
		return false
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		outside := t.Runner == "" && t.Worker == "" && t.Child == "" && !t.Moving() && s.Status == projector.StatusClosed // whose program's next word brings the session back
		if t.Owing() && !outside {
			return false
		}
	}
	for i := range s.Monitors {
		if s.Monitors[i].Armed && s.Status != projector.StatusClosed { // nothing starts it in a closed one
			return false
		}
	}
	return true
}
