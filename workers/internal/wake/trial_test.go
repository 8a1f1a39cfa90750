package wake

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
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
		got := r.Pause(freeAttempts+n, 1000, 1000, rapid.String().Draw(t, "spread"))
		want := delay.Backoff(r.Base, r.Max, int(n+1))
		if got < want/2 || got-want/2 > want {
			t.Errorf("%+v, %d further attempts: got %v, want %v by half", r, n, got, want)
		}
	})
}

// TestPause expects no wait after the first attempts, and then waits that double, each varied by half.
func TestPause(t *testing.T) {
	t.Parallel()
	r := Retry{Attempts: 100, Base: time.Minute, Max: time.Hour}
	const now = events.Millis(1_000_000_000)
	for n, base := range map[int64]time.Duration{
		0: 0, 1: 0, 2: 0, 3: time.Minute, 4: 2 * time.Minute, 5: 4 * time.Minute, 8: 32 * time.Minute, 9: time.Hour, 40: time.Hour, 99: time.Hour,
	} {
		got := r.Pause(n, now, now, "s")
		if got < base/2 || got > base*3/2 {
			t.Errorf("after %d attempts: got %v, want %v by half", n, got, base)
		}
		if later := r.Pause(n, now, now+10_000, "s"); base > 0 && later != got-10*time.Second {
			t.Errorf("after %d attempts: got %v, and 10 s later %v", n, got, later)
		}
	}
	if got := r.Pause(3, now-2*3600_000, now, "s"); got > 0 {
		t.Errorf("long ago: got %v, want no wait", got)
	}
	if got := r.Pause(3, now+3600_000, now, "s"); got > 90*time.Second {
		t.Errorf("by a clock that is ahead: got %v, want no longer than without", got)
	}
	spread := map[time.Duration]bool{}
	for _, s := range strings.Split("abcdefgh", "") {
		spread[r.Pause(3, now, now, s).Round(time.Second)] = true
	}
	if len(spread) < 4 {
		t.Errorf("spread: got %v, want different waits", spread)
	}
}

func trialsOf(b *bundle, attempts int) *Trials {
	t := &Trials{Bus: b.bus, Retry: Retry{Attempts: attempts, Base: time.Nanosecond, Max: time.Nanosecond}, Worker: "w1", Log: zaptest.NewLogger(b.t), Alone: time.Hour}
	now := time.Unix(0, 0)
	t.suspects.clock = func() time.Time { // days pass between two attempts
		now = now.Add(1 << 50)
		return now
	}
	return t
}

// restarted is the trials of the process that follows one that died.
func (t *Trials) restarted() *Trials {
	return &Trials{Bus: t.Bus, Retry: t.Retry, Worker: t.Worker, Log: t.Log, Alone: t.Alone, suspects: suspects{clock: t.suspects.clock}}
}

func (b *bundle) trial(key bus.TrialKey) bus.Trial {
	b.t.Helper()
	trial, err := b.bus.Trial(b.t.Context(), key)
	runtest.NoError(b.t, err)
	return trial
}

var foldOfS = bus.TrialKey{Session: "s", Of: bus.TrialFold}

func turnOf(session events.SessionID) bus.TrialKey {
	return bus.TrialKey{Session: session, Of: bus.TrialTurn, Turn: "t1"}
}

// begin begins an attempt that has to be made.
func (b *bundle) begin(trials *Trials, key bus.TrialKey, running *projector.Turn) *Trial {
	b.t.Helper()
	trial, err := trials.Begin(b.t.Context(), key, running)
	if err != nil || trial.Exhausted() {
		b.t.Fatalf("begin %+v: got %v, exhausted %v, want an attempt", key, err, trial.Exhausted())
	}
	return trial
}

// TestSuspicious has the deliveries that follow an attempt which may have killed its worker.
func TestSuspicious(t *testing.T) {
	t.Parallel()
	for want, list := range map[bool][]bus.Wake{
		false: {{Deliveries: 1}}, true: {{Deliveries: 2}, {Deliveries: 1, WakeHint: bus.WakeHint{Repair: true}}},
	} {
		for _, w := range list {
			runtest.Equal(t, fmt.Sprintf("%+v", w), Suspicious(&w), want)
		}
	}
}

