package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/timer"
)

// submitAt asks for a turn that starts in a while.
func (b *bundle) submitAt(id events.SessionID, turn events.TurnID, at time.Time, s string) {
	b.t.Helper()
	_, err := b.SubmitAt(b.ctx, id, at, asksTurn(turn, s))
	must(b.t, "submit "+string(turn), err, nil)
}

// timers lists the sessions that have a timer whose time has not come.
func (b *bundle) timers() (ids []string) {
	b.t.Helper()
	list, err := b.bus.Timers(b.ctx)
	must(b.t, "timers", err, nil)
	for _, id := range list {
		ids = append(ids, string(id))
	}
	return ids
}

// TestTimerTurn has turns that start at a time: one in a while, one whose time has passed, one that is cancelled before.
func TestTimerTurn(t *testing.T) {
	t.Parallel()
	b := setup(t, reply(text("at once")), reply(text("in time")))
	id := b.open(api.CreateRequest{})
	at, far := time.Now().Add(1500*time.Millisecond), time.Now().Add(24*time.Hour)
	b.submitAt(id, "t1", at, "one")
	b.submitAt(id, "t1", at, "one")
	quiet := b.open(api.CreateRequest{})
	b.submitAt(quiet, "t3", far, "three")
	other := b.otherHost()
	for name, again := range map[string]struct {
		at   time.Time
		text string
	}{"time": {far, "one"}, "input": {at, "two"}} {
		_, err := other.SubmitAt(b.ctx, id, again.at, asksTurn("t1", again.text))
		must(t, "another "+name, err, api.ErrDifferent)
	}
	_, err := b.SubmitAt(b.ctx, "nowhere", at, asksTurn("t1", "one"))
	must(t, "no session", err, events.ErrNoSession)
	b.submitAt(id, "t2", time.Unix(1, 0), "two")
	r, err := other.Await(b.ctx, id, "t2")
	must(t, "await", err, nil)
	equal(t, "text of the one whose time has passed", r.Text, "at once")

	waits := make(chan api.TurnResult, 1)
	go func() {
		r, err := other.Await(b.ctx, id, "t1")
		must(t, "await", err, nil)
		waits <- r
	}()
	req := api.CancelRequest{ID: "r1", Origin: "test", Reason: "no more"}
	receipt, evidence, err := other.Cancel(b.ctx, quiet, "t3", req)
	must(t, "cancel", err, nil)
	equal(t, "receipt", receipt, api.CancelRequested)
	equal(t, "evidence", evidence, req)
	r, err = b.Await(b.ctx, quiet, "t3")
	must(t, "await of the cancelled one", err, nil)
	equal(t, "end of the cancelled one", r.End, events.EndCancelled)
	equal(t, "the cancelled one never started", r.Index, 0)

	got := receive(b, "whoever waits", waits)
	equal(t, "text", got.Text, "in time")
	if early := at.UnixMilli() - int64(got.StartedAt); early > 0 {
		t.Errorf("it started %d ms early", early)
	}
	b.submitAt(id, "t1", far, "one") // it has ended: the same turn
	_, err = b.SubmitAt(b.ctx, id, far, asksTurn("t1", "other"))
	must(t, "other input after its end", err, api.ErrDifferent)
	equalLists(t, "messages", b.messages(id), []string{"user two", "assistant at once", "user one", "assistant in time"})
	verified(t, b.bus, id)
}

// TestTimerWait has a model that waits: the turn is parked, its node is gone, and another one goes on.
func TestTimerWait(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("c1", "wait", `{"seconds":2}`), call("c2", "wait_until", `{"time":"2000-01-01T00:00:00Z"}`), call("c3", "wait", `{"seconds":1e9}`)), reply(text("done")))
	n, kill := b.nodeOn(bustest.Open(t, b.server), timer.Factory(timer.Config{}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.unqueued(id) // parked
	began := time.Now()
	s := b.state(id)
	equal(t, "the calls", s.Turn() != nil && s.Turn().Calls[0].Pended && s.Turn().Calls[1].Done && s.Turn().Calls[2].Done, true)
	b.until("its timer", func() bool { return len(b.timers()) == 1 })
	// The tool that runs again, as after a crash, waits for the first time.
	must(t, "again", n.Host().ResolveAt(b.ctx, id, "t1/0/0", began.Add(time.Hour), events.ToolResult{Text: "late"}), nil)
	kill()
	b.nodeOn(b.bus, timer.Factory(timer.Config{}))
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndFinished)
	results := b.messages(id)[2]
	if !strings.Contains(results, "c1=It is 2") || !strings.Contains(results, "c2=It is 2000-01-01T00:00:00Z.") || !strings.Contains(results, "c3=[failed] seconds is 1e+09, want 0 to 2.6784e+06") {
		t.Errorf("results: got %q", results)
	}
	equal(t, "resolutions", len(find[*events.ToolResolved](b, id)), 1)
	verified(t, b.bus, id)
}

// TestTimerLost deletes every timer, and the stream that they are in, while
// scheduled turns of a hot and of a cold session wait for their time: nothing is lost.
func TestTimerLost(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")), reply(text("hi")))
	hot, cold := b.open(api.CreateRequest{}), b.open(api.CreateRequest{})
	at := time.Now().Add(8 * time.Second)
	b.submitAt(hot, "t1", at, "go")
	b.submitAt(cold, "t1", at, "go")
	done, err := follow.NewArchiver(b.bus, follow.ArchiverConfig{}).Archive(b.ctx, cold)
	must(t, "archive", err, nil)
	equal(t, "archived", done, true)
	b.work(b.bus)
	must(t, "delete the timers", b.jetstream().DeleteStream(b.ctx, "lash-timers"), nil)
	for _, id := range []events.SessionID{hot, cold} {
		record := b.ended(id, "t1")
		equal(t, "end", record.End, events.EndFinished)
		if early := at.UnixMilli() - int64(record.StartedAt); early > 0 {
			t.Errorf("it started %d ms early", early)
		}
		verified(t, b.bus, id)
	}
}

