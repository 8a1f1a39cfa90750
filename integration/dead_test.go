package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// deadAttempts is how often these tests' nodes try a job.
const deadAttempts = 3

// hasty is a node that gives up soon, and how to stop it in order, at once.
func hasty(t *testing.T, on *bus.Bus, provider llm.Provider) (stop func()) {
	t.Helper()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Providers: map[string]llm.Provider{"scripted": provider}, Provider: "scripted", Logger: zaptest.NewLogger(t),
		Runners:  map[string]workers.TaskFunc{"exit": func(context.Context, *workers.RunningTask) (string, error) { os.Exit(0); return "", nil }},
		JobRetry: workers.JobRetry{Attempts: deadAttempts, Base: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			n.Stop(now)
		})
	}
	t.Cleanup(stop)
	return stop
}

// until looks again and again, as the server tells nobody of what its queues hold.
func (b *bundle) until(what string, ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("until %s: %v", what, context.Cause(b.ctx))
		}
	}
}

// gone reports whether a look found nothing.
func (b *bundle) gone(err error) bool {
	b.t.Helper()
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		b.t.Fatal(err)
	}
	return err != nil
}

// letter waits for the dead letter of a session.
func (b *bundle) letter(id events.SessionID) (letter bus.DeadLetter) {
	b.t.Helper()
	b.until("dead letter of "+string(id), func() bool {
		var err error
		letter, err = b.bus.DeadLetter(b.ctx, id)
		return !b.gone(err)
	})
	return letter
}

func (b *bundle) letters() (ids []string) {
	b.t.Helper()
	for letter, err := range b.bus.DeadLetters(b.ctx) {
		if err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, string(letter.Session))
	}
	return ids
}

// fragile is a provider over which a run panics so many times.
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

// blocks is a model that never answers.
func blocks(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
	<-ctx.Done()
	return scripted.Answer{}, context.Cause(ctx)
}

// TestDeadTurn has a running turn whose attempts all end in a panic: it ends in
// the history with the reason, and the turn behind it goes on.
func TestDeadTurn(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("second")))
	id := b.open(api.CreateRequest{Config: events.Config{Provider: "scripted"}}) // so that it is asked for its name
	b.submit(id, "t1", text("one"))
	stop := hasty(t, bustest.Open(t, b.server), scripted.New(blocks))
	b.await(id, "start", func(s *projector.State) bool { return s.Turn() != nil })
	b.submit(id, "t2", text("two"))
	stop()
	hasty(t, b.bus, newFragile(deadAttempts, b.model.answer))
	first := b.ended(id, "t1")
	equal(t, "end", first.End, events.EndFailed)
	equal(t, "code", first.Issue.Code, "poisoned")
	equal(t, "message", first.Issue.Message, "given up after 3 attempts, the last: run panicked: boom")
	equal(t, "end of the next", b.ended(id, "t2").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user two", "assistant second"})
	equalLists(t, "letters", b.letters(), nil)
	b.unqueued(id)
	verified(t, b.bus, id)
}

// TestDeadNowhere has wakes of sessions that do not exist: nothing is kept of them.
func TestDeadNowhere(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	for _, key := range []bus.WakeKey{{Class: bus.ClassTurn, Session: "nowhere"}, {Class: bus.ClassTask, Session: "nowhere", Task: "k"}} {
		must(t, "wake", b.bus.PublishWake(key, bus.WakeHint{Repair: true}), nil)
	}
	hasty(t, b.bus, scripted.New(b.model.answer))
	b.until("the wakes are acked", func() bool { return len(b.wakes()) == 0 })
	equalLists(t, "letters", b.letters(), nil)
}

// TestDeadHistory has a history that cannot be folded: it becomes a dead letter, and stays as it is.
func TestDeadHistory(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("one"))
	must(t, "publish", b.bus.Conn().Publish("lash.s."+string(id)+".junk", []byte("junk")), nil)
	must(t, "flush", b.bus.Conn().Flush(), nil)
	last := b.last(id)
	hasty(t, b.bus, scripted.New(b.model.answer))
	letter := b.letter(id)
	equal(t, "attempts", letter.Attempts, deadAttempts)
	equal(t, "error", strings.Contains(letter.Error, "malformed"), true)
	equal(t, "last", b.last(id), last)
	b.until("its wake is acked", func() bool { return !b.woken(id) })
	must(t, "retry", b.Retry(b.ctx, &letter), nil)
	b.until("it is a dead letter again", func() bool { again := b.letter(id); return again.Seq > letter.Seq })
}

