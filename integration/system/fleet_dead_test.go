package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// fragile is a provider that makes a run panic that many times.
type fragile struct {
	llm.Provider
	panics atomic.Int64
}

func newFragile(panics int64, answer func(context.Context, llm.Request) (scripted.Answer, error)) *fragile {
	f := &fragile{Provider: scripted.New(answer)}
	f.panics.Store(panics)
	return f
}

func (f *fragile) ID() string {
	if f.panics.Add(-1) >= 0 {
		panic("boom")
	}
	return f.Provider.ID()
}

// blocks is a model that never replies.
func blocks(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
	<-ctx.Done()
	return scripted.Answer{}, context.Cause(ctx)
}

// startHastyNode starts a node that dead-letters after few attempts. stop ends it in order, at once.
func startHastyNode(t *testing.T, on *bus.Bus, provider llm.Provider) (stop func()) {
	t.Helper()
	return startHasty(t, on, provider, nil)
}

// startHasty is [startHastyNode] with tools of each session.
func startHasty(t *testing.T, on *bus.Bus, provider llm.Provider, tools func(events.SessionID) *plugin.Tools) (stop func()) {
	t.Helper()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Tools: tools, Providers: map[string]llm.Provider{"scripted": provider}, Provider: "scripted", Logger: zaptest.NewLogger(t),
		Runners:  map[string]workers.TaskFunc{"exit": func(context.Context, *workers.RunningTask) (string, error) { os.Exit(0); return "", nil }},
		JobRetry: workers.JobRetry{Attempts: harness.DeadAttempts, Base: time.Millisecond, Max: time.Millisecond},
	})
	runtest.NoError(t, err)
	runtest.NoError(t, n.Start(t.Context()))
	var once sync.Once
	stop = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // in a cleanup the test's context has ended
			cancel()
			n.Stop(now)
		})
	}
	t.Cleanup(stop)
	return stop
}

// awaitDeadLetter waits for the dead letter of a session.
func awaitDeadLetter(b *harness.System, id events.SessionID) (letter bus.DeadLetter) {
	b.T.Helper()
	b.AwaitPolling("dead letter of "+string(id), func() bool {
		var err error
		letter, err = b.Bus.DeadLetter(b.Ctx, id)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			b.T.Fatal(err)
		}
		return err == nil
	})
	return letter
}

// TestDeadTurnEndsInTheHistory has a running turn whose attempts all end in a panic. The turn ends in the history with the reason,
// and the turn behind it runs.
func TestDeadTurnEndsInTheHistory(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("second")))
	id := b.Open(api.CreateRequest{Config: events.Config{Provider: "scripted"}}) // so that its name is read
	b.StartTurn(id, "t1", harness.Text("one"))
	stop := startHastyNode(t, bustest.Open(t, b.Server), scripted.New(blocks))
	b.AwaitState(id, "start", func(s *projector.State) bool { return s.Turn() != nil })
	b.StartTurn(id, "t2", harness.Text("two"))
	stop()
	startHastyNode(t, b.Bus, newFragile(harness.DeadAttempts, b.Model.Answer))
	first := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", first.End, events.EndFailed)
	runtest.Equal(t, "code", first.Issue.Code, "poisoned")
	runtest.Equal(t, "message", first.Issue.Message, "given up after 3 attempts, the last: run panicked: boom")
	runtest.Equal(t, "end of the next", b.AwaitTurn(id, "t2").End, events.EndFinished)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user two", "assistant second"})
	runtest.EqualLists(t, "letters", b.DeadLetters(), nil)
	b.AwaitUnqueued(id)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestDeadUnknownSession has wakes of sessions that do not exist: the wakes are removed without a dead letter.
func TestDeadUnknownSession(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	for _, key := range []bus.WakeKey{{Class: bus.ClassTurn, Session: "nowhere"}, {Class: bus.ClassTask, Session: "nowhere", Task: "k"}} {
		runtest.WantError(t, "wake", b.Bus.PublishWake(key, bus.WakeHint{Repair: true}), nil)
	}
	startHastyNode(t, b.Bus, scripted.New(b.Model.Answer))
	b.AwaitPolling("the wakes are acked", func() bool { return len(b.Wakes()) == 0 })
	runtest.EqualLists(t, "letters", b.DeadLetters(), nil)
}