// TestTimerClosed closes a session in which turns wait for their time: they end there, as cancelled, and never run.
func TestTimerClosed(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	at := time.Now().Add(time.Second)
	for n := range 200 {
		b.submitAt(id, events.TurnID(fmt.Sprintf("t%d", n)), at, "never")
	}
	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	b.work(b.bus)
	last := b.last(id)
	for n := range 200 {
		equal(t, "end", b.ended(id, events.TurnID(fmt.Sprintf("t%d", n))).End, events.EndCancelled)
	}
	b.until("its timer has come", func() bool { return len(b.timers()) == 0 && time.Now().After(at) })
	b.unqueued(id)
	equal(t, "commits after the close", b.last(id), last)
	verified(t, b.bus, id)
}

// TestTimerCold has a timer of a session that is archived when its time comes.
func TestTimerCold(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("awake")))
	id := b.open(api.CreateRequest{})
	b.submitAt(id, "t1", time.Now().Add(time.Second), "go")
	done, err := follow.NewArchiver(b.bus, follow.ArchiverConfig{}).Archive(b.ctx, id)
	must(t, "archive", err, nil)
	equal(t, "archived", done, true)
	b.isCold(id)
	b.work(b.bus)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant awake"})
}

const timerStore = "LASH_TIMER_STORE"

// TestTimerProcess is what TestTimerKill runs in another process: a server in which it sets timers.
func TestTimerProcess(t *testing.T) {
	store := os.Getenv(timerStore)
	if store == "" {
		t.Skip("runs in a process of its own")
	}
	b := &bundle{t: t, ctx: limited(t), server: bustest.Server(t, busembed.Config{StoreDir: store, Profile: busembed.ProfileAlways})}
	b.bus = bustest.Open(t, b.server)
	b.Host = b.newHost(b.bus)
	b.open(api.CreateRequest{ID: "s"})
	b.submitAt("s", "t1", time.Now().Add(time.Second), "go")
	b.submitAt("s", "t2", time.Now().Add(24*time.Hour), "later")
	me, err := os.FindProcess(os.Getpid())
	must(t, "find", err, nil)
	must(t, "kill", me.Kill(), nil)
	select {}
}

// TestTimerKill kills the server with -9 before a timer is due.
func TestTimerKill(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	child := exec.CommandContext(limited(t), os.Args[0], "-test.run=^TestTimerProcess$")
	child.Env = append(os.Environ(), timerStore+"="+store)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process: got %v, want it killed\n%s", err, out)
	}
	b := &bundle{t: t, ctx: limited(t), server: bustest.Server(t, busembed.Config{StoreDir: store}), model: &model{t: t, script: []step{reply(text("hi"))}}}
	b.bus = bustest.Open(t, b.server)
	b.Host = b.newHost(b.bus)
	b.work(b.bus)
	equal(t, "end", b.ended("s", "t1").End, events.EndFinished)
	equalLists(t, "timers", b.timers(), []string{"s"})
	b.await("s", "the end", func(s *projector.State) bool { return s.Idle() })
}

// TestTimerApproval has a question that nobody answers in time: the call is
// refused, with no node there when it was asked. An answer in time counts.
func TestTimerApproval(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"nobody": false, "in_time": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, theCall(), reply(text("done")))
			asks := declares("gate", func(r *plugin.Registrar) {
				r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
					return []plugin.Directive{plugin.AskWithin("really add?", 1500*time.Millisecond)}, nil
				})
				plugin.AddTool(r, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) { return in.A + in.B, nil })
			})
			_, kill := b.nodeOn(bustest.Open(t, b.server), asks)
			id := b.open(api.CreateRequest{})
			b.parks(id)
			list, err := b.Approvals(b.ctx, id)
			must(t, "approvals", err, nil)
			equal(t, "asked with a limit", len(list) == 1 && list[0].Until > 0, true)
			b.until("its timer", func() bool { return len(b.timers()) == 1 })
			kill()
			want := "k=[failed] the call was not approved: no answer came in time"
			if answered {
				must(t, "approve", b.approve(b.Host, id, true), nil)
				want = "k=3"
			}
			b.nodeOn(b.bus, asks)
			equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
			equal(t, "result", strings.Contains(b.messages(id)[2], want), true)
			b.until("no timer", func() bool { return len(b.timers()) == 0 }) // late for one of them
			b.unqueued(id)
			given := find[*events.ToolApprovalGiven](b, id)
			equal(t, "answers", len(given), 1)
			equal(t, "who", given[0].By, map[bool]string{true: "yes", false: "timer"}[answered])
			if early := list[0].Until - b.answeredAt(id); !answered && early > 0 {
				t.Errorf("it was refused %d ms early", early)
			}
			verified(t, b.bus, id)
		})
	}
}

// answeredAt is when a question was answered.
func (b *bundle) answeredAt(id events.SessionID) events.Millis {
	b.t.Helper()
	for e, err := range b.bus.Log().Read(b.ctx, id, 1) {
		if err != nil {
			b.t.Fatal(err)
		}
		for i := range e.Commit.Events {
			if e.Commit.Events[i].Kind == events.KindToolApprovalGiven {
				return e.Commit.At
			}
		}
	}
	return 0
}
