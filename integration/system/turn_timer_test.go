package system

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/timer"
)

// TestSmokeTimerTurn has scheduled turns: one in the near future, one whose time has passed, one that is cancelled
// before.
func TestSmokeTimerTurn(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Reply(harness.Text("at once")), harness.Reply(harness.Text("in time")))
	id := b.Open(api.CreateRequest{})
	at, far := time.Now().Add(5*time.Second), time.Now().Add(24*time.Hour)
	b.ScheduleTurn(id, "t1", at, "one")
	b.ScheduleTurn(id, "t1", at, "one")
	idle := b.Open(api.CreateRequest{})
	b.ScheduleTurn(idle, "t3", far, "three")
	other := b.OtherHost()
	for name, again := range map[string]struct {
		at   time.Time
		text string
	}{"time": {far, "one"}, "input": {at, "two"}} {
		_, err := other.SubmitAt(b.Ctx, id, again.at, harness.TurnRequest("t1", again.text))
		runtest.WantError(t, "another "+name, err, api.ErrDifferent)
	}
	_, err := b.SubmitAt(b.Ctx, "nowhere", at, harness.TurnRequest("t1", "one"))
	runtest.WantError(t, "no session", err, events.ErrNoSession)
	b.ScheduleTurn(id, "t2", time.Unix(1, 0), "two")
	r, err := other.Await(b.Ctx, id, "t2")
	runtest.WantError(t, "await", err, nil)
	runtest.Equal(t, "text of the one whose time has passed", r.Text, "at once")

	waits := make(chan api.TurnResult, 1)
	go func() {
		r, err := other.Await(b.Ctx, id, "t1")
		runtest.WantError(t, "await", err, nil)
		waits <- r
	}()
	req := api.CancelRequest{ID: "r1", Origin: "test", Reason: "no more"}
	receipt, evidence, err := other.Cancel(b.Ctx, idle, "t3", req)
	runtest.WantError(t, "cancel", err, nil)
	runtest.Equal(t, "receipt", receipt, api.CancelRequested)
	runtest.Equal(t, "evidence", evidence, req)
	r, err = b.Await(b.Ctx, idle, "t3")
	runtest.WantError(t, "await of the cancelled one", err, nil)
	runtest.Equal(t, "end of the cancelled one", r.End, events.EndCancelled)
	runtest.Equal(t, "the cancelled one never started", r.Index, 0)

	got := harness.Receive(b, "whoever waits", waits)
	runtest.Equal(t, "text", got.Text, "in time")
	if remaining := at.UnixMilli() - int64(got.StartedAt); remaining > 0 {
		t.Errorf("it started %d ms early", remaining)
	}
	b.ScheduleTurn(id, "t1", far, "one") // it has ended: the same turn
	_, err = b.SubmitAt(b.Ctx, id, far, harness.TurnRequest("t1", "other"))
	runtest.WantError(t, "other input after its end", err, api.ErrDifferent)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user two", "assistant at once", "user one", "assistant in time"})
	harness.VerifyHistory(t, b.Bus, id)
}

// TestTimerAhead has a server, whose clock is an hour ahead of the node's, that reports a time as passed: what follows from it
// has no time before it.
func TestTimerAhead(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("in time")))
	id := b.Open(api.CreateRequest{})
	at := time.Now().Add(time.Hour)
	b.ScheduleTurn(id, "t1", at, "one")
	runtest.WantError(t, "report", b.Bus.StoreWake(b.Ctx, hint.FallbackKey(id), bus.WakeHint{Due: events.MillisOf(at)}), nil)
	b.StartWorker(b.Bus)
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFinished)
	if remaining := at.UnixMilli() - int64(record.StartedAt); remaining > 0 {
		t.Errorf("it started %d ms early", remaining)
	}
	harness.VerifyHistory(t, b.Bus, id)
}

