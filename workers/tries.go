package workers

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/internal/call"
)

// JobRetry says how often, and when, a job is tried again whose attempts come
// to nothing. What is recorded of a turn's effects begins the count anew, and
// a worker that is stopped in order does not count; one that is killed does,
// as nobody can tell who killed it; but for the first time, as first attempts
// cost no write.
type JobRetry struct {
	Attempts int           // in a row without progress, before the job is given up. Defaults to 8
	Base     time.Duration // doubles from the third attempt on. Defaults to 1 s
	Max      time.Duration // of one wait. Defaults to 1 min
}

func (c *JobRetry) defaults() error {
	if c.Attempts < 0 {
		return fmt.Errorf("job retry: attempts: %d, want at least 1", c.Attempts)
	}
	c.Attempts = orDefault(c.Attempts, 8)
	c.Base = orDefault(c.Base, time.Second)
	c.Max = orDefault(c.Max, time.Minute)
	return nil
}

// soonError gives a job back that waits for its next attempt.
type soonError time.Duration

func (e soonError) Error() string {
	return "waits " + time.Duration(e).String() + " for the next attempt"
}

// errPoisoned is a job that was tried as often as may be.
var errPoisoned = errors.New("every attempt came to nothing")

// tries counts what deliveries of jobs come to.
type tries struct {
	bus    *bus.Bus
	cfg    JobRetry
	worker events.WorkerID
	log    *zap.Logger
	// steady is how long an attempt must have gone on to be progress by itself. 0: the session's history tells.
	steady time.Duration
}

// freeTries is how many attempts in a row follow each other without a wait: a
// worker that dies is replaced at once.
const freeTries = 2

// begin counts an attempt before it is made, so that one which kills its
// worker is counted. A first delivery costs nothing. Errors: [soonError],
// [errPoisoned].
func (t *tries) begin(ctx context.Context, j *bus.Job) error {
	if j.Deliveries == 1 {
		return nil
	}
	if err := t.load(ctx, j); err != nil {
		return err
	}
	switch wait := t.wait(j); {
	case j.Tries.Count >= int64(t.cfg.Attempts):
		return errPoisoned
	case wait > 0:
		return soonError(wait)
	}
	return t.count(ctx, j)
}

// load finds the attempts so far, none where the last one came to something.
func (t *tries) load(ctx context.Context, j *bus.Job) error {
	if err := j.LoadTries(ctx); err != nil || j.Tries.Count == 0 {
		return err
	}
	moved, err := time.Since(j.Tries.At.Time()) > t.steady+t.pause(j), error(nil)
	if t.steady == 0 {
		moved, err = t.progressed(ctx, j.Session, j.Tries.Seq)
	}
	if moved {
		j.Tries = bus.Tries{}
	}
	return err
}

func (t *tries) count(ctx context.Context, j *bus.Job) error {
	seq, err := t.bus.Log().Last(ctx, j.Session)
	if err != nil && !errors.Is(err, events.ErrNoSession) && !errors.Is(err, events.ErrInvalidID) {
		return err
	}
	j.Tries.Count, j.Tries.Seq, j.Tries.At, j.Tries.Begun = j.Tries.Count+1, seq, events.MillisOf(time.Now()), true
	return j.SaveTries(ctx)
}

// failed counts an attempt that ended in an error, and gives the wait before the next. Errors: [errPoisoned].
func (t *tries) failed(ctx context.Context, j *bus.Job, why error) (time.Duration, error) {
	begun := j.Tries.Begun
	if err := t.load(ctx, j); err != nil {
		return t.cfg.Base, err
	}
	if begun && j.Tries.Count > 0 {
		j.Tries.Count--
	}
	j.Tries.Error = deadText(why)
	if err := t.count(ctx, j); err != nil {
		return t.cfg.Base, err
	}
	if j.Tries.Count >= int64(t.cfg.Attempts) {
		return 0, errPoisoned
	}
	return max(t.pause(j), t.cfg.Base), nil
}

// excuse takes back an attempt that was cut off in order, or by what is not the job's doing.
func (t *tries) excuse(ctx context.Context, j *bus.Job) {
	if !j.Tries.Begun {
		return
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), excuseWait) // the worker stops
	defer cancel()
	j.Tries.Count, j.Tries.Begun = j.Tries.Count-1, false
	if err := j.SaveTries(once); err != nil {
		t.log.Debug("excuse attempt", zap.Error(err))
	}
}

const excuseWait = time.Second

// wait is what is left of the wait before the next attempt.
func (t *tries) wait(j *bus.Job) time.Duration {
	pause := t.pause(j)
	return min(pause-time.Since(j.Tries.At.Time()), pause) // another node's clock may be ahead
}

// pause is the wait after the attempts so far: it doubles, and is spread by
// half to either side, so that jobs which a worker took down with it do not
// meet the one that killed it again and again.
func (t *tries) pause(j *bus.Job) time.Duration {
	n := j.Tries.Count - freeTries
	if n < 0 {
		return 0
	}
	pause := t.cfg.Max
	if n < 30 {
		pause = min(t.cfg.Base<<n, t.cfg.Max)
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%d", j.Session, j.ID, n)
	return pause/2 + pause*time.Duration(h.Sum32()%1024)/1024
}

// progressed reports whether a session's history has an effect's result, or a turn's end, after seq.
func (t *tries) progressed(ctx context.Context, session events.SessionID, seq events.Seq) (bool, error) {
	for entry, err := range t.bus.Log().Read(ctx, session, seq+1) {
		switch {
		case errors.Is(err, events.ErrOutcomeUnknown), err != nil && ctx.Err() != nil:
			return false, err
		case err != nil:
			return false, nil // a history that nobody can read goes nowhere
		}
		for i := range entry.Commit.Events {
			if slices.Contains(progresses, entry.Commit.Events[i].Kind) {
				return true, nil
			}
		}
	}
	return false, nil
}

// progresses are the kinds of events that say that a turn has come further.
// Claims do not, nor what comes with them, nor what others do to the session.
//
//nolint:gochecknoglobals // read-only
var progresses = []events.Kind{
	events.KindTurnPrepared, events.KindTurnCheckpointed, events.KindTurnDiverted, events.KindTurnCompleted, events.KindHookRan,
	events.KindModelReplied, events.KindModelFailed, events.KindModelCompleted,
	events.KindToolReturned, events.KindToolLost, events.KindToolPended, events.KindToolResolved,
	events.KindToolApprovalAsked, events.KindToolApprovalGiven, events.KindToolNestedReturned,
}

// deadText is an error as a dead letter keeps it.
func deadText(err error) string {
	return events.Clip(call.Clip(err.Error()), bus.MaxDeadError, " [cut]")
}
