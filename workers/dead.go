package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// codePoisoned is the code of a turn's issue whose job was given up.
const codePoisoned = "poisoned"

// buryFunc keeps a job's dead letter, and then ends in the history what the job is about.
type buryFunc func(ctx context.Context, j *bus.Job, letter *bus.DeadLetter) error

// fail is for a job whose attempt ended in an error of its own: it comes
// again, later each time, or is given up.
func (t *tries) fail(ctx context.Context, j *bus.Job, why error, bury buryFunc) {
	wait, err := t.failed(ctx, j, why)
	switch {
	case errors.Is(err, errPoisoned):
		t.giveUp(ctx, j, bus.DeadPoisoned, why, bury)
		return
	case err != nil:
		t.log.Warn("count attempts", zap.String("session", string(j.Session)), zap.Error(err))
	}
	_ = j.GiveBack(wait)
}

// giveUp ends a job that no worker is to try again: first there is the dead
// letter, then the end in the history, then the job goes. Whoever finds it
// half done does it again, to the same effect. Of a session that was erased
// nothing is kept.
func (t *tries) giveUp(ctx context.Context, j *bus.Job, reason bus.DeadReason, why error, bury buryFunc) {
	if _, err := t.bus.Log().Last(ctx, j.Session); errors.As(err, new(*events.ErasedError)) {
		_ = j.Ack()
		return
	}
	log := t.log.With(zap.String("session", string(j.Session)), zap.String("job", j.ID), zap.Int64("attempts", j.Tries.Count))
	letter := &bus.DeadLetter{
		Class: j.Class(), Session: j.Session, ID: j.ID, Body: j.Body, Reason: reason, Error: j.Tries.Error,
		Attempts: max(j.Tries.Count, 1), At: events.MillisOf(time.Now()), Worker: t.worker,
	}
	if !errors.Is(why, errPoisoned) {
		letter.Error = deadText(why)
	}
	if err := bury(ctx, j, letter); err != nil {
		log.Warn("give job up", zap.Error(err))
		_ = j.GiveBack(t.cfg.Base)
		return
	}
	log.Error("job given up, see lash-node dead", zap.String("reason", string(reason)), zap.Error(why))
	_ = j.Ack()
}

// bury is the [buryFunc] of turns.
func (w *Worker) bury(ctx context.Context, j *bus.Job, letter *bus.DeadLetter) error {
	if letter.Reason != bus.DeadPoisoned {
		return w.cfg.Bus.PutDead(ctx, letter)
	}
	cmd, err := session.DecodeCommand(j.Body)
	if err != nil {
		return err
	}
	of, err := w.host.Poisoned(ctx, j.Session, events.TurnID(j.ID), &cmd)
	switch {
	case undecided(ctx, err):
		return err
	case err != nil:
		return w.buryAlone(ctx, letter, err)
	case of.Turn == "":
		return w.cfg.Bus.PutDead(ctx, letter)
	}
	letter.ID, letter.Body, letter.Ended = string(of.Turn), of.Body, true
	if err := w.cfg.Bus.PutDead(ctx, letter); err != nil {
		return err
	}
	issue := events.Issue{Kind: "runtime", Code: codePoisoned, Message: poisonedText(letter)}
	if err = w.host.FailTurn(ctx, j.Session, of, issue); err == nil || undecided(ctx, err) {
		return err
	}
	return w.buryAlone(ctx, letter, err)
}

// buryAlone is for a job whose session cannot be told.
func (w *Worker) buryAlone(ctx context.Context, letter *bus.DeadLetter, why error) error {
	letter.Ended, letter.Error = false, deadText(fmt.Errorf("%s; its history: %w", letter.Error, why))
	return w.cfg.Bus.PutDead(ctx, letter)
}

// undecided reports whether an error says nothing about the session.
func undecided(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, events.ErrOutcomeUnknown))
}

func poisonedText(letter *bus.DeadLetter) string {
	if letter.Error == "" {
		return fmt.Sprintf("given up after %d attempts whose workers died", letter.Attempts)
	}
	return fmt.Sprintf("given up after %d attempts, the last: %s", letter.Attempts, letter.Error)
}

// steadyTask is how long a task's run must have gone on for its worker's death not to be its doing.
const steadyTask = time.Minute

// bury is the [buryFunc] of tasks.
func (t *Tasks) bury(ctx context.Context, j *bus.Job, letter *bus.DeadLetter) error {
	if letter.Reason != bus.DeadPoisoned {
		return t.cfg.Bus.PutDead(ctx, letter)
	}
	job, err := session.DecodeTaskJob(j.Body)
	if err != nil {
		return err
	}
	rec, err := t.h.Task(ctx, j.Session, job.Task)
	switch {
	case errors.Is(err, session.ErrUnknownTask):
		return nil
	case undecided(ctx, err):
		return err
	case err != nil:
		letter.Error = deadText(fmt.Errorf("%s; its history: %w", letter.Error, err))
		return t.cfg.Bus.PutDead(ctx, letter)
	case !rec.Live() || rec.Seq != job.Seq:
		return nil // it has ended, perhaps at our hands
	}
	whole := job
	whole.Args = rec.Args
	if letter.Body, err = events.EncodePayload(&whole); err != nil {
		return err
	}
	letter.Ended = true
	if err := t.cfg.Bus.PutDead(ctx, letter); err != nil {
		return err
	}
	return t.h.FailTask(ctx, j.Session, job, poisonedText(letter))
}
