package wake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

const (
	sweepEvery   = 3 * time.Second
	sweepQuiet   = 2 * bus.AckWait // a session without a commit for so long is quiet
	sweepOpening = 5 * time.Minute // limit of the time between two commits of a creator
)

// Sweeper repairs lost hints. It finds sessions and tasks that need a worker and have no wake, and timers that were lost,
// and publishes them again. Several sweepers may run at once: a wake that is not needed is transferred to the worker
// that runs the turn. In a fleet the node with the lowest id sweeps.
//
// A session is a candidate from its last commit until a sweep finds it at rest. A session that waits for a time stays
// a candidate, and is checked less and less often. A sweep lists the subjects of the queue, and folds the candidates
// that are quiet and have no wake. At the start, and after a loss of messages or assets, every hot session is a
// candidate, unless its directory row says that it rests at its last sequence. Sessions that need a worker by their row
// are repaired first.
type Sweeper struct {
	bus   *bus.Bus
	host  session.Worker
	leads func() bool // reports whether this node sweeps
	log   *zap.Logger

	every, quiet, opening time.Duration

	mu         sync.Mutex
	candidates map[events.SessionID]*candidate
	now        chan struct{} // receives after a loss of wakes, so that the next sweep starts at once
	soon       bool          // wakes were lost: sessions need not be quiet
	full       bool          // every hot session becomes a candidate
	cold       bool          // timers were lost: cold sessions that have one become candidates too
}

// candidate is a session that may need a worker.
type candidate struct {
	lastCommitAt time.Time     // that was seen
	seq          events.Seq    // of that commit; 0: none was seen, and lastCommitAt is from the directory or the list of streams
	soon         bool          // checked at once, even if it is not quiet: its wake may be lost
	folds        bool          // folded even if it has a wake: its tasks changed
	missed       bool          // commits after seq may have been missed: only a fold proves that it rests
	tasks        []bus.WakeKey // live tasks of the last fold
	timed        time.Time     // when it was found at rest until a time, and its timer was stored; else zero
}

// NewSweeper creates a sweeper, which sweeps while lead returns true.
func NewSweeper(b *bus.Bus, host session.Worker, lead func() bool, log *zap.Logger) *Sweeper {
	return &Sweeper{
		bus: b, host: host, leads: lead, log: log.Named("sweeper"), every: sweepEvery, quiet: sweepQuiet, opening: sweepOpening,
		candidates: make(map[events.SessionID]*candidate), now: make(chan struct{}, 1),
	}
}

// Run sweeps until ctx ends, while this node leads.
func (s *Sweeper) Run(ctx context.Context) {
	for delay.Sleep(ctx, min(s.every, WatchEvery*2)) {
		if s.leads() {
			s.lead(ctx)
		}
	}
}

