package wake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// Trials count the attempts at a session that append nothing. The history cannot count these: folding the session
// fails or kills the worker, or the work before turn.started does. The first delivery of a new wake stores no trial.
// A wake that was delivered before, or that follows the death of a worker, stores one before the fold.
type Trials struct {
	Bus    *bus.Bus
	Retry  Retry
	Worker events.WorkerID
	Log    *zap.Logger
}

// Trial is one attempt at a session.
type Trial struct {
	bus.Trial
	of      *Trials
	session events.SessionID
	stored  bool      // the attempt is stored
	before  bus.Trial // the stored trial before this attempt
}

// SoonError returns a wake to the queue until the time of the next attempt.
type SoonError time.Duration

func (e SoonError) Error() string {
	return "waits " + time.Duration(e).String() + " for the next attempt"
}

// ErrUnfoldable reports a session for which all attempts to fold it failed or killed their worker.
var ErrUnfoldable = errors.New("no worker can fold the session")

// Suspicious reports whether an earlier attempt may have killed its worker: the wake was delivered before, or follows the
// death of a worker.
func Suspicious(w *bus.Wake) bool { return w.Deliveries > 1 || w.Repair }

// Begin stores an attempt before it starts, if the wake is suspicious. Errors: [SoonError], [ErrUnfoldable], and those of
// the bus.
func (t *Trials) Begin(ctx context.Context, w *bus.Wake) (*Trial, error) {
	trial := &Trial{of: t, session: w.Session}
	if !Suspicious(w) {
		return trial, nil
	}
	var err error
	if trial.Trial, err = t.Bus.Trial(ctx, w.Session); err != nil {
		return nil, err
	}
	seq, err := t.Bus.Log().Last(ctx, w.Session)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return trial, nil // the fold will report it
	case err != nil:
		return nil, err
	case trial.Seq != seq:
		trial.Trial = bus.Trial{Seq: seq, Error: trial.Error}
	}
	switch wait := t.Retry.Pause(trial.Count, trial.At, string(w.Session)); {
	case trial.Count >= int64(t.Retry.Attempts) && !trial.Folded:
		return trial, ErrUnfoldable
	case trial.Count >= int64(t.Retry.Attempts):
		return trial, nil // the caller fails the turn in the history
	case wait > 0:
		return nil, SoonError(wait)
	}
	trial.before = trial.Trial
	trial.Count, trial.At, trial.Folded = trial.Count+1, events.MillisOf(time.Now()), false
	trial.stored = true
	return trial, t.Bus.PutTrial(ctx, w.Session, trial.Trial)
}

// Exhausted reports whether the limit of attempts is reached without any record of the turn.
func (t *Trial) Exhausted() bool {
	return t != nil && !t.stored && t.Count >= int64(t.of.Retry.Attempts)
}

// MarkFolded stores that the fold succeeded: a later death of the worker has another cause.
func (t *Trial) MarkFolded(ctx context.Context) error {
	if t == nil || !t.stored {
		return nil
	}
	t.Folded = true
	return t.of.Bus.PutTrial(ctx, t.session, t.Trial)
}

// Fail counts an attempt that ended in an error, with the session at seq, and returns the wait before the next
// attempt. An attempt with progress is the first of a new count.
func (t *Trial) Fail(ctx context.Context, why error, seq events.Seq, progress bool) time.Duration {
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	t.Folded = t.Folded || seq > 0
	if seq == 0 { // the fold failed: read the sequence from the log
		seq, _ = t.of.Bus.Log().Last(once, t.session)
	}
	if !t.stored { // this attempt is not stored, an earlier one may be
		if before, err := t.of.Bus.Trial(once, t.session); err == nil && before.Seq == seq {
			t.Count, t.Seq = max(t.Count, before.Count), seq
		}
		t.Count++
	}
	if progress && seq > t.Seq { // later attempts at the same sequence recorded nothing themselves
		t.Count = 1
	}
	t.Seq, t.At, t.Error = max(seq, t.Seq), events.MillisOf(time.Now()), clip(why)
	if err := t.of.Bus.PutTrial(once, t.session, t.Trial); err != nil {
		t.of.Log.Debug("count attempt", zap.String("session", string(t.session)), zap.Error(err))
	}
	return max(t.of.Retry.Pause(t.Count, t.At, string(t.session)), t.of.Retry.Base)
}

// Clear deletes an attempt that ended in order.
func (t *Trial) Clear(ctx context.Context) {
	if t == nil || !t.stored {
		return
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	if err := t.of.Bus.DropTrial(once, t.session); err != nil {
		t.of.Log.Debug("forget attempt", zap.String("session", string(t.session)), zap.Error(err))
	}
}

// Withdraw restores the trial before an attempt that was not made, because its time has not come.
func (t *Trial) Withdraw(ctx context.Context) {
	if t == nil || !t.stored {
		return
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	if err := t.of.Bus.PutTrial(once, t.session, t.before); err != nil {
		t.of.Log.Debug("withdraw attempt", zap.String("session", string(t.session)), zap.Error(err))
	}
}

// trialWait limits the time that a worker which stops spends on the record of an attempt.
const trialWait = time.Second

// Issue is the reason of a turn that failed after so many attempts.
func (t *Trial) Issue(attempts int64) events.Issue {
	text := fmt.Sprintf("given up after %d attempts whose workers died", attempts)
	if t != nil && t.Error != "" {
		text = fmt.Sprintf("given up after %d attempts, the last: %s", attempts, t.Error)
	}
	return events.Issue{Kind: "runtime", Code: CodePoisoned, Message: text}
}

// CodePoisoned is the code of the issue of a turn whose attempts all failed.
const CodePoisoned = "poisoned"

// DeadLetter stores a dead letter for a session that no worker can fold.
func (t *Trials) DeadLetter(ctx context.Context, session events.SessionID, trial *Trial, why error) error {
	letter := &bus.DeadLetter{Session: session, Attempts: 1, At: events.MillisOf(time.Now()), Worker: t.Worker}
	if trial != nil {
		letter.Attempts, letter.Error = max(trial.Count, 1), trial.Error
	}
	if why != nil && !errors.Is(why, ErrUnfoldable) {
		letter.Error = clip(why)
	}
	err := t.Bus.PutDeadLetter(ctx, letter)
	if err == nil {
		t.Log.Error("session cannot be folded, see lash-node dead", zap.String("session", string(session)), zap.Int64("attempts", letter.Attempts), zap.String("err", letter.Error))
	}
	return err
}

// clip cuts the text of an error to the limit of a dead letter.
func clip(err error) string { return events.Clip(err.Error(), bus.MaxDeadError, " [cut]") }

// First is the trial of a session without a stored attempt.
func (t *Trials) First(session events.SessionID) *Trial { return &Trial{of: t, session: session} }
