package work

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

const (
	sid     = events.SessionID("s")
	trusted = 100 * time.Millisecond
)

// bundle is a machine of worker w1, whose steps a test does over a log in memory.
type bundle struct {
	*Machine
	t   *testing.T
	log *events.MemLog
	now Facts
	n   int
}

// setup makes a machine that has loaded a session with turn t1.
func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, log: &events.MemLog{}, now: Facts{Now: time.Unix(1000, 0), Open: true}}
	b.Machine = New(Config{
		Worker: "w1", Trusted: trusted, Linger: trusted, FairTurns: 1, Full: func() bool { return true }, Extra: func() []events.Payload { return nil },
		Broken: func(err error) events.Issue { return events.Issue{Code: "refused", Message: err.Error()} },
	})
	b.append("", &events.SessionOpened{})
	b.append("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}})
	b.State = projector.New(sid)
	b.sync()
	b.Load(b.now)
	return b
}

// claimed is setup with turn t1 claimed. With called, the turn has a call.
func claimed(t *testing.T, called bool) *bundle {
	t.Helper()
	b := setup(t)
	b.until(Claim)
	b.Input(turn.Claim{Worker: "w1", Tools: []events.ToolEntry{{Name: "tool", Effects: events.EffectsNone}}})
	b.until(Start)
	if called {
		b.Input(b.asksTool())
		b.until(Start)
	}
	return b
}

// append appends events of another process.
func (b *bundle) append(id events.TurnID, list ...events.Payload) {
	b.t.Helper()
	last, _ := b.log.Last(b.t.Context(), sid)
	var all []events.Event
	for _, p := range list {
		all = append(all, events.Of(id, p))
	}
	if _, _, err := b.store(all, last); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) store(list []events.Event, at events.Seq) (*events.Commit, events.Seq, error) {
	b.t.Helper()
	b.n++
	c := &events.Commit{
		ID: events.CommitID(fmt.Sprint("c", b.n)), Session: sid, At: events.Millis(b.n), Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Events: list,
	}
	seq, err := b.log.Append(b.t.Context(), c, at)
	if err != nil && !errors.As(err, new(*events.ConflictError)) {
		b.t.Fatal(err)
	}
	return c, seq, err
}

func (b *bundle) sync() {
	b.t.Helper()
	if err := follow.Sync(b.t.Context(), b.log, nil, b.State); err != nil {
		b.t.Fatal(err)
	}
}

// until does the steps about the log until the machine says another one, which has to be the wanted one.
func (b *bundle) until(want Do) Ready {
	b.t.Helper()
	for {
		rd := b.Ready(b.now)
		switch rd.Do {
		case Add:
			for i := range rd.Events {
				b.Fold(&rd.Events[i], 0)
			}
			b.Added()
		case Append:
			c, seq, err := b.store(rd.Events, b.Durable().Seq)
			if err == nil {
				_, err = b.Signed(c)
			}
			if _, err := b.Appended(seq, err); err != nil {
				b.t.Fatal(err)
			}
		case Reread:
			b.sync()
			b.Reread()
		case want:
			return rd
		case Read:
			b.sync()
			b.Synced(b.now.Now)
		case Drop:
			b.Drop(errors.New("superseded"))
		default:
			b.t.Fatalf("got step %d, %+v, want %d", rd.Do, rd, want)
		}
	}
}

// last is the end of the log.
func (b *bundle) last() events.Seq {
	b.t.Helper()
	seq, err := b.log.Last(b.t.Context(), sid)
	if err != nil {
		b.t.Fatal(err)
	}
	return seq
}

// asksTool is a reply with a call of the tool.
func (b *bundle) asksTool() turn.Reply {
	b.t.Helper()
	prompt, err := b.State.Prompt()
	if err != nil {
		b.t.Fatal(err)
	}
	return turn.Reply{ModelReplied: events.ModelReplied{
		Prompt: prompt.Ref, Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Call: "k", Tool: "tool", Args: []byte("{}")}},
	}}
}