// TestDeadHistory has a history that cannot be folded: it becomes a dead letter, and its commits stay as they are.
func TestDeadHistory(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("one"))
	b.AppendJunk(id)
	last := b.LastSeq(id)
	startHastyNode(t, b.Bus, scripted.New(b.Model.Answer))
	letter := awaitDeadLetter(b, id)
	runtest.Equal(t, "attempts", letter.Attempts, harness.DeadAttempts)
	runtest.Equal(t, "error", strings.Contains(letter.Error, "malformed"), true)
	runtest.Equal(t, "last", b.LastSeq(id), last)
	b.AwaitPolling("its wake is acked", func() bool { return !b.HasWake(id) })
	runtest.WantError(t, "retry", b.RetryDeadLetter(b.Ctx, &letter), nil)
	b.AwaitPolling("it is a dead letter again", func() bool { again := awaitDeadLetter(b, id); return again.Seq > letter.Seq })
}

// TestDeadChildEndsItsTasks cancels tasks whose work is done by a session that cannot be folded and has no pending work: it
// becomes a dead letter, and the tasks end with that reason.
func TestDeadChildEndsItsTasks(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	child := b.Open(api.CreateRequest{Parent: id, Relation: events.RelationChild})
	for _, k := range []events.TaskID{"asked", "cancelled"} {
		_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: k, Of: events.TaskSubagent, Child: child, Close: events.CloseCancel})
		runtest.WantError(t, "register", err, nil)
	}
	b.AppendJunk(child)
	_, err := b.RequestCancelTask(b.Ctx, id, "asked", "enough")
	runtest.WantError(t, "ask it to stop", err, nil)
	_, err = b.CancelTask(b.Ctx, id, "cancelled")
	runtest.WantError(t, "cancel", err, nil)
	startHastyNode(t, b.Bus, scripted.New(b.Model.Answer))
	letter := awaitDeadLetter(b, child)
	want := fmt.Sprintf("session %s cannot be read: %s", child, letter.Error)
	b.AwaitState(id, "the ends", func(s *projector.State) bool {
		cancelled, _ := s.Task("asked")
		cancelCase, _ := s.Task("cancelled")
		return cancelled.State == events.TaskFailed && cancelled.Summary == want && !cancelled.Unfinished() && cancelCase.State == events.TaskCancelled && !cancelCase.Unfinished()
	})
	b.AwaitPolling("the wakes are acked", func() bool { return len(b.Wakes()) == 0 })
	harness.VerifyHistory(t, b.Bus, id)
}

// TestDeadAttemptsIgnoreStops stops the node of a turn far more often than the limit of attempts, and has attempts fail between
// the steps of progress: neither counts towards the limit.
func TestDeadAttemptsIgnoreStops(t *testing.T) {
	t.Parallel()
	const stops, replies = 2 * harness.DeadAttempts, 2 * harness.DeadAttempts
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{Config: events.Config{Provider: "scripted"}}) // so that its name is read
	b.StartTurn(id, "t1", harness.Text("go"))
	for n := range stops {
		stop := startHastyNode(t, bustest.Open(t, b.Server), scripted.New(blocks))
		b.AwaitState(id, "attempt", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Attempt == int64(n)+1 })
		stop()
	}
	for n := range replies {
		stop := startHastyNode(t, bustest.Open(t, b.Server), newFragile(harness.DeadAttempts-1, func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			switch {
			case n == replies-1:
				return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{harness.Text("done")}}}, nil
			case req.Iteration > int64(n):
				return blocks(ctx, req)
			}
			return scripted.Answer{Response: llm.Response{Stop: events.StopToolUse, Parts: []events.Part{harness.Call("c", "none", `{}`)}}}, nil
		}))
		b.AwaitState(id, "progress", func(s *projector.State) bool { return s.Turn() == nil || s.Turn().Iteration > int64(n) })
		stop()
	}
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.EqualLists(t, "letters", b.DeadLetters(), nil)
}

const deadServer = "LASH_DEAD_SERVER"

// TestChildDead runs in another process, which TestDeadCrashLoop starts: a node whose work kills it.
func TestChildDead(t *testing.T) {
	url := os.Getenv(deadServer)
	on, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{URL: url}))
	runtest.NoError(t, err)
	startHastyNode(t, on, scripted.New(func(context.Context, llm.Request) (scripted.Answer, error) { os.Exit(0); panic("unreachable") }))
	<-t.Context().Done() // it never ends by itself
}

