package wake

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/hint"
)

func TestRetryDefaults(t *testing.T) {
	t.Parallel()
	r := Retry{}
	if err := r.Defaults(); err != nil || r.Attempts != 8 || r.Base != time.Second || r.Max != time.Minute {
		t.Errorf("got %+v, %v", r, err)
	}
	r = Retry{Attempts: 2, Base: time.Millisecond, Max: time.Second}
	if want := r; r.Defaults() != nil || r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	for _, r := range []Retry{{Attempts: -1}, {Base: -1}, {Max: -1}} {
		if r.Defaults() == nil {
			t.Errorf("%+v: got no error", r)
		}
	}
}

// TestPauseRange expects each wait to vary by half around the doubled one, for policies and attempts of any size.
func TestPauseRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{Base: time.Duration(rapid.Int64Min(1).Draw(t, "base")), Max: time.Duration(rapid.Int64Range(1<<20, 1<<62).Draw(t, "max"))}
		n := rapid.Int64Range(0, 200).Draw(t, "free attempts and more")
		began := time.Now()
		got := r.Pause(freeAttempts+n, events.MillisOf(began), rapid.String().Draw(t, "spread"))
		want, late := delay.Backoff(r.Base, r.Max, int(n+1)), time.Since(began)+time.Millisecond // Millis cuts
		if got < want/2-late || got-want/2 > want {
			t.Errorf("%+v, %d further attempts: got %v, want %v by half", r, n, got, want)
		}
	})
}

// TestPause expects no wait after the first attempts, and then waits that double, each varied by half.
func TestPause(t *testing.T) {
	t.Parallel()
	r := Retry{Attempts: 100, Base: time.Minute, Max: time.Hour}
	now := events.MillisOf(time.Now())
	for n, base := range map[int64]time.Duration{
		0: 0, 1: 0, 2: 0, 3: time.Minute, 4: 2 * time.Minute, 5: 4 * time.Minute, 8: 32 * time.Minute, 9: time.Hour, 40: time.Hour, 99: time.Hour,
	} {
		got := r.Pause(n, now, "s")
		if got < base/2-time.Second || got > base*3/2 {
			t.Errorf("after %d attempts: got %v, want %v by half", n, got, base)
		}
		if again := r.Pause(n, now, "s"); again > got || got-again > 10*time.Second {
			t.Errorf("after %d attempts: got %v, and then %v", n, got, again)
		}
	}
	if got := r.Pause(3, now-2*3600_000, "s"); got > 0 {
		t.Errorf("long ago: got %v, want no wait", got)
	}
	if got := r.Pause(3, now+3600_000, "s"); got > 90*time.Second {
		t.Errorf("by a clock that is ahead: got %v, want no longer than without", got)
	}
	spread := map[time.Duration]bool{}
	for _, s := range strings.Split("abcdefgh", "") {
		spread[r.Pause(3, now, s).Round(time.Second)] = true
	}
	if len(spread) < 4 {
		t.Errorf("spread: got %v, want different waits", spread)
	}
}

func trialsOf(b *bundle, attempts int) *Trials {
	return &Trials{Bus: b.bus, Retry: Retry{Attempts: attempts, Base: time.Nanosecond, Max: time.Nanosecond}, Worker: "w1", Log: zaptest.NewLogger(b.t)}
}

func (b *bundle) trial(id events.SessionID) bus.Trial {
	b.t.Helper()
	trial, err := b.bus.Trial(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return trial
}

func suspicious() *bus.Wake { return &bus.Wake{WakeKey: hint.TurnKey("s"), Deliveries: 2} }

// TestFirstAttemptIsNotWritten stores an attempt only with a suspicious wake, and before it starts.
func TestFirstAttemptIsNotWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 3)
	trial, err := trials.Begin(t.Context(), &bus.Wake{WakeKey: hint.TurnKey("s"), Deliveries: 1})
	if err != nil || trial.Exhausted() || b.trial("s") != (bus.Trial{}) {
		t.Errorf("first: got %v, exhausted %v, written %+v", err, trial.Exhausted(), b.trial("s"))
	}
	for name, w := range map[string]*bus.Wake{"again": suspicious(), "repair": {WakeKey: hint.TurnKey("s"), Deliveries: 1, WakeHint: bus.WakeHint{Repair: true}}} {
		if trial, err = trials.Begin(t.Context(), w); err != nil || b.trial("s").Count != 1 || b.trial("s").Seq != 1 {
			t.Errorf("%s: got %v, written %+v", name, err, b.trial("s"))
		}
		if err := trial.MarkFolded(t.Context()); err != nil || !b.trial("s").Folded {
			t.Errorf("%s, folded: got %v, written %+v", name, err, b.trial("s"))
		}
		trial.Clear(t.Context())
		if got := b.trial("s"); got != (bus.Trial{}) {
			t.Errorf("%s, over: got %+v, want it forgotten", name, got)
		}
	}
	var none *Trial // with a wake that is not suspicious
	none.Clear(t.Context())
	if none.Exhausted() || none.MarkFolded(t.Context()) != nil {
		t.Error("no trial: it does something")
	}
}