func success(text string) turn.Results {
	return turn.Results{Results: []events.ToolResult{{Text: text}}}
}

// overtake has another worker take the turn over and record its effect.
func (b *bundle) overtake() {
	b.t.Helper()
	recorded := events.Payload(&events.ToolReturned{Results: success("other's").Results})
	if !b.State.Turn().Replied {
		reply := b.asksTool().ModelReplied
		recorded = &reply
	}
	b.append("t1", &events.TurnStarted{Attempt: 2, Worker: "other"}, recorded)
}

// running is an effect that runs.
func (b *bundle) running(id events.EffectID, prompt string) *Effect {
	e := &Effect{Turn: "t1", ID: id, Prompt: prompt, Cancel: func(error) {}}
	b.Launch(e)
	return e
}

// age makes the state too old to be trusted.
func (b *bundle) age() { b.now.Now = b.now.Now.Add(trusted + 1) }

// TestOvertakenRunStartsNothing has a run whose turn another worker has taken over since the run's last append; that worker has
// recorded the effect. A run whose state is aged reads the log first, and starts nothing. A run whose state is not starts the
// effect at once, and an effect whose events are recorded goes on.
func TestOvertakenRunStartsNothing(t *testing.T) {
	t.Parallel()
	for name, called := range map[string]bool{"needs_the_model": false, "needs_a_call": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := claimed(t, called)
			b.overtake()
			b.until(Start)
			b.age()
			b.until(Ask)
			if worker := b.State.Turn().Worker; worker != "other" {
				t.Errorf("got the turn of %s, want the one of the other worker", worker)
			}
		})
	}
	for name, aged := range map[string]bool{"recorded": false, "recorded_late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := claimed(t, true)
			e := b.running("t1/0/0", "")
			b.overtake()
			if err := b.Record(e, nil); err != nil {
				t.Fatal(err)
			}
			if aged {
				b.age()
			}
			if rd := b.until(Answer); errors.Is(rd.Err, turn.ErrStale) != aged {
				t.Errorf("got %v", rd.Err)
			}
		})
	}
}

// TestDiscardedEffectRecordsNothing has a discarded effect that ignores its cancel: its events are refused. The effect that the turn
// started in its place continues.
func TestDiscardedEffectRecordsNothing(t *testing.T) {
	t.Parallel()
	b := claimed(t, true)
	old, now, last := b.running("t1/0/0", ""), b.running("t1/0/0", ""), b.last()
	list := []events.Payload{&events.ToolNestedCalled{Effect: "t1/0/0/0", Tool: "t", Digest: "d"}}
	if err := b.Record(old, list); !errors.Is(err, turn.ErrStale) {
		t.Errorf("the discarded one: got %v, want %v", err, turn.ErrStale)
	}
	if err := b.Record(now, list); err != nil || b.until(Answer).Err != nil || b.last() != last+1 {
		t.Errorf("the one that runs: got %v, %d commits, want its events in the log", err, b.last()-last)
	}
	b.Result(old, success("late"))
	b.until(Wait)
}

// TestLingeringResultsCostNoWrite starts a model call on lingering results with an aged state: if the log has not moved, asking for
// its end costs no write. If it has, the append finds what another worker did.
func TestLingeringResultsCostNoWrite(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string]bool{"at_the_end": false, "behind": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := claimed(t, true)
			e := b.running("t1/0/0", "")
			if moved {
				b.overtake()
			}
			last := b.last()
			b.Result(e, success("mine"))
			b.age()
			b.until(Look)
			b.Looked(last, nil, b.now.Now)
			if moved {
				b.until(Ask)
			} else {
				b.until(Start)
			}
			if b.last() != last {
				t.Errorf("got %d commits, want none", b.last()-last)
			}
		})
	}
}

