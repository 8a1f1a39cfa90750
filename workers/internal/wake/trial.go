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

// Trials count the attempts at a session that append nothing, which the
// history cannot count: its fold kills the worker, or what runs before
// turn.started does, or fails. The first delivery of a new wake writes no trial. A
// wake that was delivered before, or follows a death, writes one before the fold.
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
	begun   bool // the attempt is written down
	before  bus.Trial
}

// SoonError gives a wake back that waits for its next attempt.
type SoonError time.Duration

func (e SoonError) Error() string {
	return "waits " + time.Duration(e).String() + " for the next attempt"
}

// ErrUnfoldable is a session whose fold has failed, or killed its worker, as often as may be.
var ErrUnfoldable = errors.New("no worker can fold the session")

// Begin counts an attempt before it is made, where the wake is suspicious: it
// was delivered before, or follows a death. Errors: [SoonError], [ErrUnfoldable].
func (t *Trials) Begin(ctx context.Context, w *bus.Wake) (*Trial, error) {
	trial := &Trial{of: t, session: w.Session}
	if w.Deliveries <= 1 && !w.Repair {
		return trial, nil
	}
	var err error
	if trial.Trial, err = t.Bus.Trial(ctx, w.Session); err != nil {
		return nil, err
	}
	seq, err := t.Bus.Log().Last(ctx, w.Session)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return trial, nil // the fold finds out
	case err != nil:
		return nil, err
	case trial.Seq != seq:
		trial.Trial = bus.Trial{Seq: seq, Error: trial.Error}
	}
	switch wait := t.Retry.Pause(trial.Count, trial.At, string(w.Session)); {
	case trial.Count >= int64(t.Retry.Attempts) && !trial.Folded:
		return trial, ErrUnfoldable
	case trial.Count >= int64(t.Retry.Attempts):
		return trial, nil // the caller gives up in the history
	case wait > 0:
		return nil, SoonError(wait)
	}
	trial.before = trial.Trial
	trial.Count, trial.At, trial.Folded = trial.Count+1, events.MillisOf(time.Now()), false
	trial.begun = true
	return trial, t.Bus.PutTrial(ctx, w.Session, trial.Trial)
}

// Exhausted reports whether as many attempts as may be have ended before the
// turn recorded anything.
func (t *Trial) Exhausted() bool {
	return t != nil && !t.begun && t.Count >= int64(t.of.Retry.Attempts)
}

// Fold says that the session could be folded: from now on it is not the fold that kills.
func (t *Trial) Fold(ctx context.Context) error {
	if t == nil || !t.begun {
		return nil
	}
	t.Folded = true
	return t.of.Bus.PutTrial(ctx, t.session, t.Trial)
}

// Fail counts an attempt that ended in an error, with the session at seq, and
// gives the wait before the next. One that made progress is the first of a new count.
func (t *Trial) Fail(ctx context.Context, why error, seq events.Seq, progress bool) time.Duration {
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	t.Folded = t.Folded || seq > 0
	if seq == 0 { // the fold failed: the log knows
		seq, _ = t.of.Bus.Log().Last(once, t.session)
	}
	if !t.begun { // the attempt was not written down, but an earlier one may be
		if before, err := t.of.Bus.Trial(once, t.session); err == nil && before.Seq == seq {
			t.Count = max(t.Count, before.Count)
		}
		t.Count++
	}
	if progress {
		t.Count = 1
	}
	t.Seq, t.At, t.Error = max(seq, t.Seq), events.MillisOf(time.Now()), clip(why)
	if err := t.of.Bus.PutTrial(once, t.session, t.Trial); err != nil {
		t.of.Log.Debug("count attempt", zap.String("session", string(t.session)), zap.Error(err))
	}
	return max(t.of.Retry.Pause(t.Count, t.At, string(t.session)), t.of.Retry.Base)
}

// Clear forgets an attempt that ended in order.
func (t *Trial) Clear(ctx context.Context) {
	if t == nil || !t.begun {
		return
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	if err := t.of.Bus.DropTrial(once, t.session); err != nil {
		t.of.Log.Debug("forget attempt", zap.String("session", string(t.session)), zap.Error(err))
	}
}

// Withdraw takes an attempt back that was not made, as its time has not come.
func (t *Trial) Withdraw(ctx context.Context) {
	if t == nil || !t.begun {
		return
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	if err := t.of.Bus.PutTrial(once, t.session, t.before); err != nil {
		t.of.Log.Debug("withdraw attempt", zap.String("session", string(t.session)), zap.Error(err))
	}
}

// trialWait bounds what the record of an attempt costs a worker that stops.
const trialWait = time.Second

// Issue is why a turn is given up after so many attempts.
func (t *Trial) Issue(attempts int64) events.Issue {
	text := fmt.Sprintf("given up after %d attempts whose workers died", attempts)
	if t != nil && t.Error != "" {
		text = fmt.Sprintf("given up after %d attempts, the last: %s", attempts, t.Error)
	}
	return events.Issue{Kind: "runtime", Code: CodePoisoned, Message: text}
}

// CodePoisoned is the code of a turn's issue whose attempts all failed.
const CodePoisoned = "poisoned"

// DeadLetter keeps a dead letter of a session that no worker can fold.
func (t *Trials) DeadLetter(ctx context.Context, session events.SessionID, trial *Trial, why error) error {
	letter := &bus.DeadLetter{Session: session, Attempts: 1, At: events.MillisOf(time.Now()), Worker: t.Worker}
	if trial != nil {
		letter.Attempts, letter.Error = max(trial.Count, 1), trial.Error
	}
	if why != nil && !errors.Is(why, ErrUnfoldable) {
		letter.Error = clip(why)
	}
	err := t.Bus.PutDead(ctx, letter)
	if err == nil {
		t.Log.Error("session cannot be folded, see lash-node dead", zap.String("session", string(session)), zap.Int64("attempts", letter.Attempts), zap.String("err", letter.Error))
	}
	return err
}

// clip is an error's text as a dead letter keeps it.
func clip(err error) string { return events.Clip(err.Error(), bus.MaxDeadError, " [cut]") }

// First is the trial of a session that was never tried under a suspicious wake.
func (t *Trials) First(session events.SessionID) *Trial { return &Trial{of: t, session: session} }
