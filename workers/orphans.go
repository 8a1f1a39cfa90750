package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

// orphans finds turns whose worker is gone, and has the queue deliver their
// jobs again at once instead of after [bus.AckWait]. Whoever gets such a job
// does what it always does: the claim is still the guarded append. It only
// saves time: without it, or where it fails, the queue does the same later.
//
// Workers announce themselves now and then, and each watches the one before
// it in the order of their ids:
//
//	… ──► w3 ──► w2 ──► w1 ──► (the last)      ──► asks every watchEvery
//
// The servers know at once that nobody listens to a worker's subject any more.
// That may be a connection which is being made again, so it must be so a few
// times in a row. A worker that starts looks once for the orphans of all that
// hold turns: it may be the only one, and come back after a kill. Of its own
// last run, which it knows by its node's name, it believes it at once.
type orphans struct {
	w    *Worker
	log  *zap.Logger
	wait sync.WaitGroup

	mu    sync.Mutex
	peers map[events.WorkerID]bool
}

// How workers watch each other. A client that lost its server is back within
// 150 ms: the bus waits 50 ms, its jitter is 100 ms at most.
const (
	watchEvery    = 100 * time.Millisecond
	goneTimes     = 4 // in a row
	announceEvery = 2 * time.Second
	claimWait     = bus.AckWait / 4 // for whoever gets an orphan
	rescueRounds  = 4
	findersAtOnce = 16
)

func newOrphans(w *Worker) *orphans {
	return &orphans{w: w, log: w.log.Named("orphans"), peers: make(map[events.WorkerID]bool)}
}

// run watches until ctx ends.
func (o *orphans) run(ctx context.Context) {
	defer o.wait.Wait()
	b := o.w.cfg.Bus
	stop, err := b.Announced(o.heard)
	if err != nil {
		o.log.Warn("announcements", zap.Error(err))
		return
	}
	defer stop()
	o.wait.Go(func() { o.atStart(ctx) })
	watch, announce := time.NewTicker(watchEvery), time.NewTicker(announceEvery)
	defer watch.Stop()
	defer announce.Stop()
	_ = b.Announce(o.w.cfg.ID) // a hint, as every later one
	for {
		select {
		case <-ctx.Done():
			return
		case <-announce.C:
			_ = b.Announce(o.w.cfg.ID)
		case <-watch.C:
			if before := o.before(); before != "" && o.gone(ctx, before) {
				o.forget(before)
				o.wait.Go(func() { o.reclaim(ctx, before) })
			}
		}
	}
}

// heard keeps who is there. One that is new hears of this worker at once.
func (o *orphans) heard(worker events.WorkerID) {
	o.mu.Lock()
	known := worker == o.w.cfg.ID || o.peers[worker]
	if !known {
		o.peers[worker] = true
	}
	o.mu.Unlock()
	if !known {
		_ = o.w.cfg.Bus.Announce(o.w.cfg.ID)
	}
}

func (o *orphans) forget(worker events.WorkerID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.peers, worker)
}

// before is the worker to watch: the next smaller id, and the largest for the smallest.
func (o *orphans) before() events.WorkerID {
	o.mu.Lock()
	defer o.mu.Unlock()
	var before, last events.WorkerID
	for id := range o.peers {
		if last = max(last, id); id < o.w.cfg.ID {
			before = max(before, id)
		}
	}
	if before == "" {
		return last
	}
	return before
}

// gone reports whether nobody answers for a worker, several times in a row.
func (o *orphans) gone(ctx context.Context, worker events.WorkerID) bool {
	for n := range goneTimes {
		if n > 0 && !bus.Sleep(ctx, watchEvery) || !o.w.cfg.Bus.Gone(ctx, worker) {
			return false
		}
	}
	return true
}

// isOurs reports whether a worker is an earlier run of this node.
func (o *orphans) isOurs(worker events.WorkerID) bool {
	i := strings.LastIndexByte(string(worker), '-')
	return i > 0 && string(worker[:i]) == o.w.cfg.Name
}

// reclaim has the queue deliver the jobs again that a worker which is gone had.
func (o *orphans) reclaim(ctx context.Context, worker events.WorkerID) {
	held, err := o.held(ctx)
	if err == nil {
		err = o.rescue(ctx, held[worker])
	}
	o.report(worker, len(held[worker]), err)
}

// rescue has jobs delivered again, and once more those that nobody claimed: who
// got them may be gone too, and so may others who went after them. What those
// did shows in the round: who comes to one that was done goes on to the next, and waits less.
func (o *orphans) rescue(ctx context.Context, list []orphan) error {
	for round := 1; len(list) > 0; round++ {
		first, err := o.send(ctx, list, round)
		if err != nil || round == rescueRounds {
			return err
		}
		wait := claimWait
		if !first {
			wait /= 2
		}
		if !bus.Sleep(ctx, wait) {
			return nil
		}
		if list, err = o.unclaimed(ctx, list); err != nil {
			return err
		}
		if len(list) > 0 && !o.w.cfg.Bus.Gone(ctx, list[0].worker) {
			return nil // it had lost its connection, and is back
		}
	}
	return nil
}

