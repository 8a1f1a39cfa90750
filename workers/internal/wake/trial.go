package wake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Trials count the attempts at a session's work that make no progress: at its fold, then at its turn. The history cannot
// count these: folding the session fails or kills the worker, or the work before turn.started does. The first attempt
// stores no trial. A later one, which follows an attempt that may have killed its worker, stores one before it starts.
//
// The count of a turn starts again when that turn makes progress, and for no other reason. At the limit the turn is given
// up, but only where at least [ownAttempts] of the attempts failed by themselves: they returned an error, or they began as
// the only suspect on their node. A suspect is an attempt that stored a trial and has made no progress yet. So a turn that
// died with its node [Retry.Attempts] times because of a neighbour is tried again, beside no suspect.
type Trials struct {
	Bus    *bus.Bus
	Retry  Retry
	Worker events.WorkerID
	Log    *zap.Logger

	suspects suspects
}

// ownAttempts is the number of attempts that have to fail by themselves before work is given up.
const ownAttempts = 2

// suspects are the attempts on a node that may kill it. An attempt that needs it is the only one.
type suspects struct {
	mu    sync.Mutex
	n     int
	alone bool // the only one has to stay the only one
}

func (s *suspects) enter(alone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone || alone && s.n > 0 {
		return false
	}
	s.n, s.alone = s.n+1, alone
	return true
}

func (s *suspects) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.alone = s.n-1, false
}

// aloneWait is the delay of a wake that has to wait for another suspect of the node.
const aloneWait = 500 * time.Millisecond