// TestNoTrial does nothing for an attempt that stored none.
func TestNoTrial(t *testing.T) {
	t.Parallel()
	var none *Trial
	none.Clear(t.Context())
	none.Withdraw(t.Context())
	none.Leave()
	if none.Exhausted() {
		t.Error("no trial: it is exhausted")
	}
}

// TestWithdraw restores the count from before an attempt that was not made.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	trials := trialsOf(b, 8)
	for n := range 7 {
		before := b.trial(foldOfS)
		b.begin(trials, foldOfS, nil).Withdraw(t.Context())
		runtest.Equal(t, fmt.Sprintf("after %d attempts", n), b.trial(foldOfS), before)
		b.begin(trials, foldOfS, nil)
		if got := b.trial(foldOfS).Count; got != int64(n+1) {
			t.Fatalf("attempt %d: got a count of %d", n+1, got)
		}
		trials = trials.restarted()
	}
	b.begin(trials, foldOfS, nil).Clear(t.Context())
	runtest.Equal(t, "over", b.trial(foldOfS), (bus.Trial{}))
}

// TestFoldThatKills expects a dead letter after the limit of attempts that are stored and do not end, whatever is appended
// to the session meanwhile.
func TestFoldThatKills(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	trials := trialsOf(b, 3)
	for n := range 3 {
		b.begin(trials, foldOfS, nil)
		b.submit("s", events.TurnID(fmt.Sprint("t", n)))
		trials = trials.restarted()
	}
	trial, err := trials.Begin(t.Context(), foldOfS, nil)
	if err != nil || !trial.Exhausted() {
		t.Fatalf("after as many as may be: got %v, exhausted %v", err, trial.Exhausted())
	}
	runtest.NoError(t, trials.DeadLetter(t.Context(), trial))
	if letter, err := b.bus.DeadLetter(t.Context(), "s"); err != nil || letter.Attempts != 3 || letter.Error != "" || letter.Worker != "w1" || letter.At == 0 {
		t.Errorf("got %+v, %v", letter, err)
	}
	if trial.Clear(t.Context()); b.trial(foldOfS) != (bus.Trial{}) {
		t.Errorf("given up: got %+v, want it forgotten", b.trial(foldOfS))
	}
}

// TestAttemptsThatFail count, stored or not, and keep their last error, cut to the limit of a dead letter.
func TestAttemptsThatFail(t *testing.T) {
	t.Parallel()
	const attempts = 4
	for stored := range 1 << attempts {
		b := setup(t)
		trials := trialsOf(b, attempts)
		for n := range attempts {
			var trial *Trial
			if stored>>n&1 == 1 {
				trial = b.begin(trials, foldOfS, nil)
			}
			why := errors.New(strings.Repeat("long ", 1000*(n%2)) + "why")
			trial, wait, exhausted := trials.Fail(t.Context(), trial, foldOfS, nil, why)
			got := b.trial(foldOfS)
			if got != trial.Trial || got.Count != int64(n+1) || got.Own != got.Count || wait <= 0 || exhausted != (n == attempts-1) {
				t.Errorf("stored %04b, failure %d: got %+v, wait %v, exhausted %v", stored, n+1, got, wait, exhausted)
			}
			if len(got.Error) > bus.MaxDeadError || !strings.HasPrefix(why.Error(), got.Error[:3]) {
				t.Errorf("error: got %q", got.Error)
			}
		}
	}
}

// TestIssue says what the last attempts ended with.
func TestIssue(t *testing.T) {
	t.Parallel()
	died := &Trial{Trial: bus.Trial{Count: 8}}
	if issue := died.Issue(); issue.Code != CodePoisoned || issue.Message != "given up after 8 attempts whose workers died" {
		t.Errorf("got %+v", issue)
	}
	died.Error = "no plugins"
	if issue := died.Issue(); issue.Code != CodePoisoned || issue.Message != "given up after 8 attempts, the last: no plugins" {
		t.Errorf("got %+v", issue)
	}
}

// TestAttemptsWait expects a wait between attempts after the first ones.
func TestAttemptsWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	trials := trialsOf(b, 9)
	trials.Retry.Base, trials.Retry.Max = time.Hour, time.Hour
	for range freeAttempts {
		b.begin(trials, foldOfS, nil)
	}
	_, err := trials.Begin(t.Context(), foldOfS, nil)
	if soon, ok := errors.AsType[SoonError](err); !ok || time.Duration(soon) < 29*time.Minute || b.trial(foldOfS).Count != freeAttempts {
		t.Errorf("got %v, written %+v, want a wait and no attempt", err, b.trial(foldOfS))
	}
}