// TestTimerWait has a model that waits: the turn is parked, its node is gone, and another node continues it.
func TestTimerWait(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "wait", `{"seconds":2}`), harness.Call("c2", "wait_until", `{"time":"2000-01-01T00:00:00Z"}`), harness.Call("c3", "wait", `{"seconds":1e9}`)), harness.Reply(harness.Text("done")))
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), timer.Factory(timer.Config{}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.AwaitUnqueued(id) // parked
	began := time.Now()
	s := b.StateOf(id)
	runtest.Equal(t, "the calls", s.Turn() != nil && s.Turn().Calls[0].Pended && s.Turn().Calls[1].Done && s.Turn().Calls[2].Done, true)
	b.AwaitPolling("its timer", func() bool { return len(b.Timers()) == 1 })
	// The tool that runs again, as after a crash, waits for the first time.
	runtest.WantError(t, "again", n.Host().ResolveAt(b.Ctx, id, "t1/0/0", began.Add(time.Hour), events.ToolResult{Text: "late"}), nil)
	kill()
	b.StartNodeOn(b.Bus, timer.Factory(timer.Config{}))
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFinished)
	results := b.Messages(id)[2]
	if !strings.Contains(results, "c1=It is 2") || !strings.Contains(results, "c2=It is 2000-01-01T00:00:00Z.") || !strings.Contains(results, "c3=[failed] seconds is 1e+09, want 0 to 2.6784e+06") {
		t.Errorf("results: got %q", results)
	}
	runtest.Equal(t, "resolutions", len(harness.Find[*events.ToolResolved](b, id)), 1)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestTimerLost deletes every timer, and their stream, while scheduled turns of a hot and of a cold session wait
// for their time, and while a node runs or before it starts: every turn still runs.
func TestTimerLost(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"node": true, "no_node": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("hi")))
			hot, cold := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
			at := time.Now().Add(15 * time.Second)
			b.ScheduleTurn(hot, "t1", at, "go")
			b.ScheduleTurn(cold, "t1", at, "go")
			done, err := follow.NewArchiver(b.Bus, follow.ArchiverConfig{}).Archive(b.Ctx, cold)
			runtest.WantError(t, "archive", err, nil)
			runtest.Equal(t, "archived", done, true)
			if running {
				b.StartWorker(b.Bus)
			}
			runtest.WantError(t, "delete the timers", b.JetStream().DeleteStream(b.Ctx, "lash-timers"), nil)
			if !running {
				b.StartWorker(bustest.Open(t, b.Server)) // which makes the stream again
			}
			for _, id := range []events.SessionID{hot, cold} {
				record := b.AwaitTurn(id, "t1")
				runtest.Equal(t, "end", record.End, events.EndFinished)
				if remaining := at.UnixMilli() - int64(record.StartedAt); remaining > 0 {
					t.Errorf("it started %d ms early", remaining)
				}
				harness.VerifyHistory(t, b.Bus, id)
			}
		})
	}
}

// TestTimerClosed closes a session with scheduled turns: they end as cancelled, and never run.
func TestTimerClosed(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	at := time.Now().Add(15 * time.Second) // after the close, on a slow machine too
	for n := range 20 {
		b.ScheduleTurn(id, events.TurnID(fmt.Sprintf("t%d", n)), at, "never")
	}
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil)
	b.StartWorker(b.Bus)
	last := b.LastSeq(id)
	for n := range 20 {
		runtest.Equal(t, "end", b.AwaitTurn(id, events.TurnID(fmt.Sprintf("t%d", n))).End, events.EndCancelled)
	}
	b.AwaitPolling("its timer has come", func() bool { return len(b.Timers()) == 0 && time.Now().After(at) })
	b.AwaitUnqueued(id)
	runtest.Equal(t, "commits after the close", b.LastSeq(id), last)
	harness.VerifyHistory(t, b.Bus, id)
}

const timerStore = "LASH_TIMER_STORE"