// TestDeadCrashLoop has jobs that kill their node each time: a turn, and a task that is restarted after its
// worker's death.
func TestDeadCrashLoop(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*harness.System, events.SessionID){
		"turn": func(b *harness.System, id events.SessionID) { b.StartTurn(id, "t1", harness.Text("go")) },
		"task": func(b *harness.System, id events.SessionID) {
			_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: "t1", Of: events.TaskTool, Producer: "p", Runner: "exit", Restart: events.RestartAlways, Args: []byte(`{}`)})
			runtest.WantError(b.T, "register", err, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			server := bustest.Server(t, busembed.Config{Listen: true})
			b.Bus = bustest.Open(t, server)
			b.Host = b.NewHost(b.Bus)
			id := b.Open(api.CreateRequest{})
			start(b, id)
			ctx, stop := context.WithCancel(b.Ctx)
			var child sync.WaitGroup
			var deaths atomic.Int64
			child.Go(func() { // ends with the last process, which is killed
				for ctx.Err() == nil {
					node := runtest.Child(ctx, "TestChildDead", deadServer+"="+server.URL())
					_ = node.Run()
					deaths.Add(1)
				}
			})
			why := "given up after 3 attempts whose workers died"
			if name == "turn" {
				record := b.AwaitTurn(id, "t1")
				runtest.Equal(t, "issue", record.Issue, events.Issue{Kind: "runtime", Code: "poisoned", Message: why})
			} else {
				runtest.Equal(t, "summary", b.AwaitTask(id, "t1", events.TaskFailed).Summary, why)
			}
			runtest.Equal(t, "deaths", deaths.Load(), harness.DeadAttempts)
			runtest.EqualLists(t, "letters", b.DeadLetters(), nil)
			stop()
			child.Wait()
		})
	}
}

const deadKiller = "LASH_DEAD_KILLER"

// TestChildDeadNeighbours runs in another process, which TestDeadNeighbours starts: a node that dies as it builds the plugins of
// one session. Models of the others reply when that one's turn has ended.
func TestChildDeadNeighbours(t *testing.T) {
	killer := events.SessionID(os.Getenv(deadKiller))
	on, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{URL: os.Getenv(deadServer)}))
	runtest.NoError(t, err)
	host, err := session.New(session.Config{Bus: on, Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	model := scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if _, err := host.Await(ctx, killer, "t1"); err != nil && !errors.As(err, new(*api.TurnFailedError)) {
			return scripted.Answer{}, err
		}
		return harness.Reply(harness.Text("done"))(ctx, req)
	})
	startHasty(t, on, model, func(id events.SessionID) *plugin.Tools {
		if id == killer {
			os.Exit(0)
		}
		return plugin.NewTools()
	})
	<-t.Context().Done() // it never ends by itself
}

// TestDeadNeighbours has a turn that kills its node before turn.started, while a client appends to its session after each
// death: it is given up, and the turns beside it, which died with their node as often, finish.
func TestDeadNeighbours(t *testing.T) {
	t.Parallel()
	const neighbours = 6
	b := harness.StartIdle(t)
	server := bustest.Server(t, busembed.Config{Listen: true})
	b.Bus = bustest.Open(t, server)
	b.Host = b.NewHost(b.Bus)
	killer := b.Open(api.CreateRequest{})
	var beside []events.SessionID
	for range neighbours {
		id := b.Open(api.CreateRequest{})
		b.StartTurn(id, "t1", harness.Text("go"))
		beside = append(beside, id)
	}
	b.StartTurn(killer, "t1", harness.Text("go"))
	ctx, stop := context.WithCancel(b.Ctx)
	var child sync.WaitGroup
	var deaths atomic.Int64
	child.Go(func() { // ends with the last process, which is killed
		for ctx.Err() == nil {
			_ = runtest.Child(ctx, "TestChildDeadNeighbours", deadServer+"="+server.URL(), deadKiller+"="+string(killer)).Run()
			deaths.Add(1)
			_, _ = b.Inject(ctx, killer, api.InjectRequest{Parts: harness.UserMessages("more")[0].Message.Parts})
			_ = b.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: killer}, bus.WakeHint{})
		}
	})
	record := b.AwaitTurn(killer, "t1")
	runtest.Equal(t, "issue", record.Issue.Code, "poisoned")
	for _, id := range beside {
		record := b.AwaitTurn(id, "t1")
		runtest.Equal(t, "end of "+string(id), record.End, events.EndFinished)
		t.Logf("%s: %d attempts, %d deaths", id, record.Attempts, deaths.Load())
	}
	stop()
	child.Wait()
}
