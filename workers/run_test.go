package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestAdvanceEnded owes a tool call to a run that has been stopped: it must not begin.
func TestAdvanceEnded(t *testing.T) {
	t.Parallel()
	s := projector.New("s")
	c := &events.Commit{ID: "c", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{
		events.Of("", &events.SessionOpened{}), events.Of("t", &events.TurnRequested{}), events.Of("t", &events.TurnStarted{Attempt: 1, Worker: "w"}),
		events.Of("t", &events.ModelReplied{Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Call: "k", Tool: "once"}}}),
	}}
	if err := s.Apply(events.Entry{Seq: 1, Commit: c}); err != nil {
		t.Fatal(err)
	}
	r := newRun(&Worker{cfg: Config{ID: "w"}}, &bus.Job{Session: "s", ID: "t"})
	r.state, r.g.claimed = s, true
	ctx, stop := context.WithCancelCause(t.Context())
	stop(ErrStopped)
	if done, err := r.advance(ctx); done || !errors.Is(err, ErrStopped) || len(r.flights) != 0 || s.Seq != 1 {
		t.Errorf("got %v, %v, %d flights, want %v and nothing begun", done, err, len(r.flights), ErrStopped)
	}
}

// TestLateDelivery has a job meet its turn in the hands of another worker. It
// leaves the turn alone only where that one claimed it after the job had come, and is there.
func TestLateDelivery(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	stop, err := b.Pokes("there", func(events.SessionID) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	const came = 1000
	for name, c := range map[string]struct {
		worker  events.WorkerID
		claimed events.Millis
		want    error
	}{
		"claimed_since":         {"there", came + 1, ErrSuperseded},
		"claimed_before":        {"there", came, nil},
		"claimed_since_and_die": {"gone", came + 1, nil},
		"own":                   {"w", came + 1, nil},
		"claimed_tomorrow":      {"there", events.MillisOf(time.Now().Add(24 * time.Hour)), nil},
	} {
		s := projector.New("s")
		list := []events.Event{
			events.Of("", &events.SessionOpened{}), events.Of("t", &events.TurnRequested{}),
			events.Of("t", &events.TurnStarted{Attempt: 1, Worker: "first"}), events.Of("t", &events.TurnStarted{Attempt: 2, Worker: c.worker}),
		}
		for i, at := range []events.Millis{1, 1, 1, c.claimed} {
			entry := events.Entry{Seq: events.Seq(i + 1), Commit: &events.Commit{
				ID: events.CommitID(fmt.Sprintf("c%d", i)), Session: "s", At: at, Actor: events.Actor{Kind: events.ActorSystem}, Events: list[i : i+1],
			}}
			if err := s.Apply(entry); err != nil {
				t.Fatal(err)
			}
		}
		r := newRun(&Worker{cfg: Config{ID: "w", Bus: b}}, &bus.Job{Session: "s", ID: "t", Came: time.UnixMilli(came)})
		r.state = s
		if alone, err := r.stranded(t.Context(), s.Turn()); !alone || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, alone, err, c.want)
		}
	}
}

// TestMailOnce delivers a job again and again to a run that does not read its mail.
func TestMailOnce(t *testing.T) {
	t.Parallel()
	w := &Worker{runs: make(map[events.SessionID]*run)}
	r := newRun(w, &bus.Job{Session: "s", ID: "own"})
	w.runs["s"] = r
	for n := 1; n <= 3; n++ {
		for _, id := range []string{"a", "b"} {
			w.accept(t.Context(), &bus.Job{Session: "s", ID: id, Deliveries: n})
		}
	}
	if len(r.mail) != 2 || r.mail[0].ID != "a" || r.mail[0].Deliveries != 3 || r.mail[1].ID != "b" || r.mail[1].Deliveries != 3 {
		t.Errorf("got %d letters, want the newest delivery of both jobs", len(r.mail))
	}
}