// TestResultsAreOneEvent completes calls in another order than that of the reply: one commit has the results in its order.
func TestResultsAreOneEvent(t *testing.T) {
	t.Parallel()
	b := claimed(t, true)
	var list []*Effect
	for i := range 5 {
		list = append(list, b.running(events.EffectID(fmt.Sprint(i)), ""))
	}
	for _, i := range []int64{3, 1} {
		b.Result(list[i], turn.Results{Results: []events.ToolResult{{Call: i}}})
	}
	for _, i := range []int64{4, 0, 2} {
		b.Result(list[i], turn.Results{Pending: []int64{i}})
	}
	got, _ := b.queue[0].in.(turn.Results)
	if len(b.queue) != 1 || !slices.Equal(got.Pending, []int64{0, 2, 4}) || got.Results[0].Call != 1 || got.Results[1].Call != 3 {
		t.Errorf("got %+v, want one input with all, ascending", b.queue)
	}
}

// TestReplyAheadOfTheLog has a model reply to a prompt whose results linger, while another process appends. The reply counts where the
// prompt is the same after that, and is discarded where it is another one.
func TestReplyAheadOfTheLog(t *testing.T) {
	t.Parallel()
	injected := &events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "more"}}}
	for name, c := range map[string]struct {
		other   events.Payload
		replied bool
	}{
		"same_prompt":  {&events.TurnRequested{Input: events.TurnInput{Continue: true}}, true},
		"other_prompt": {injected, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := claimed(t, true)
			b.Result(b.running("t1/0/0", ""), success("mine"))
			b.until(Start)
			reply := b.asksTool()
			reply.Iteration, reply.Stop, reply.Parts = 1, events.StopEnd, []events.Part{{Kind: events.PartText, Text: "done"}}
			e := b.running("t1/1/model", reply.Prompt.Digest)
			id := events.TurnID("")
			if c.replied {
				id = "t2"
			}
			b.append(id, c.other)
			b.Result(e, reply)
			if c.replied {
				b.until(Yield)
			} else {
				b.until(Start)
			}
			record, err := b.State.Record("t1")
			if err != nil || (record != nil) != c.replied || len(b.Discarded()) == 1 == c.replied {
				t.Errorf("got the record %+v, %v, want that the reply counts: %t", record, err, c.replied)
			}
		})
	}
}

// TestRefusedCommitEndsTurn has the log refuse what follows from a result: the turn ends with the reason. An outcome that is not known ends
// the run.
func TestRefusedCommitEndsTurn(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"refused": events.ErrTooLarge, "unknown": events.ErrOutcomeUnknown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := claimed(t, false)
			reply := b.asksTool()
			b.Result(b.running("t1/0/model", reply.Prompt.Digest), reply)
			rd := b.Ready(b.now)
			if err := b.Failed(refused); rd.Do != Add || err != nil && !errors.Is(err, events.ErrOutcomeUnknown) {
				t.Fatalf("got %+v, %v", rd, err)
			} else if err != nil {
				return
			}
			b.until(End)
			if record, err := b.State.Record("t1"); err != nil || record == nil || record.End != events.EndFailed || record.Issue.Code != "refused" {
				t.Errorf("got %+v, %v, want it ended", record, err)
			}
		})
	}
}

// TestStopWaitsForEffects cancels a turn with two effects: one returns its result in time, and the other one is abandoned.
func TestStopWaitsForEffects(t *testing.T) {
	t.Parallel()
	b := claimed(t, true)
	cancelled := 0
	slow := &Effect{Turn: "t1", ID: "slow", Cancel: func(error) { cancelled++ }, Grace: time.Minute}
	b.Launch(slow)
	e := b.running("t1/0/0", "")
	b.append("t1", &events.TurnCancelRequested{Request: "r1"})
	b.now.Arrivals++
	rd := b.until(Wait)
	if want := b.now.Now.Add(time.Minute); cancelled != 1 || !rd.Until.Equal(want) {
		t.Errorf("got %d cancels, a wait until %v, want one, and %v", cancelled, rd.Until, want)
	}
	b.Result(e, success("in time"))
	b.until(Wait)
	b.now.Now = rd.Until
	b.until(End)
	record, err := b.State.Record("t1")
	if err != nil || record == nil || record.End != events.EndCancelled || len(b.Inflight) != 0 {
		t.Errorf("got %+v, %v, %d effects, want it cancelled", record, err, len(b.Inflight))
	}
}