// Trial is one attempt. The zero pointer is an attempt that stores nothing.
type Trial struct {
	bus.Trial
	Key       bus.TrialKey
	of        *Trials
	alone     bool      // no other suspect runs on the node
	stored    bool      // the attempt is stored, and a suspect
	exhausted bool      // the limit was reached before: this is no attempt
	before    bus.Trial // the stored trial before this attempt
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

// Begin stores an attempt before it starts. running is the session's running turn where the attempt is at that one, else
// nil. Errors: [SoonError], and those of the bus. A trial that is exhausted is no attempt.
func (t *Trials) Begin(ctx context.Context, key bus.TrialKey, running *projector.Turn) (*Trial, error) {
	before, err := t.Bus.Trial(ctx, key)
	if err != nil {
		return nil, err
	}
	row := sinceProgress(before, running)
	trial := &Trial{Trial: row, Key: key, of: t, before: before}
	if t.isExhausted(row) {
		trial.exhausted = true
		return trial, nil
	}
	if wait := t.Retry.Pause(row.Count, row.At, t.Bus.Millis(), string(key.Session)); wait > 0 {
		return nil, SoonError(wait)
	}
	trial.alone = row.Count >= int64(t.Retry.Attempts)-ownAttempts
	if !t.suspects.enter(trial.alone) {
		return nil, SoonError(aloneWait)
	}
	trial.stored = true
	trial.Count, trial.At = row.Count+1, t.Bus.Millis()
	if trial.alone {
		trial.Own++
	}
	if err := t.Bus.PutTrial(ctx, key, trial.Trial); err != nil {
		trial.leave()
		return nil, err
	}
	return trial, nil
}

// sinceProgress is a stored trial without the attempts before the turn's last progress, and with those that the history
// counts. Each start since that progress is one of [projector.Turn.Starts].
func sinceProgress(row bus.Trial, running *projector.Turn) bus.Trial {
	if running == nil {
		return row
	}
	if running.Attempt-row.Attempt > running.Starts {
		row = bus.Trial{}
	}
	row.Attempt = running.Attempt
	if running.Starts > row.Count {
		row.Count, row.At = running.Starts, running.ClaimedAt
	}
	return row
}

func (t *Trials) isExhausted(row bus.Trial) bool {
	return row.Count >= int64(t.Retry.Attempts) && row.Own >= ownAttempts
}

// Exhausted reports whether the limit of attempts was reached before this trial.
func (t *Trial) Exhausted() bool { return t != nil && t.exhausted }

// Fail counts an attempt that ended in an error, and returns the wait before the next one, and whether there is none.
// trial is nil where the attempt stored nothing.
func (t *Trials) Fail(ctx context.Context, trial *Trial, key bus.TrialKey, running *projector.Turn, why error) (_ *Trial, wait time.Duration, exhausted bool) {
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	own := true
	if trial != nil && trial.Key != key {
		trial.Leave()
	}
	if trial == nil || !trial.stored {
		trial = &Trial{Key: key, of: t}
		trial.Trial, _ = t.Bus.Trial(once, key)
		trial.Trial = sinceProgress(trial.Trial, running)
		trial.Count++
	} else {
		own = !trial.alone // else it is counted
		trial.leave()
		if trial.Trial = sinceProgress(trial.Trial, running); trial.Count == 0 {
			trial.Count, own = 1, true
		}
	}
	if own {
		trial.Own++
	}
	trial.At, trial.Error = t.Bus.Millis(), clip(why)
	if err := t.Bus.PutTrial(once, key, trial.Trial); err != nil {
		t.Log.Debug("count attempt", zap.String("session", string(key.Session)), zap.Error(err))
	}
	return trial, max(t.Retry.Pause(trial.Count, trial.At, trial.At, string(key.Session)), t.Retry.Base), t.isExhausted(trial.Trial)
}

// Clear deletes the trial: the work made progress, was given up, or is not needed.
func (t *Trial) Clear(ctx context.Context) {
	if t == nil || !t.stored && !t.exhausted {
		return
	}
	t.leave()
	t.write(ctx, "forget attempt", func(ctx context.Context) error { return t.of.Bus.DropTrial(ctx, t.Key) })
}

// Withdraw restores the trial before an attempt that does not count.
func (t *Trial) Withdraw(ctx context.Context) {
	if t == nil || !t.stored {
		return
	}
	t.leave()
	t.write(ctx, "withdraw attempt", func(ctx context.Context) error {
		if t.before == (bus.Trial{}) {
			return t.of.Bus.DropTrial(ctx, t.Key)
		}
		return t.of.Bus.PutTrial(ctx, t.Key, t.before)
	})
}

// Leave ends an attempt at a turn that another worker has: that one counts.
func (t *Trial) Leave() {
	if t != nil && t.stored {
		t.leave()
	}
}

func (t *Trial) leave() {
	if t.stored {
		t.stored = false
		t.of.suspects.leave()
	}
}

func (t *Trial) write(ctx context.Context, what string, do func(context.Context) error) {
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialWait)
	defer cancel()
	if err := do(once); err != nil {
		t.of.Log.Debug(what, zap.String("session", string(t.Key.Session)), zap.Error(err))
	}
}

// trialWait limits the time that a worker which stops spends on the record of an attempt.
const trialWait = time.Second

// Issue is the reason of a turn that was given up.
func (t *Trial) Issue() events.Issue {
	text := fmt.Sprintf("given up after %d attempts whose workers died", t.Count)
	if t.Error != "" {
		text = fmt.Sprintf("given up after %d attempts, the last: %s", t.Count, t.Error)
	}
	return events.Issue{Kind: "runtime", Code: CodePoisoned, Message: text}
}

// CodePoisoned is the code of the issue of a turn whose attempts all failed.
const CodePoisoned = "poisoned"

// DeadLetter stores a dead letter for a session that no worker can fold.
func (t *Trials) DeadLetter(ctx context.Context, trial *Trial) error {
	session := trial.Key.Session
	letter := &bus.DeadLetter{Session: session, Attempts: trial.Count, Error: trial.Error, At: t.Bus.Millis(), Worker: t.Worker}
	err := t.Bus.PutDeadLetter(ctx, letter)
	if err == nil {
		t.Log.Error("session cannot be folded, see lash-node dead", zap.String("session", string(session)), zap.Int64("attempts", letter.Attempts), zap.String("err", letter.Error))
	}
	return err
}

// clip cuts the text of an error to the limit of a dead letter.
func clip(err error) string { return events.Clip(err.Error(), bus.MaxDeadError, " [cut]") }