// TestChildTimer runs in another process, which TestTimerKill starts: a server in which it sets timers.
func TestChildTimer(t *testing.T) {
	store := os.Getenv(timerStore)
	b := &harness.System{T: t, Ctx: harness.Context(t), Server: bustest.Server(t, busembed.Config{StoreDir: store, Profile: busembed.ProfileAlways})}
	b.Bus = bustest.Open(t, b.Server)
	b.Host = b.NewHost(b.Bus)
	b.Open(api.CreateRequest{ID: "s"})
	b.ScheduleTurn("s", "t1", time.Now().Add(time.Second), "go")
	b.ScheduleTurn("s", "t2", time.Now().Add(24*time.Hour), "later")
	me, err := os.FindProcess(os.Getpid())
	runtest.WantError(t, "find", err, nil)
	runtest.WantError(t, "kill", me.Kill(), nil)
	select {}
}

// TestTimerKill kills the server with -9 before a timer is due.
func TestTimerKill(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	child := runtest.Child(harness.Context(t), "TestChildTimer", timerStore+"="+store)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process: got %v, want it killed\n%s", err, out)
	}
	b := &harness.System{T: t, Ctx: harness.Context(t), Server: bustest.Server(t, busembed.Config{StoreDir: store}), Model: &harness.Model{T: t, Script: []harness.Step{harness.Reply(harness.Text("hi"))}}}
	b.Bus = bustest.Open(t, b.Server)
	b.Host = b.NewHost(b.Bus)
	b.StartWorker(b.Bus)
	runtest.Equal(t, "end", b.AwaitTurn("s", "t1").End, events.EndFinished)
	b.AwaitPolling("the timer of t2, which the worker sets after the end of t1", func() bool { return slices.Equal(b.Timers(), []string{"s"}) })
	b.AwaitState("s", "the end", func(s *projector.State) bool { return s.Idle() })
}

// TestTimerApproval has an approval without an answer in time: the call is refused, although no node ran when it
// was requested. An answer in time is accepted.
func TestTimerApproval(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"nobody": false, "in_time": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("done")))
			gatePlugin := harness.PluginOf("gate", func(r *plugin.Registrar) {
				r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
					return []plugin.Directive{plugin.AskWithin("really add?", 10*time.Second)}, nil
				})
				plugin.AddTool(r, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) { return in.A + in.B, nil })
			})
			_, kill := b.StartNodeOn(bustest.Open(t, b.Server), gatePlugin)
			id := b.Open(api.CreateRequest{})
			b.ParkTurn(id)
			list, err := b.Approvals(b.Ctx, id)
			runtest.WantError(t, "approvals", err, nil)
			runtest.Equal(t, "asked with a limit", len(list) == 1 && list[0].Until > 0, true)
			b.AwaitPolling("its timer", func() bool { return len(b.Timers()) == 1 })
			kill()
			want := "k=[failed] the call was not approved: no answer came in time"
			if answered {
				runtest.WantError(t, "approve", b.AnswerApproval(b.Host, id, true), nil)
				want = "k=3"
			}
			b.StartNodeOn(b.Bus, gatePlugin)
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "result", strings.Contains(b.Messages(id)[2], want), true)
			b.AwaitPolling("no timer", func() bool { return len(b.Timers()) == 0 }) // late for one of them
			b.AwaitUnqueued(id)
			answers := harness.Find[*events.ToolApprovalGiven](b, id)
			runtest.Equal(t, "answers", len(answers), 1)
			runtest.Equal(t, "who", answers[0].By, map[bool]string{true: "yes", false: "timer"}[answered])
			if remaining := list[0].Until - answeredAt(b, id); !answered && remaining > 0 {
				t.Errorf("it was refused %d ms early", remaining)
			}
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}

// answeredAt is the time of the answer to an approval.
func answeredAt(b *harness.System, id events.SessionID) events.Millis {
	b.T.Helper()
	for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.NoError(b.T, err)
		for i := range e.Commit.Events {
			if e.Commit.Events[i].Kind == events.KindToolApprovalGiven {
				return e.Commit.At
			}
		}
	}
	return 0
}