// waiting is a run, from a job, of a session in which turn "queued" waits. Its worker makes one run at a time.
func waiting(t *testing.T, job string) (*bus.Bus, *run) {
	t.Helper()
	b := bustest.Start(t)
	w, err := New(Config{Bus: b, Providers: map[string]llm.Provider{"scripted": scripted.New(nil)}, Provider: "scripted", Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.Host().Create(t.Context(), session.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	c := &events.Commit{
		ID: "c", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("queued", &events.TurnRequested{})},
	}
	if _, err := b.Log().Append(t.Context(), c, events.At(1)); err != nil {
		t.Fatal(err)
	}
	r := newRun(w, &bus.Job{Session: id, ID: job})
	if r.state, err = follow.Whole(t.Context(), b, id); err != nil {
		t.Fatal(err)
	}
	return b, r
}

// TestYieldPlaces has a run that is overdue meet a queued turn with a command
// whose turn nobody recorded: that turn joins the queue before the run yields.
func TestYieldPlaces(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, "own")
	r.turns, r.w.runs[r.job.Session] = fairTurns, r
	if err := b.Enqueue(t.Context(), bus.ClassTurn, r.job.Session, "own", nil); err != nil {
		t.Fatal(err)
	}
	if done, err := r.claimNext(t.Context()); done || err != nil {
		t.Fatalf("first look: got %v, %v, want the turn placed", done, err)
	}
	if known, err := r.known("own"); !known || err != nil || r.state.Turn() != nil {
		t.Errorf("the command's turn: got known %v, %v, want it queued", known, err)
	}
	if _, err := r.claimNext(t.Context()); !errors.Is(err, errCovered) {
		t.Errorf("second look: got %v, want %v", err, errCovered)
	}
	if r.stack.Session != nil {
		t.Error("the run has ended, and has the session's plugins still")
	}
}

// TestKeepJob has a run whose message is gone meet a turn that waits: it puts
// the message back, which anybody may get at once, and leaves the turn to that.
func TestKeepJob(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, "queued")
	id := r.job.Session
	queue, err := b.Work(t.Context(), bus.ClassTurn)
	if err != nil {
		t.Fatal(err)
	}
	deliver := func() {
		t.Helper()
		r.job = nil
		if err := queue.Fetch(t.Context(), 1, 10*time.Second, func(j *bus.Job) { r.job = j }); err != nil || r.job == nil {
			t.Fatalf("fetch: got %v, %v", r.job, err)
		}
	}
	if err := b.Enqueue(t.Context(), bus.ClassTurn, id, "queued", []byte("command")); err != nil {
		t.Fatal(err)
	}
	deliver()
	for err := r.job.Ack(); !errors.Is(err, bus.ErrNotFound); _, err = b.Queued(t.Context(), bus.ClassTurn, id, "queued") {
		if err != nil {
			t.Fatal(err)
		}
	}
	if done, err := r.claimNext(t.Context()); done || !errors.Is(err, errCovered) {
		t.Errorf("without its message: got %v, %v, want %v", done, err, errCovered)
	}
	if body, err := b.Queued(t.Context(), bus.ClassTurn, id, "queued"); err != nil || string(body) != "command" || r.state.Turn() != nil {
		t.Errorf("got message %q, %v, turn %v, want the message back and no turn", body, err, r.state.Turn())
	}
	deliver()
	if done, err := r.claimNext(t.Context()); done || err != nil || r.state.Turn() == nil {
		t.Errorf("with its message: got %v, %v, turn %v, want it claimed", done, err, r.state.Turn())
	}
}

// TestLateAck has a run get a message that another worker had before, whose ack
// may come yet: it leaves the turn that waits, or that nobody runs any more, to
// a message that nobody had. A worker that failed acks nothing.
func TestLateAck(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, "queued")
	id := r.job.Session
	covers := func() (n int) {
		list, err := b.Backlogs(t.Context(), bus.ClassTurn)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range list[id] {
			if strings.HasPrefix(job, "cover-") {
				n++
			}
		}
		return n
	}
	r.job.Deliveries = 2
	if _, err := r.claimNext(t.Context()); !errors.Is(err, errCovered) || r.state.Turn() != nil || covers() != 1 {
		t.Errorf("a turn that waits: got %v, %v and %d new commands, want none claimed and a command", err, r.state.Turn(), covers())
	}
	r.job.Tries.Error = "it failed"
	if err := b.Enqueue(t.Context(), bus.ClassTurn, id, "queued", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.claimNext(t.Context()); err != nil || r.state.Turn() == nil || covers() != 1 {
		t.Fatalf("after a failure: got %v, %v and %d new commands, want the turn claimed", err, r.state.Turn(), covers())
	}
	r.g.claimed, r.job.Tries.Error = false, ""
	if err := r.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what    string
		job     string
		command session.Command
		want    error
		covers  int // with those before
	}{
		{"whose turn nobody recorded", "own", session.Command{Input: session.Ask("go").Input}, nil, 1},
		{"whose turn waits", "own", session.Command{Input: session.Ask("go").Input}, errCovered, 2},
		{"that covers", "other", session.Command{Cover: true}, errCovered, 3},
		{"that wakes", "wake", session.Command{Wake: true}, errLater, 4},
	} {
		r.job, r.cmd = &bus.Job{Session: id, ID: tc.job, Deliveries: 2}, tc.command
		if err := r.leaveStranded(t.Context()); !errors.Is(err, tc.want) || covers() != tc.covers {
			t.Errorf("a command %s: got %v and %d new commands, want %v and %d", tc.what, err, covers(), tc.want, tc.covers)
		}
	}
	if known, err := r.known("own"); !known || err != nil {
		t.Errorf("the command's own turn: got %t, %v, want it recorded", known, err)
	}
}