// TestWithdraw restores the count from before an attempt that was not made.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 8)
	for n := range 3 {
		before := b.trial("s")
		if n == 0 {
			before.Seq = 1 // the sequence of the record
		}
		trial, err := trials.Begin(t.Context(), suspicious())
		if err == nil {
			err = trial.MarkFolded(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		trial.Withdraw(t.Context())
		if got := b.trial("s"); got != before {
			t.Errorf("after %d attempts: got %+v, want %+v", n, got, before)
		}
		if _, err := trials.Begin(t.Context(), suspicious()); err != nil || b.trial("s").Count != int64(n+1) {
			t.Fatalf("attempt %d: got %v, written %+v", n+1, err, b.trial("s"))
		}
	}
	var none *Trial
	none.Withdraw(t.Context())
}

// TestFoldThatKills expects a dead letter after the limit of attempts that are stored and do not end.
func TestFoldThatKills(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 3)
	for n := range 3 {
		if _, err := trials.Begin(t.Context(), suspicious()); err != nil || b.trial("s").Count != int64(n+1) {
			t.Fatalf("attempt %d: got %v, written %+v", n+1, err, b.trial("s"))
		}
	}
	trial, err := trials.Begin(t.Context(), suspicious())
	if !errors.Is(err, ErrUnfoldable) {
		t.Fatalf("after as many as may be: got %v, want %v", err, ErrUnfoldable)
	}
	if err := trials.DeadLetter(t.Context(), "s", trial, err); err != nil {
		t.Fatal(err)
	}
	if letter, err := b.bus.DeadLetter(t.Context(), "s"); err != nil || letter.Attempts != 3 || letter.Error != "" || letter.Worker != "w1" || letter.At == 0 {
		t.Errorf("got %+v, %v", letter, err)
	}
	// A new record of the session begins a new count.
	b.submit("s", "t1")
	if _, err := trials.Begin(t.Context(), suspicious()); err != nil || b.trial("s").Count != 1 || b.trial("s").Seq != 2 {
		t.Errorf("after progress: got %v, written %+v", err, b.trial("s"))
	}
}

// TestFoldThatFails stores the error, cut to the limit of a dead letter.
func TestFoldThatFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 2)
	why := errors.New(strings.Repeat("long ", 1000))
	trial := trials.First("s")
	if wait := trial.Fail(t.Context(), why, 0, false); wait <= 0 {
		t.Errorf("wait: got %v, want one", wait)
	}
	if got := b.trial("s"); got.Count != 1 || got.Seq != 1 || got.Folded || len(got.Error) > bus.MaxDeadError || !strings.HasPrefix(got.Error, "long ") {
		t.Errorf("first: got %+v", got)
	}
	trial, err := trials.Begin(t.Context(), suspicious())
	if err != nil || trial.Exhausted() {
		t.Fatalf("got %v, exhausted %v", err, trial.Exhausted())
	}
	trial.Fail(t.Context(), errors.New("short"), 0, false)
	if got := b.trial("s"); got.Count != 2 || got.Error != "short" {
		t.Errorf("second: got %+v, want it counted once", got)
	}
	if err := trials.DeadLetter(t.Context(), "s", trial, why); err != nil {
		t.Fatal(err)
	}
	if letter, err := b.bus.DeadLetter(t.Context(), "s"); err != nil || letter.Attempts != 2 || len(letter.Error) > bus.MaxDeadError {
		t.Errorf("got %+v, %v", letter, err)
	}
}