// unclaimed are those of a list that still are in the hands of a worker that is
// gone. Those that were in nobody's came here: whoever looks for them is alone.
func (o *orphans) unclaimed(ctx context.Context, list []orphan) ([]orphan, error) {
	jobs := make([]bus.JobName, len(list))
	for i := range list {
		jobs[i] = list[i].job
	}
	now, err := o.holders(ctx, jobs)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(one orphan) bool {
		return one.worker == nobody || !slices.Contains(now[one.worker], one)
	}), nil
}

// nobody holds the jobs of turns that nobody has claimed.
const nobody events.WorkerID = ""

// atStart looks for the orphans of every worker that has any.
func (o *orphans) atStart(ctx context.Context) {
	held, err := o.held(ctx)
	if err != nil {
		o.report("", 0, err)
		return
	}
	for worker, jobs := range held {
		o.wait.Go(func() {
			if o.orphaned(ctx, worker) {
				o.report(worker, len(jobs), o.rescue(ctx, jobs))
			}
		})
	}
}

// orphaned reports whether what a worker holds must be delivered again. Jobs
// that nobody has claimed may be in anybody's hands: only where there is nobody
// else they are in those of a worker that is gone, or here, where a second
// delivery does no harm.
func (o *orphans) orphaned(ctx context.Context, worker events.WorkerID) bool {
	switch {
	case worker == o.w.cfg.ID:
		return false
	case worker == nobody:
		return bus.Sleep(ctx, watchEvery) && o.before() == ""
	case o.isOurs(worker) && o.w.cfg.Bus.Gone(ctx, worker):
		return true
	}
	return o.gone(ctx, worker)
}

func (o *orphans) report(worker events.WorkerID, jobs int, err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		o.log.Warn("orphans are left to the queue", zap.String("gone", string(worker)), zap.Error(err))
	case jobs > 0:
		o.log.Info("worker is gone", zap.String("gone", string(worker)), zap.Int("turns", jobs))
	}
}

// orphan is a job, with the turn that runs for it.
type orphan struct {
	job     bus.JobName
	worker  events.WorkerID // or nobody
	attempt int64           // 0: nobody's
}

// held are the jobs in the queue, by the workers that run their turns.
func (o *orphans) held(ctx context.Context) (map[events.WorkerID][]orphan, error) {
	jobs, err := o.w.cfg.Bus.Jobs(ctx, bus.ClassTurn)
	if err != nil {
		return nil, err
	}
	return o.holders(ctx, jobs)
}

// holders sorts jobs by the workers that run their turns.
func (o *orphans) holders(ctx context.Context, jobs []bus.JobName) (map[events.WorkerID][]orphan, error) {
	waiting := make(map[events.SessionID][]bus.JobName) // each session is read once, however much waits in it
	for _, job := range jobs {
		waiting[job.Session] = append(waiting[job.Session], job)
	}
	held := make(map[events.WorkerID][]orphan)
	var mu sync.Mutex
	err := inParallel(slices.Collect(maps.Keys(waiting)), func(id events.SessionID) error {
		s, err := follow.Open(ctx, o.w.cfg.Bus, id)
		if errors.Is(err, events.ErrNoSession) {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, job := range waiting[id] {
			one := orphan{job: job}
			if t := s.Turn(); t != nil && string(t.Job) == job.ID && !turn.Parked(s) {
				one.worker, one.attempt = t.Worker, t.Attempt
			}
			held[one.worker] = append(held[one.worker], one)
		}
		return nil
	})
	return held, err
}

// send reports whether one of the list was sent, which nobody else did in this round.
func (o *orphans) send(ctx context.Context, list []orphan, round int) (first bool, err error) {
	reclaims, err := o.w.cfg.Bus.Reclaims(ctx, bus.ClassTurn)
	if err != nil {
		return false, err
	}
	var sent atomic.Bool
	err = inParallel(list, func(one orphan) error {
		first, err := reclaims.Take(ctx, one.job, o.evidence(one, round))
		if first {
			sent.Store(true)
		}
		return err
	})
	return sent.Load(), err
}

// evidence is the same wherever the same worker is missed; only who is alone misses nobody.
func (o *orphans) evidence(one orphan, round int) string {
	missed := one.worker
	if missed == nobody {
		missed = o.w.cfg.ID
	}
	return fmt.Sprintf("gone/%s/%s/%s/%d/%d", missed, one.job.Session, one.job.ID, one.attempt, round)
}

// inParallel does something for each of a list, a few at once.
func inParallel[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(findersAtOnce, len(list)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				errs[i] = do(list[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