// TestOvertaken has a run hold a turn that another worker has taken over since
// its last append, and whose effect that one has recorded. A run that has not
// asked the log for long finds out before it begins anything, also where what
// it builds on is not written yet; one that has just asked begins at once.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	advance := func(ctx context.Context, r *run) error {
		_, err := r.advance(ctx)
		return err
	}
	for name, c := range map[string]struct {
		called bool // the turn has come to a tool call
		do     func(ctx context.Context, r *run) error
	}{
		"owes_the_model": {false, advance},
		"owes_a_call":    {true, advance},
		"owes_the_model_on_results_that_linger": {true, func(ctx context.Context, r *run) error {
			return errors.Join(r.step(ctx, success("mine")), advance(ctx, r))
		}},
		"had_a_fact_recorded": {true, func(ctx context.Context, r *run) error {
			landed := make(chan error, 1)
			err := r.recordFact(ctx, fact{"queued", nil, landed})
			if err == nil && errors.Is(<-landed, turn.ErrStale) {
				err = ErrSuperseded // for the effect
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := holding(t, c.called)
			overtake(t, r, c.called)
			r.current = time.Now().Add(-trusted)
			if err := c.do(t.Context(), r); !errors.Is(err, ErrSuperseded) || len(r.flights) != 0 {
				t.Errorf("asked long ago: got %v, %d flights, want %v and nothing begun", err, len(r.flights), ErrSuperseded)
			}
			r = holding(t, c.called)
			overtake(t, r, c.called)
			r.current = time.Now().Add(time.Hour) // however slow this machine is
			if err := c.do(t.Context(), r); err != nil {
				t.Errorf("asked just now: got %v, want it trusted", err)
			}
		})
	}
}

// TestCoverMail has a run get a command that covers what is queued: it acks that
// while it holds its turn, not where it has lost that and does not know yet.
func TestCoverMail(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"holds_its_turn": false, "lost_its_turn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := holding(t, false)
			b, id := r.w.cfg.Bus, r.job.Session
			queue, err := b.Work(t.Context(), bus.ClassTurn)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.w.host.Cover(t.Context(), id, "k"); err != nil {
				t.Fatal(err)
			}
			if lost {
				overtake(t, r, false)
			}
			for cover := (*bus.Job)(nil); cover == nil; {
				if err := queue.Fetch(t.Context(), 1, 10*time.Second, func(j *bus.Job) {
					if j.ID == "cover-k" {
						cover = j
						r.mail = append(r.mail, j)
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.readMail(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := false
			if err := queue.Fetch(t.Context(), 1, time.Second, func(j *bus.Job) { again = again || j.ID == "cover-k" }); err != nil {
				t.Fatal(err)
			}
			if again != lost {
				t.Errorf("the command came again: got %t, want %t", again, lost)
			}
		})
	}
}

// TestLingerAged has a run begin an effect on results that linger, long after it
// asked the log: where nobody appended, asking again costs no write.
func TestLingerAged(t *testing.T) {
	t.Parallel()
	r := holding(t, true)
	last := r.state.Seq
	if err := r.step(t.Context(), success("mine")); err != nil {
		t.Fatal(err)
	}
	r.current = time.Now().Add(-trusted)
	done, err := r.advance(t.Context())
	if done || err != nil || len(r.flights) != 1 {
		t.Errorf("got %v, %v, %d flights, want the model asked", done, err, len(r.flights))
	}
	if now, err := r.w.cfg.Bus.Log().Last(t.Context(), r.job.Session); err != nil || now != last {
		t.Errorf("last sequence: got %d, %v, want %d", now, err, last)
	}
}

// TestParkedUnderAnother has a run take over a turn under the message of
// another one, which asks for a turn or a wake, and come to where it waits for
// an approval. The run ends, and what the message asks for is not lost with it.
func TestParkedUnderAnother(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]bool{"turn": false, "wake": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := waiting(t, "own")
			r.cmd.Wake = wake
			started := &events.TurnStarted{Attempt: 1, Worker: "gone", Job: "lost"}
			c := &events.Commit{ID: "d", Session: r.job.Session, At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("queued", started)}}
			if _, err := b.Log().Append(t.Context(), c, events.At(r.state.Seq)); err != nil {
				t.Fatal(err)
			}
			err := follow.Sync(t.Context(), b.Log(), r.state)
			if err == nil {
				_, err = r.meet(t.Context(), r.state.Turn())
			}
			if err == nil {
				err = r.step(t.Context(), turn.Reply{ModelReplied: *asksTool()})
			}
			t.Cleanup(r.closeStack)
			if err == nil {
				asked := &events.ToolApprovalAsked{Effect: turn.ToolEffect("queued", 0, 0), Tool: "tool", Plugin: "p", Question: "really?"}
				err = r.record(t.Context(), nil, []events.Event{events.Of("queued", asked)})
			}
			if err != nil || r.state.Turn().Worker != r.w.cfg.ID {
				t.Fatalf("take over: got %v, turn %+v", err, r.state.Turn())
			}
			if done, err := r.advance(t.Context()); !done || err != nil {
				t.Fatalf("got %v, %v, want the turn left", done, err)
			}
			known, err := r.known("own")
			if err != nil || known == wake {
				t.Errorf("its turn: got known %v, %v, want %v", known, err, !wake)
			}
			waits, err := b.Backlog(t.Context(), bus.ClassTurn, r.job.Session)
			if err != nil || waits > 0 != wake {
				t.Errorf("commands in the queue: got %d, %v", waits, err)
			}
		})
	}
}