// lead sweeps while this node leads.
func (s *Sweeper) lead(ctx context.Context) {
	moved, err := s.bus.WatchCommits(s.Moved)
	if err != nil {
		s.log.Warn("watch sessions", zap.Error(err))
		return
	}
	defer moved.Close()
	s.allMayHaveMoved(true) // timers may be gone since before any node ran
	for ctx.Err() == nil && s.leads() {
		if moved.Missed() {
			s.allMayHaveMoved(false)
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("sweep", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-s.now:
		case <-time.After(s.every):
		}
	}
}

// Moved makes a session a candidate. background: the commit is about its tasks.
func (s *Sweeper) Moved(id events.SessionID, seq events.Seq, background bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.candidates[id]
	if c == nil {
		c = &candidate{}
		s.candidates[id] = c
	}
	c.lastCommitAt, c.seq, c.folds, c.timed = time.Now(), seq, c.folds || background, time.Time{}
}

// allMayHaveMoved makes every hot session a candidate, because commits may have been missed. timers: cold sessions may lack
// their timers.
func (s *Sweeper) allMayHaveMoved(timers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.cold = true, s.cold || timers
}

// QueueLost reports that wakes were lost; timers: timers too. The next sweep runs at once, and sessions need not be quiet.
func (s *Sweeper) QueueLost(timers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.soon, s.full, s.cold = true, true, s.cold || timers
	select {
	case s.now <- struct{}{}:
	default:
	}
}

// Sweep sweeps once. An error of one session does not stop the repair of the others.
func (s *Sweeper) Sweep(ctx context.Context) error {
	return errors.Join(s.list(ctx), s.repair(ctx))
}

// repair checks the candidates that are due.
func (s *Sweeper) repair(ctx context.Context) error {
	due := s.due()
	if len(due) == 0 {
		return nil
	}
	wakes, err := s.bus.Wakes(ctx) // listed after the candidates: work that began meanwhile has its wake
	if err != nil {
		return err
	}
	var errs []error
	for id, c := range due {
		if !c.folds && hint.HasWake(wakes, id) && haveWakes(wakes, c.tasks) {
			continue
		}
		once, cancel := context.WithTimeout(ctx, sweepWait)
		err := s.sweepSession(once, id, c, wakes)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("session %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// sweepWait limits the time that a sweep spends on one session.
const sweepWait = 15 * time.Second

func haveWakes(wakes map[bus.WakeKey]bool, tasks []bus.WakeKey) bool {
	for _, key := range tasks {
		if !wakes[key] {
			return false
		}
	}
	return true
}

// due copies the candidates that are quiet or to be checked at once.
func (s *Sweeper) due() map[events.SessionID]candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make(map[events.SessionID]candidate)
	for id, c := range s.candidates {
		quiet := time.Since(c.lastCommitAt)
		if !c.timed.IsZero() && time.Since(c.timed) < min(quiet/2, timerAgain) {
			continue
		}
		if c.soon || quiet >= s.quiet {
			list[id] = *c
			c.soon = false
		}
	}
	return list
}

// sweepSession publishes the hints that a session lacks, and drops a candidate that rests.
func (s *Sweeper) sweepSession(ctx context.Context, id events.SessionID, c candidate, wakes map[bus.WakeKey]bool) error {
	if !c.missed && s.rowRests(ctx, id, c.seq) {
		s.dropCandidate(id, c)
		return nil
	}
	state, err := follow.Open(ctx, s.bus, id)
	switch {
	case errors.Is(err, events.ErrNoSession):
		s.dropCandidate(id, c)
		return nil
	case ctx.Err() != nil || errors.Is(err, events.ErrOutcomeUnknown): // the next sweep retries
		return err
	case err != nil:
		return s.unfoldable(ctx, id, c, wakes)
	}
	needsWorker := turn.NeedsWorker(state, 0) // 0: only servers decide what is due
	if needsWorker && !hint.HasWake(wakes, id) {
		s.log.Warn("a session needs a worker and has no wake", zap.String("session", string(id)), zap.Uint64("seq", uint64(state.Seq)))
		if err := s.bus.PublishWake(hint.TurnKey(state), bus.WakeHint{Worker: state.Worker, Repair: true}); err != nil {
			return err
		}
	}
	tasks, err := s.wakeTasks(id, state, wakes)
	if err != nil {
		return err
	}
	if due := turn.Due(state); due != 0 {
		if err := s.bus.StoreTimer(ctx, id, due); err != nil {
			return err
		}
	}
	opening := state.Status == projector.StatusOpening
	if opening && time.Since(c.lastCommitAt) > s.opening {
		s.log.Warn("a creator died", zap.String("session", string(id)))
		return s.host.CloseOpening(ctx, id, state.Seq, "its creator died before all of its nodes were appended")
	}
	switch {
	case needsWorker || opening || len(tasks) > 0:
		s.updateCandidate(id, c, tasks)
	case turn.Due(state) != 0:
		s.markTimed(id, c)
	default:
		s.dropCandidate(id, c)
	}
	return nil
}

// timerAgain limits the time between two checks of a session that waits for a time. A host that hung may replace its
// timer with a later one, which it chose before another host's turn.
const timerAgain = 10 * time.Minute

// markTimed marks a candidate that rests until a time. It is checked, and its timer stored, less and less often.
func (s *Sweeper) markTimed(id events.SessionID, seen candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.candidates[id]; c != nil && c.lastCommitAt.Equal(seen.lastCommitAt) {
		c.timed, c.folds, c.tasks = time.Now(), false, nil
	}
}

// rowRests reports whether the directory says that a session rests at the last commit that was seen. Such a session
// is not folded, which would read its stream.
func (s *Sweeper) rowRests(ctx context.Context, id events.SessionID, seq events.Seq) bool {
	if seq == 0 {
		return false
	}
	stored, err := s.bus.Directory().Get(ctx, id)
	var row follow.Directory
	return err == nil && json.Unmarshal(stored.Value, &row) == nil && row.Seq == seq && row.Inactive() && row.Due == 0
}

// wakeTasks publishes a wake for each live task that has none, and lists all live tasks.
func (s *Sweeper) wakeTasks(id events.SessionID, state *projector.State, wakes map[bus.WakeKey]bool) (list []bus.WakeKey, err error) {
	for i := range state.Tasks {
		t := &state.Tasks[i]
		if !task.NeedsWorker(t) {
			continue
		}
		key := hint.TaskKey(id, t)
		list = append(list, key)
		if !wakes[key] {
			s.log.Warn("a task has no wake", zap.String("session", string(id)), zap.String("task", string(t.ID)))
			err = errors.Join(err, s.bus.PublishWake(key, bus.WakeHint{Repair: true}))
		}
	}
	return list, err
}

// unfoldable publishes a wake for a session that this node cannot fold: another node may. A session with a dead
// letter rests.
func (s *Sweeper) unfoldable(ctx context.Context, id events.SessionID, c candidate, wakes map[bus.WakeKey]bool) error {
	_, err := s.bus.DeadLetter(ctx, id)
	switch {
	case err == nil:
		s.dropCandidate(id, c)
		return nil
	case !errors.Is(err, bus.ErrNotFound):
		return err
	case hint.HasWake(wakes, id):
		return nil
	}
	return s.bus.PublishWake(hint.FallbackKey(id), bus.WakeHint{Repair: true})
}

// updateCandidate updates a candidate that does not rest, with its live tasks.
func (s *Sweeper) updateCandidate(id events.SessionID, seen candidate, tasks []bus.WakeKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.candidates[id]; c != nil {
		c.tasks = tasks
		if c.lastCommitAt.Equal(seen.lastCommitAt) {
			c.folds = false
		}
	}
}

// dropCandidate drops a candidate, unless a commit was seen since the check.
func (s *Sweeper) dropCandidate(id events.SessionID, seen candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.candidates[id]; c != nil && c.lastCommitAt.Equal(seen.lastCommitAt) {
		delete(s.candidates, id)
	}
}