// TestFailuresOfFirstDeliveries counts failures with new wakes too: hosts that wake a session repeatedly do not hide
// them.
func TestFailuresOfFirstDeliveries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 3)
	for n := range 3 {
		trials.First("s").Fail(t.Context(), errors.New("no fold"), 0, false)
		if got := b.trial("s").Count; got != int64(n+1) {
			t.Errorf("failure %d: got %d", n+1, got)
		}
	}
	b.submit("s", "t1")
	if trials.First("s").Fail(t.Context(), errors.New("no fold"), 0, false); b.trial("s").Count != 1 {
		t.Errorf("after progress: got %+v", b.trial("s"))
	}
}

// TestAttemptsAfterTheFold expects the end of the turn in the history, not a dead letter.
func TestAttemptsAfterTheFold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 2)
	for range 2 {
		trial, err := trials.Begin(t.Context(), suspicious())
		if err != nil {
			t.Fatal(err)
		}
		if err := trial.MarkFolded(t.Context()); err != nil {
			t.Fatal(err)
		}
		trial.Fail(t.Context(), errors.New("no plugins"), 1, false)
	}
	trial, err := trials.Begin(t.Context(), suspicious())
	if err != nil || !trial.Exhausted() {
		t.Fatalf("got %v, exhausted %v, want it given up in the history", err, trial.Exhausted())
	}
	if issue := trial.Issue(2); issue.Code != CodePoisoned || !strings.Contains(issue.Message, "no plugins") {
		t.Errorf("issue: got %+v", issue)
	}
	if issue := (*Trial)(nil).Issue(2); issue.Code != CodePoisoned || !strings.Contains(issue.Message, "whose workers died") {
		t.Errorf("issue without an error: got %+v", issue)
	}
}

// TestProgressIsCountedAnew makes an attempt with a record the first of a new count.
func TestProgressIsCountedAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 9)
	trial := trials.First("s")
	for range 5 {
		trial.Fail(t.Context(), errors.New("x"), 1, false)
	}
	if got := b.trial("s").Count; got != 5 {
		t.Fatalf("count: got %d, want 5", got)
	}
	trial.Fail(t.Context(), errors.New("x"), 2, true)
	if got := b.trial("s"); got.Count != 1 || got.Seq != 2 {
		t.Errorf("after progress: got %+v", got)
	}
}

// TestAttemptsWait expects a wait between attempts after the first failures.
func TestAttemptsWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 9)
	trials.Retry.Base, trials.Retry.Max = time.Hour, time.Hour
	for range freeAttempts {
		if _, err := trials.Begin(t.Context(), suspicious()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := trials.Begin(t.Context(), suspicious())
	if soon, ok := errors.AsType[SoonError](err); !ok || time.Duration(soon) < 29*time.Minute || b.trial("s").Count != freeAttempts {
		t.Errorf("got %v, written %+v, want a wait and no attempt", err, b.trial("s"))
	}
	if _, err := trials.Begin(t.Context(), &bus.Wake{WakeKey: hint.TurnKey("none"), Deliveries: 2}); err != nil {
		t.Errorf("no session: got %v, want it left to the fold", err)
	}
}

// TestAttemptsAtOneSequenceCount has attempts fail at a session whose turn recorded something before the first of them, each
// with a wake that was delivered before or with a new one: only an attempt that itself moved the session starts a new count.
func TestAttemptsAtOneSequenceCount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 8)
	const attempts = 3
	for redelivered := range 1 << attempts {
		last := b.append("s", "t1", &events.TurnRequested{}) // the attempts before do not count
		for n := range attempts {
			w := suspicious()
			w.Deliveries = 1 + redelivered>>n&1
			trial, err := trials.Begin(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			trial.Fail(t.Context(), errors.New("boom"), last, true)
			if got := b.trial("s").Count; got != int64(n+1) {
				t.Errorf("redelivered %03b, attempt %d: got a count of %d", redelivered, n+1, got)
			}
		}
	}
	trial, err := trials.Begin(t.Context(), suspicious())
	if err != nil {
		t.Fatal(err)
	}
	trial.Fail(t.Context(), errors.New("boom"), trial.Seq+1, true)
	if got := b.trial("s").Count; got != 1 {
		t.Errorf("an attempt that moved the session: got a count of %d", got)
	}
}