// TestLongAttemptsCountUntilProgress runs generated attempts at a turn that waits and then runs: each dies, fails or stops in order,
// before or after its start, and some make progress. The trial counts those since the last progress, and the history has
// events of others between all of them.
func TestLongAttemptsCountUntilProgress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sessions := 0
	rapid.Check(t, func(rt *rapid.T) {
		sessions++
		key := turnOf(events.SessionID(fmt.Sprint("s", sessions)))
		trials := trialsOf(b, 1000)
		var running *projector.Turn // as the fold has it
		want := int64(0)            // attempts since the last progress
		for range rapid.IntRange(1, 12).Draw(rt, "attempts") {
			trial := b.begin(trials, key, running)
			want++
			if got := b.trial(key).Count; got != want {
				rt.Fatalf("attempt %d since progress: got a count of %d", want, got)
			}
			starts := rapid.Bool().Draw(rt, "starts")
			if starts {
				next := projector.Turn{Attempt: 1, Starts: 1}
				if running != nil {
					next = projector.Turn{Attempt: running.Attempt + 1, Starts: running.Starts + 1}
				}
				running = &next
				if rapid.Bool().Draw(rt, "makes progress") {
					running.Starts, want = 0, 0
				}
			}
			switch rapid.SampledFrom([]string{"dies", "fails", "stops"}).Draw(rt, "end") {
			case "fails":
				trials.Fail(b.t.Context(), trial, key, running, errors.New("boom"))
				want = max(want, 1) // after its progress it is the first of a new count
			case "stops":
				trial.Withdraw(b.t.Context())
				want--
				if starts { // the history has that it was released
					running.Starts, want = 0, 0
				}
			default:
				trials = trials.restarted()
			}
		}
	})
}

// TestLongNeighboursAreNotGivenUp has generated nodes with sessions one of whose turns kills its node in each attempt, before or
// after its start, and others that do so in their first attempt and are not seen again. The one is given up, and no neighbour.
func TestLongNeighboursAreNotGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	nodes := 0
	rapid.Check(t, func(rt *rapid.T) {
		nodes++
		limit := rapid.IntRange(1, 8).Draw(rt, "limit")
		n := rapid.IntRange(1, 5).Draw(rt, "neighbours")
		starts := rapid.Bool().Draw(rt, "starts")
		running := make([]*projector.Turn, n+1) // as the histories have them; 0 is the killer
		key := func(i int) bus.TrialKey { return turnOf(events.SessionID(fmt.Sprintf("n%d-%d", nodes, i))) }
		trials, active, progressed := trialsOf(b, limit), make([]*Trial, n+1), make([]bool, n+1)
		died := func() { trials, active, progressed = trials.restarted(), make([]*Trial, n+1), make([]bool, n+1) }
		for deaths := 0; ; {
			if deaths > 5*limit+50 {
				rt.Fatalf("the turn killed its node %d times with a limit of %d, and is not given up", deaths, limit)
			}
			for _, i := range rapid.Permutation(slices.Collect(iterate(n+1))).Draw(rt, "order") {
				if progressed[i] {
					continue // its attempt on this node goes on
				}
				trial, err := trials.Begin(b.t.Context(), key(i), running[i])
				if _, waits := errors.AsType[SoonError](err); waits {
					continue
				}
				switch {
				case err != nil:
					rt.Fatal(err)
				case trial.Exhausted() && i == 0:
					if trial.Own < 2 || trial.Count < int64(limit) {
						rt.Errorf("given up after %+v", trial.Trial)
					}
					return
				case trial.Exhausted():
					rt.Fatalf("neighbour %d: given up after %d deaths, %+v", i, deaths, trial.Trial)
				case starts:
					next := projector.Turn{Attempt: 1, Starts: 1}
					if before := running[i]; before != nil {
						next = projector.Turn{Attempt: before.Attempt + 1, Starts: before.Starts + 1}
					}
					running[i] = &next
				}
				if active[i] = trial; i == 0 {
					break // the node dies in the middle of its wakes
				}
			}
			if active[0] != nil {
				died()
				deaths++
				continue
			}
			if rapid.IntRange(0, 3).Draw(rt, "a new killer") == 0 && trials.First("new") == nil {
				died()
				continue
			}
			for i, trial := range active { // the killer waits for the suspects to make progress
				if trial != nil {
					trial.Clear(b.t.Context())
					if active[i], progressed[i] = nil, true; running[i] != nil {
						running[i].Starts = 0
					}
				}
			}
		}
	})
}

