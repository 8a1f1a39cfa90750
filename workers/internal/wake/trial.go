package wake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Trials count the attempts at a session's work that make no progress: at its fold, then at its turn. The history cannot
// count these: folding the session fails or kills the worker, or the work before turn.started does. The first attempt
// stores no trial. A later one, which follows an attempt that may have killed its worker, stores one before it starts.
//
// The count of a turn starts again when that turn makes progress, and for no other reason. At the limit the turn is given
// up, but only where at least [ownAttempts] of the attempts failed by themselves: they returned an error, or died while they
// were alone. Such an attempt begins when no other one of the node that stored a trial is without progress, and nothing
// of another session has begun there for [Trials.Alone], or twice that; while it makes no progress, nothing else begins there for a time, which is as
// long at first, and doubled with each attempt. Where it ends, the attempt is no longer alone, which its trial says before
// others begin. So a turn that died with its node [Retry.Attempts] times because of a neighbour is tried again beside none.
type Trials struct {
	Bus    *bus.Bus
	Retry  Retry
	Worker events.WorkerID
	Log    *zap.Logger
	Alone  time.Duration // for which an attempt is alone first. Defaults to 1 s

	suspects suspects
}

// ownAttempts is the number of attempts that have to fail by themselves before work is given up.
const ownAttempts = 2

// suspects are the attempts on a node that may kill it: those that stored a trial, and have made no progress.
type suspects struct {
	mu     sync.Mutex
	n      int
	newest events.SessionID // whose attempt began last, first ones included
	at     time.Time        // of that
	other  time.Time        // when one of another session began last
	until  time.Time        // until then none begins
	by     events.SessionID // but those of this session
	alone  *Trial           // began alone, and still is
	ends   *time.Timer      // of that, once it is stored
	clock  func() time.Time // nil: [time.Now]
}

// begins notes that an attempt of a session begins.
func (s *suspects) begins(session events.SessionID, now time.Time) {
	if session != s.newest {
		s.other = s.at
	}
	s.newest, s.at = session, now
}

// beside is when an attempt of another session began last.
func (s *suspects) beside(session events.SessionID) time.Time {
	if session != s.newest {
		return s.at
	}
	return s.other
}

func (s *suspects) now() time.Time {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now()
}

// aloneWait is the longest delay of a wake that has to wait for another attempt of the node.
const aloneWait = 500 * time.Millisecond

// maxAlone limits the time for which an attempt is alone.
const maxAlone = 5 * time.Minute

// first begins an attempt that stores nothing. It returns how long it has to wait; then it has not begun.
func (s *suspects) first(session events.SessionID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.alone != nil || now.Before(s.until) && s.by != session {
		return aloneWait
	}
	s.begins(session, now)
	return 0
}

// enter begins an attempt. quiet is the time for which it needs to be alone; 0: it need not be. It returns how long it has to
// wait; then it has not begun.
func (s *suspects) enter(t *Trial, quiet time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.alone != nil || now.Before(s.until) && s.by != t.Key.Session || quiet > 0 && s.n > 0 {
		return aloneWait
	}
	before := min(quiet, 2*t.of.alone())
	if rest := before - now.Sub(s.beside(t.Key.Session)); rest > 0 {
		s.by, s.until = t.Key.Session, now.Add(2*before)
		return min(rest, aloneWait)
	}
	s.n++
	s.begins(t.Key.Session, now)
	if quiet > 0 {
		s.alone, s.until, t.alone = t, time.Time{}, true
		t.Own++
		s.ends = time.AfterFunc(math.MaxInt64, t.accompanied)
	}
	return 0
}

func (s *suspects) leave(t *Trial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	if s.alone == t {
		s.ends.Stop()
		s.alone = nil
	}
}

// accompanied notes that an attempt is no longer alone, and lets others begin.
func (t *Trial) accompanied() {
	s := &t.of.suspects
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone != t {
		return
	}
	row := t.Trial
	row.Own--
	once, cancel := context.WithTimeout(context.Background(), trialWait)
	defer cancel()
	if err := t.of.Bus.PutTrial(once, t.Key, row); err != nil {
		s.ends.Reset(trialWait)
		return
	}
	t.Trial, t.alone = row, false
	s.alone = nil
}

// Trial is one attempt. The zero pointer is an attempt that stores nothing.
type Trial struct {
	bus.Trial
	Key       bus.TrialKey
	of        *Trials
	alone     bool      // it is [suspects].alone, and counted as one that failed by itself
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
	quiet := t.quiet(row.Count)
	trial.Count, trial.At = row.Count+1, t.Bus.Millis()
	if wait := t.suspects.enter(trial, quiet); wait > 0 {
		return nil, SoonError(wait)
	}
	trial.stored = true
	if err := t.Bus.PutTrial(ctx, key, trial.Trial); err != nil {
		trial.leave()
		return nil, err
	}
	if trial.alone {
		t.suspects.ends.Reset(quiet) // now: the row that says so is before the one that says that it no longer is
	}
	return trial, nil
}

// First begins the first attempt at a session's turn, which stores no trial. Errors: [SoonError].
func (t *Trials) First(session events.SessionID) error {
	if wait := t.suspects.first(session); wait > 0 {
		return SoonError(wait)
	}
	return nil
}

// quiet is the time for which the next attempt needs to be alone; 0: it need not be.
func (t *Trials) quiet(attempts int64) time.Duration {
	n := attempts - int64(t.Retry.Attempts) + ownAttempts
	if n < 0 {
		return 0
	}
	return delay.Backoff(t.alone(), max(t.Alone, maxAlone), int(n+1))
}

func (t *Trials) alone() time.Duration { return cmp.Or(t.Alone, time.Second) }

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
		trial.leave()
		own = !trial.alone // else it is counted
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
		t.of.suspects.leave(t)
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
