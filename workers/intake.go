package workers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/session"
)

// fetchWait bounds how long one pull waits for work.
const fetchWait = 10 * time.Second

// roomJobs is how many jobs a worker that is full holds in its room. The queue
// hands jobs out in the order they came: a worker that looked no further than
// its runs would come to nobody behind a flood of one session's commands.
const roomJobs = 256

// lookEvery is how often a full worker looks at the queue.
const lookEvery = bus.AckWait / 8

// fetchLoop pulls as many jobs as there may be runs more, so that a busy
// worker takes less. A full one takes only what no other worker waits for:
// jobs of sessions that run here go to their runs, which record them behind
// the running turn; the others wait in the room.
func (w *Worker) fetchLoop(fetchCtx, jobCtx context.Context, queue *bus.Work) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	accept := func(j *bus.Job) { w.accept(jobCtx, j) }
	for fetchCtx.Err() == nil {
		free := w.admit(jobCtx)
		err := w.offerRoom(jobCtx, queue)
		switch {
		case err != nil:
		case free > 0:
			err = queue.Fetch(fetchCtx, free, fetchWait, accept)
		default:
			err = w.whileFull(fetchCtx, queue, look.C, accept)
		}
		if err != nil && fetchCtx.Err() == nil {
			w.log.Warn("fetch work", zap.Error(err))
			bus.Sleep(fetchCtx, time.Second)
		}
	}
	for j := w.leaveRoom(); j != nil; j = w.leaveRoom() {
		_ = j.GiveBack(0)
	}
	_ = w.offerRoom(jobCtx, queue)
}

// whileFull fills the room and waits for the end of a run.
func (w *Worker) whileFull(ctx context.Context, queue *bus.Work, look <-chan time.Time, accept func(*bus.Job)) error {
	if n := roomJobs - w.waiting(); n > 0 {
		if err := errors.Join(queue.Take(ctx, n, accept), w.offerRoom(ctx, queue)); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-w.freed:
		return nil
	case <-look:
		return w.share(ctx, queue)
	}
}

// share keeps what waits in the room, or for a run, and gives it to workers that have nothing to do.
func (w *Worker) share(ctx context.Context, queue *bus.Work) error {
	for w.waiting() > 0 {
		wanted, err := queue.Wanted(ctx)
		if err != nil {
			return err
		}
		if !wanted {
			break
		}
		j := w.leaveRoom()
		if j == nil {
			break // another worker asked for it meanwhile
		}
		_ = j.GiveBack(0)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.room {
		_ = j.Progress()
	}
	for _, r := range w.runs {
		for _, j := range r.mail {
			_ = j.Progress()
		}
	}
	return nil
}

// offerRoom has workers that make place between two turns ask for what is in
// the room, while there is something.
func (w *Worker) offerRoom(ctx context.Context, queue *bus.Work) (err error) {
	switch waits := w.waiting() > 0; {
	case waits && w.offer == nil:
		given := context.WithoutCancel(ctx) // what leaves the room must come to the queue; each step is bounded
		w.offer, err = queue.Room(func() { w.giveRoom(given) })
	case !waits && w.offer != nil:
		w.offer()
		w.offer = nil
	}
	return err
}

// giveRoom gives the session that waits longest in the room back to the queue:
// all its jobs, as one run comes to them all.
func (w *Worker) giveRoom(ctx context.Context) {
	w.mu.Lock()
	var left []*bus.Job
	w.room = slices.DeleteFunc(w.room, func(j *bus.Job) bool {
		if len(left) > 0 && j.Session != left[0].Session {
			return false
		}
		left = append(left, j)
		return true
	})
	w.mu.Unlock()
	for i, j := range left {
		if i < len(left)-1 {
			_ = j.GiveBack(0)
		} else if err := w.handBack(ctx, j); err != nil { // the queue is told of them in order
			w.log.Debug("give job back", zap.Error(err))
		}
	}
}

// handBack gives back a job that no run here had. A command that covers is put
// there anew: whoever gets a second delivery could not tell, and would do that itself.
func (w *Worker) handBack(ctx context.Context, j *bus.Job) error {
	if cmd, err := session.DecodeCommand(j.Body); err != nil || !cmd.Cover {
		return j.HandBack(ctx)
	}
	once, cancel := context.WithTimeout(ctx, bus.AckWait)
	defer cancel()
	if err := w.host.Cover(once, j.Session, ulid.Make().String()); err != nil {
		return err
	}
	return j.Ack()
}

// accept gives a job to the session's run, or starts one, or lets it wait.
func (w *Worker) accept(ctx context.Context, j *bus.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.placeLocked(ctx, j) {
		w.room = append(w.room, j)
	}
}

// post puts a job in the mail, in place of an earlier delivery of it. The caller holds the worker's lock.
func (r *run) post(j *bus.Job) {
	if i := slices.IndexFunc(r.mail, func(old *bus.Job) bool { return old.ID == j.ID }); i >= 0 {
		r.mail[i] = j
		return
	}
	r.mail = append(r.mail, j)
}

// placeLocked finds a run for a job. It is false where none may start.
func (w *Worker) placeLocked(ctx context.Context, j *bus.Job) bool {
	r := w.runs[j.Session]
	switch {
	case r != nil:
		r.post(j)
		r.wake()
	case len(w.runs) < w.cfg.Concurrency:
		r = newRun(w, j)
		w.runs[j.Session] = r
		w.jobs.Go(func() { w.handle(ctx, r) })
	default:
		return false
	}
	return true
}

// admit finds runs for what waits, first come first served, and reports how many runs more there may be.
func (w *Worker) admit(ctx context.Context) (free int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waits := w.room[:0]
	for _, j := range w.room {
		if !w.placeLocked(ctx, j) {
			waits = append(waits, j)
		}
	}
	clear(w.room[len(waits):])
	w.room = waits
	return w.cfg.Concurrency - len(w.runs)
}

// waiting is how many jobs are in the room.
func (w *Worker) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.room)
}

// leaveRoom takes the first job out of the room; nil when there is none.
func (w *Worker) leaveRoom() *bus.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.room) == 0 {
		return nil
	}
	j := w.room[0]
	w.room = w.room[1:]
	return j
}