// iterate yields 0 to n-1.
func iterate(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestAlone: an attempt that needs it waits until no suspect is on its node and nothing began there for a time, and nothing begins
// while it is alone.
func TestAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	trials, now := trialsOf(b, 3), time.Unix(1, 0)
	trials.suspects.clock = func() time.Time { return now }
	soon := func(what string, err error) {
		t.Helper()
		runtest.WantError(t, what, err, SoonError(aloneWait))
	}
	begins := func(key bus.TrialKey) error {
		before := b.trial(key)
		_, err := trials.Begin(t.Context(), key, nil)
		if after := b.trial(key); err != nil && after != before {
			t.Errorf("%v: written %+v", key, after)
		}
		return err
	}
	first := b.begin(trials, turnOf("a"), nil)
	runtest.NoError(t, b.bus.PutTrial(t.Context(), turnOf("b"), bus.Trial{Count: 2}))
	soon("beside a suspect", begins(turnOf("b")))
	first.Clear(t.Context())                                                               // it made progress
	b.begin(trials, bus.TrialKey{Session: "b", Of: bus.TrialFold}, nil).Clear(t.Context()) // before its turn a session is folded
	soon("beside what has just begun", begins(turnOf("b")))
	b.begin(trials, bus.TrialKey{Session: "b", Of: bus.TrialFold}, nil).Clear(t.Context())
	soon("while one waits to be alone", begins(turnOf("a")))
	soon("while one waits to be alone, for the first time", trials.First("c"))
	now = now.Add(2 * trials.Alone) // it is twice as long for a second attempt
	b.begin(trials, bus.TrialKey{Session: "b", Of: bus.TrialFold}, nil).Clear(t.Context())
	alone := b.begin(trials, turnOf("b"), nil)
	if alone.Own != 1 || b.trial(turnOf("b")).Own != 1 {
		t.Errorf("alone: got %+v, written %+v", alone.Trial, b.trial(turnOf("b")))
	}
	soon("beside one that is alone", begins(turnOf("a")))
	now = now.Add(1000 * trials.Alone)
	soon("beside one that is alone, for the first time", trials.First("c"))
	alone.accompanied() // its time is over
	if got := b.trial(turnOf("b")); got.Own != 0 || got.Count != 3 {
		t.Errorf("no longer alone: written %+v", got)
	}
	runtest.WantError(t, "beside one that is no longer alone", trials.First("c"), nil)
	if _, _, exhausted := trials.Fail(t.Context(), alone, turnOf("b"), nil, errors.New("failed")); exhausted || b.trial(turnOf("b")).Own != 1 {
		t.Errorf("it failed by itself: exhausted %v, written %+v", exhausted, b.trial(turnOf("b")))
	}
	alone.accompanied()
	if got := b.trial(turnOf("b")).Own; got != 1 {
		t.Errorf("it has ended: got %d by itself, want 1", got)
	}
	b.begin(trials, turnOf("a"), nil)
}

// TestAloneIsStoredFirst has attempts that are alone for no longer than it takes to store that: what is stored at last is that they are not.
func TestAloneIsStoredFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for n := range 30 {
		key := turnOf(events.SessionID(fmt.Sprint("s", n)))
		runtest.NoError(t, b.bus.PutTrial(t.Context(), key, bus.Trial{Count: 2}))
		trials := trialsOf(b, 3)
		trials.Alone = time.Nanosecond
		b.begin(trials, key, nil)
		bustest.Eventually(t, "it is no longer alone", func() bool {
			trials.suspects.mu.Lock()
			defer trials.suspects.mu.Unlock()
			return trials.suspects.alone == nil
		})
		if got := b.trial(key); got.Own != 0 || got.Count != 3 {
			t.Fatalf("attempt %d: written %+v, want none by itself", n, got)
		}
	}
}