// TestLookUnanswered has a run look at a log that has no answer just then: it
// goes on, and begins nothing. One that was stopped ends.
func TestLookUnanswered(t *testing.T) {
	t.Parallel()
	r := holding(t, true)
	server := bustest.Server(t, busembed.Config{})
	away, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	server.Stop()
	r.w.cfg.Bus = away
	r.current = time.Now().Add(-trusted)
	if done, err := r.advance(t.Context()); done || err != nil || len(r.flights) != 0 {
		t.Errorf("owes a call: got %v, %v, %d flights, want nothing begun", done, err, len(r.flights))
	}
	r.moved.Store(true)
	r.wake()
	if err := r.wait(t.Context(), nil); err != nil {
		t.Errorf("is told that the session moved: got %v", err)
	}
	if !r.moved.Load() {
		t.Error("it forgot that the session moved")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := r.look(ctx); err == nil {
		t.Error("was stopped: it goes on")
	}
}

func success(text string) turn.Results {
	return turn.Results{Results: []events.ToolResult{{Outcome: events.OutcomeSuccess, Text: text}}}
}

// asksTool is a reply with one call, of a tool that nobody has.
func asksTool() *events.ModelReplied {
	return &events.ModelReplied{Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Call: "k", Tool: "tool"}}}
}

// holding is a run that has claimed turn "queued", which may have come to a tool call.
func holding(t *testing.T, called bool) *run {
	t.Helper()
	b, r := waiting(t, "queued")
	if err := b.Enqueue(t.Context(), bus.ClassTurn, r.job.Session, "queued", nil); err != nil {
		t.Fatal(err)
	}
	if done, err := r.claimNext(t.Context()); done || err != nil || r.state.Turn() == nil {
		t.Fatalf("claim: got %v, %v, turn %v", done, err, r.state.Turn())
	}
	t.Cleanup(r.closeStack)
	if called {
		if err := r.step(t.Context(), turn.Reply{ModelReplied: *asksTool()}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// overtake has another worker take the run's turn over and record what it owes.
func overtake(t *testing.T, r *run, called bool) {
	t.Helper()
	list := []events.Event{events.Of("queued", &events.TurnStarted{Attempt: 2, Worker: "other"}), events.Of("queued", asksTool())}
	if called {
		list[1] = events.Of("queued", &events.ToolReturned{Results: success("other's").Results})
	}
	c := &events.Commit{ID: "other", Session: r.job.Session, At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: list}
	if _, err := r.w.cfg.Bus.Log().Append(t.Context(), c, events.At(r.state.Seq)); err != nil {
		t.Fatal(err)
	}
}

// TestArrivalsSorted has calls end, and be handed out, in another order than the reply's.
func TestArrivalsSorted(t *testing.T) {
	t.Parallel()
	got := sorted(turn.Results{Results: []events.ToolResult{{Call: 3}, {Call: 1}}, Pending: []int64{4, 0, 2}})
	if want := []int64{0, 2, 4}; !slices.Equal(got.Pending, want) || got.Results[0].Call != 1 || got.Results[1].Call != 3 {
		t.Errorf("got %+v, want both ascending", got)
	}
}