// TestDeadChild cancels tasks whose work a session does that cannot be folded, and that owes nothing itself: it becomes a
// dead letter, and the tasks end with that reason.
func TestDeadChild(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	child := b.open(api.CreateRequest{Parent: id, Relation: events.RelationChild})
	for _, k := range []events.TaskID{"asked", "cancelled"} {
		_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: k, Of: events.TaskSubagent, Child: child, Close: events.CloseCancel})
		must(t, "register", err, nil)
	}
	must(t, "publish", b.bus.Conn().Publish("lash.s."+string(child)+".junk", []byte("junk")), nil)
	must(t, "flush", b.bus.Conn().Flush(), nil)
	_, err := b.RequestCancelTask(b.ctx, id, "asked", "enough")
	must(t, "ask it to stop", err, nil)
	_, err = b.CancelTask(b.ctx, id, "cancelled")
	must(t, "cancel", err, nil)
	hasty(t, b.bus, scripted.New(b.model.answer))
	letter := b.letter(child)
	want := fmt.Sprintf("session %s, which does its work, cannot be read: %s", child, letter.Error)
	b.await(id, "the ends", func(s *projector.State) bool {
		asked, _ := s.Task("asked")
		cancelled, _ := s.Task("cancelled")
		return asked.State == events.TaskFailed && asked.Summary == want && !asked.Owing() && cancelled.State == events.TaskCancelled && !cancelled.Owing()
	})
	b.until("the wakes are acked", func() bool { return len(b.wakes()) == 0 })
	verified(t, b.bus, id)
}

// TestDeadChurn stops the node under a turn far more often than it would be
// tried, and has its attempts fail between all pieces of progress: neither adds up.
func TestDeadChurn(t *testing.T) {
	t.Parallel()
	const stops, replies = 2 * deadAttempts, 2 * deadAttempts
	b := setupIdle(t)
	id := b.open(api.CreateRequest{Config: events.Config{Provider: "scripted"}}) // so that it is asked for its name
	b.submit(id, "t1", text("go"))
	for n := range stops {
		stop := hasty(t, bustest.Open(t, b.server), scripted.New(blocks))
		b.await(id, "attempt", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Attempt == int64(n)+1 })
		stop()
	}
	for n := range replies {
		stop := hasty(t, bustest.Open(t, b.server), newFragile(deadAttempts-1, func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			switch {
			case n == replies-1:
				return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{text("done")}}}, nil
			case req.Iteration > int64(n):
				return blocks(ctx, req)
			}
			return scripted.Answer{Response: llm.Response{Stop: events.StopToolUse, Parts: []events.Part{call("c", "none", `{}`)}}}, nil
		}))
		b.await(id, "progress", func(s *projector.State) bool { return s.Turn() == nil || s.Turn().Iteration > int64(n) })
		stop()
	}
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "letters", b.letters(), nil)
}

const deadServer = "LASH_DEAD_SERVER"

// TestDeadProcess is what TestDeadCrashLoop runs in another process: a node whose work kills it.
func TestDeadProcess(t *testing.T) {
	url := os.Getenv(deadServer)
	if url == "" {
		t.Skip("runs in a process of its own")
	}
	on, err := bus.Open(t.Context(), bus.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	hasty(t, on, scripted.New(func(context.Context, llm.Request) (scripted.Answer, error) { os.Exit(0); panic("unreachable") }))
	<-t.Context().Done() // it never ends by itself
}

// TestDeadCrashLoop has jobs that kill their node each time: a turn, and a task that is run again after its worker's death.
func TestDeadCrashLoop(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*bundle, events.SessionID){
		"turn": func(b *bundle, id events.SessionID) { b.submit(id, "t1", text("go")) },
		"task": func(b *bundle, id events.SessionID) {
			_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: "t1", Of: events.TaskTool, Producer: "p", Runner: "exit", Restart: events.RestartAlways, Args: []byte(`{}`)})
			must(b.t, "register", err, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t)
			server := bustest.Server(t, busembed.Config{Listen: true})
			b.bus = bustest.Open(t, server)
			b.Host = b.newHost(b.bus)
			id := b.open(api.CreateRequest{})
			start(b, id)
			ctx, stop := context.WithCancel(b.ctx)
			var child sync.WaitGroup
			var deaths atomic.Int64
			child.Go(func() { // ends with the last process, which is killed
				for ctx.Err() == nil {
					node := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDeadProcess$")
					node.Env = append(os.Environ(), deadServer+"="+server.URL())
					_ = node.Run()
					deaths.Add(1)
				}
			})
			why := "given up after 3 attempts whose workers died"
			if name == "turn" {
				record := b.ended(id, "t1")
				equal(t, "issue", record.Issue, events.Issue{Kind: "runtime", Code: "poisoned", Message: why})
			} else {
				equal(t, "summary", b.taskIs(id, "t1", events.TaskFailed).Summary, why)
			}
			equal(t, "deaths", deaths.Load(), deadAttempts)
			equalLists(t, "letters", b.letters(), nil)
			stop()
			child.Wait()
		})
	}
}