// TestAgedState plays answers of the log. A state is fresh for the time [Config.Trusted] after the request, however late the answer
// is; the third late answer in a row counts from its arrival.
func TestAgedState(t *testing.T) {
	t.Parallel()
	const fast, late = trusted / 10, 2 * trusted
	for name, c := range map[string]struct {
		took []time.Duration // from requests to their answers
		aged bool            // at the last answer
	}{
		"fast":                       {[]time.Duration{fast}, false},
		"late":                       {[]time.Duration{late}, true},
		"late_twice":                 {[]time.Duration{late, late}, true},
		"late_three_times":           {[]time.Duration{late, late, late}, false},
		"late_four_times":            {[]time.Duration{late, late, late, late}, true},
		"fast_between":               {[]time.Duration{late, late, fast, late}, true},
		"late_three_times_after_all": {[]time.Duration{late, late, fast, late, late, late}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := claimed(t, false)
			for _, took := range c.took {
				b.age()
				b.until(Read)
				b.now.Now = b.now.Now.Add(took)
				b.Synced(b.now.Now)
			}
			if got := b.Ready(b.now).Do == Read; got != c.aged {
				t.Errorf("aged: got %v, want %v", got, c.aged)
			}
		})
	}
}

// TestUnansweredRead has a log that does not answer: nothing starts before the next tick, and the log is read then.
func TestUnansweredRead(t *testing.T) {
	t.Parallel()
	b := claimed(t, false)
	b.age()
	b.until(Read)
	b.Unanswered()
	b.now.Arrivals++
	b.until(Wait)
	b.Tick()
	b.until(Read)
	b.Synced(b.now.Now)
	b.until(Start)
}

// TestRestReadsNews has a wake come before, during and after the read at the end of a run's work: the run ends only after a read that
// began after the last one.
func TestRestReadsNews(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append("t1", &events.TurnCompleted{End: events.EndFailed})
	b.sync()
	b.now.Arrivals++
	b.until(Read)
	b.now.Arrivals++ // the answer may lack what it is about
	b.sync()
	b.Synced(b.now.Now)
	b.until(Read)
	b.Synced(b.now.Now)
	b.until(End)
	if b.HasNews(b.now.Arrivals) || !b.HasNews(b.now.Arrivals+1) {
		t.Error("want news after one more wake, and only then")
	}
	b.now.Arrivals++
	b.until(Read)
}

// TestLeaving has runs of processes that stop, or are full: they record what plugins were told, and give up the turn that they have.
func TestLeaving(t *testing.T) {
	t.Parallel()
	told := events.Of("t0", &events.TurnTold{Worker: "w1"})
	for name, c := range map[string]struct {
		of     func(*testing.T) *bundle
		facts  Facts
		want   Do
		events int
	}{
		"stops_before_a_turn":  {setup, Facts{Draining: true}, HandOver, 0},
		"stops_in_a_turn":      {func(t *testing.T) *bundle { return claimed(t, false) }, Facts{Draining: true}, HandOver, 1},
		"waits_for_its_calls":  {setup, Facts{Draining: true, Calling: true}, Wait, 0},
		"is_full_after_a_turn": {func(t *testing.T) *bundle { b := setup(t); b.turns = 1; return b }, Facts{}, Yield, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := c.of(t)
			last := b.last()
			b.now.Draining, b.now.Calling = c.facts.Draining, c.facts.Calling
			b.until(c.want)
			if got := int(b.last() - last); got != c.events {
				t.Errorf("got %d commits, want %d", got, c.events)
			}
			b.now.Told = []events.Event{told}
			if c.want != Wait && c.events == 0 && b.Ready(b.now).Do != Add {
				t.Error("plugins were told, and it is not recorded")
			}
		})
	}
}
