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
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
)

// ArchiverConfig configures an [Archiver].
type ArchiverConfig struct {
	After  time.Duration // time without work after which a session goes cold; negative keeps sessions hot
	Retain time.Duration // retention of a session without its own setting; 0 keeps it forever
	Least  time.Duration // minimum retention of every session
	// Parked reports whether the running turn waits for a result from outside only, so that no worker has it. Nil
	// means never.
	Parked func(*projector.State) bool
	// Wake stores the wakes of a cold session with work left: its importer died before it did. Nil means never.
	Wake   func(context.Context, *projector.State) error
	Signer func() *proof.Signer // of tombstones. Defaults to none
	Logger *zap.Logger          // nil is silent
}

// Archiver makes sessions cold after a time without work, and erases sessions whose retention has ended. Any number
// of archivers may run concurrently on any nodes, and any of them may die at any time: see [bus.Bus.Archive] and
// [Erase].
type Archiver struct {
	b   *bus.Bus
	cfg ArchiverConfig
	log *zap.Logger

	locked sync.Once // says once that this node has no keys
}

// NewArchiver makes an archiver.
func NewArchiver(b *bus.Bus, cfg ArchiverConfig) *Archiver {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &Archiver{b: b, cfg: cfg, log: cfg.Logger.Named("archiver")}
}

// Run checks every hot session periodically, and less often the directory and the blobs, until ctx ends.
func (a *Archiver) Run(ctx context.Context) {
	every, blobs := min(max(a.cfg.After/8, time.Second), time.Minute), NewBlobSweeper(a.b)
	if a.cfg.After < 0 {
		every = time.Minute
	}
	retained := time.Now()
	for delay.Sleep(ctx, every) {
		now := time.Now()
		var errs []error
		if a.cfg.After >= 0 {
			errs = append(errs, a.archiveDue(ctx))
		}
		if now.Sub(retained) >= retainEvery {
			_, err := blobs.SweepDue(ctx)
			errs, retained = append(errs, a.retainNow(ctx), err), now
		}
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
			a.log.Warn("archive", zap.Error(err))
		}
	}
}

// archivesAtOnce is the number of sessions that one archiver makes cold concurrently. Most of their time is waiting
// for servers.
const archivesAtOnce = 4

// archiveDue archives the due sessions in random order, so that several archivers share the work.
func (a *Archiver) archiveDue(ctx context.Context) error {
	if err := a.b.Writable(); err != nil {
		a.locked.Do(func() { a.log.Warn("this node makes no session cold: start it with --bodies-key", zap.Error(err)) })
		return a.b.SweepOrphans(ctx)
	}
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

// due reports whether a session must be checked. A sealed stream belongs to an archiver that died.
func (a *Archiver) due(hot bus.HotSession) bool {
	return hot.Sealed || hot.Quiet >= a.cfg.After
}

// snapshotCold is the number of commits up to which a cold session is folded from its archive. A longer one keeps its
// snapshot, so that opening it costs the same.
const snapshotCold = 512

// Archive makes a session cold. It returns false if the session has work.
func (a *Archiver) Archive(ctx context.Context, session events.SessionID) (bool, error) {
	s, err := Open(ctx, a.b, session)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return false, nil // a creator died before its first commit, or is about to make it
	case errors.Is(err, events.ErrLocked):
		return a.archiveLocked(ctx, session)
	case err != nil || !a.inactive(s):
		return false, err
	}
	if s.Seq > snapshotCold {
		if _, err := Save(ctx, a.b, s); err != nil {
			return false, err
		}
	}
	if err = a.b.Archive(ctx, session, s.Seq); err == nil {
		err = Sync(ctx, a.b.Log(), a.b, s) // commits just before the seal
	}
	if err != nil {
		return false, ignoreGone(err) // it has work again, or was erased
	}
	if err := ignoreGone(indexSession(ctx, a.b, s)); err != nil { // only a warning: without the row a search reads the session
		a.log.Warn("write the index", zap.String("session", string(session)), zap.Error(err))
	}
	if err := PutCold(ctx, a.b, s); err != nil { // before the stream is deleted: a crash in between leads to a repetition
		return false, err
	}
	if err := a.b.Discard(ctx, session); err != nil {
		return true, err
	}
	gone, err := a.b.Tombstone(ctx, session)
	if err == nil && !gone.IsZero() { // the erasure may have removed the rows before they were written here
		return false, a.b.Purge(ctx, session)
	}
	return true, err
}

// archiveLocked makes a session cold whose key is not here. Its rows stay as they are, and so do its wakes and timers: once
// a node has the key, its work goes on as that of any cold session.
func (a *Archiver) archiveLocked(ctx context.Context, session events.SessionID) (bool, error) {
	last, err := a.b.Log().Last(ctx, session)
	if err == nil {
		err = a.b.Archive(ctx, session, last)
	}
	if err != nil {
		return false, ignoreGone(err)
	}
	return true, a.b.Discard(ctx, session)
}

// inactive reports whether nothing runs or is about to run, and all waits are for results from outside. Such a result
// wakes the session on any node.
func (a *Archiver) inactive(s *projector.State) bool {
	if s.Status == projector.StatusOpening || len(s.Queue) > 0 || len(s.Unnotified) > 0 {
		return false
	}
	if s.Turn() != nil && (a.cfg.Parked == nil || !a.cfg.Parked(s)) {
		return false
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		outside := t.Runner == "" && t.Worker == "" && t.Child == "" && !t.LeavePending() && s.Status == projector.StatusClosed // the next report of its program makes the session hot again
		if t.Unfinished() && !outside {
			return false
		}
	}
	for i := range s.Monitors {
		if s.Monitors[i].Armed && s.Status != projector.StatusClosed { // a closed session starts no monitors
			return false
		}
	}
	return true
}
