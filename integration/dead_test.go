package integration

import (
	"context"
	"errors"
	"os"
	"os/exec"
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
	"github.com/lash-go/lash/session"
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

// letter waits for the dead letter of a command.
func (b *bundle) letter(class bus.Class, id events.SessionID, name string) (letter bus.DeadLetter) {
	b.t.Helper()
	b.until("dead letter of "+name, func() bool {
		var err error
		letter, err = b.bus.DeadLetter(b.ctx, class, id, name)
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
		ids = append(ids, letter.ID)
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

// TestDeadTurn has a running turn whose attempts all end in a panic: it ends in the
// history, the turn behind it goes on, and a retry runs it under another id, once.
func TestDeadTurn(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("second")), reply(text("first")))
	id := b.open(session.CreateRequest{Config: events.Config{Provider: "scripted"}}) // so that it is asked for its name
	b.submit(id, "t1", text("one"))
	stop := hasty(t, bustest.Open(t, b.server), scripted.New(blocks))
	b.await(id, "start", func(s *projector.State) bool { return s.Turn() != nil })
	b.submit(id, "t2", text("two"))
	b.await(id, "queue", func(s *projector.State) bool { return len(s.Queue) == 1 })
	b.unqueuedJob(id, "t2") // the job of the first covers it
	stop()
	hasty(t, b.bus, newFragile(deadAttempts, b.model.answer))
	first := b.ended(id, "t1")
	equal(t, "end", first.End, events.EndFailed)
	equal(t, "code", first.Issue.Code, "poisoned")
	equal(t, "message", first.Issue.Message, "given up after 3 attempts, the last: run panicked: boom")
	equal(t, "end of the next", b.ended(id, "t2").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user two", "assistant second"})

	letter := b.letter(bus.ClassTurn, id, "t1")
	equal(t, "reason", letter.Reason, bus.DeadPoisoned)
	equal(t, "error", letter.Error, "run panicked: boom")
	equal(t, "attempts in the letter", letter.Attempts, deadAttempts)
	equal(t, "ended", letter.Ended, true)
	var got session.Retried
	for range 2 { // the second as if the first had died before it forgot the letter
		var err error
		got, err = b.Retry(b.ctx, &letter)
		must(t, "retry", err, nil)
	}
	equal(t, "fresh", got.Fresh, true)
	equal(t, "end of the retry", b.ended(id, events.TurnID(got.ID)).End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user two", "assistant second", "user one", "assistant first"})
	equalLists(t, "letters", b.letters(), nil)
	verified(t, b.bus.Log(), id)
}

// TestDeadUnread has commands that nobody can read, or that are for no session.
func TestDeadUnread(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(session.CreateRequest{})
	body, err := events.EncodePayload(&session.Command{Input: events.TurnInput{Parts: []events.Part{text("hi")}}})
	must(t, "encode", err, nil)
	for _, class := range []bus.Class{bus.ClassTurn, bus.ClassTask} {
		must(t, "enqueue", b.bus.Enqueue(b.ctx, class, id, "junk", []byte("junk")), nil)
	}
	must(t, "enqueue", b.bus.Enqueue(b.ctx, bus.ClassTurn, "nowhere", "t1", body), nil)
	hasty(t, b.bus, scripted.New(b.model.answer))
	for _, class := range []bus.Class{bus.ClassTurn, bus.ClassTask} {
		letter := b.letter(class, id, "junk")
		equal(t, "reason", letter.Reason, bus.DeadUnread)
		equal(t, "body", string(letter.Body), "junk")
	}
	letter := b.letter(bus.ClassTurn, "nowhere", "t1")
	equal(t, "reason", letter.Reason, bus.DeadNoSession)
	equal(t, "body", string(letter.Body), string(body))
	_, err = b.Retry(b.ctx, &letter)
	must(t, "retry", err, events.ErrNoSession)
	b.open(session.CreateRequest{ID: "nowhere"})
	b.model.say("there")
	got, err := b.Retry(b.ctx, &letter)
	must(t, "retry", err, nil)
	equal(t, "fresh", got.Fresh, false)
	equal(t, "end", b.ended("nowhere", "t1").End, events.EndFinished)
	equal(t, "last of the other session", b.last(id), 1)
	equal(t, "letters", len(b.letters()), 2)
}

// TestDeadMail has commands that no history takes reach the run of a turn: they
// are dead letters, and the turn goes on.
func TestDeadMail(t *testing.T) {
	t.Parallel()
	b, goOn := setupIdle(t), make(chan struct{})
	id := b.open(session.CreateRequest{})
	hasty(t, b.bus, scripted.New(func(context.Context, llm.Request) (scripted.Answer, error) {
		<-goOn
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{text("done")}}}, nil
	}))
	b.submit(id, "t1", text("go"))
	b.await(id, "start", func(s *projector.State) bool { return s.Turn() != nil })
	for name, cmd := range map[string]session.Command{
		"request": {Input: events.TurnInput{Continue: true, Parts: []events.Part{text("and this")}}},
		"cancel":  {Cancel: session.Cancellation{Turn: "t 1", Request: events.TurnCancelRequested{Request: "r"}}},
		"resolve": {Resolve: events.ToolResolved{Effect: "t1/0/0", Result: events.ToolResult{Outcome: "unheard of"}}},
	} {
		body, err := events.EncodePayload(&cmd)
		must(t, "encode", err, nil)
		must(t, "enqueue", b.bus.Enqueue(b.ctx, bus.ClassTurn, id, name, body), nil)
		equal(t, "reason of "+name, b.letter(bus.ClassTurn, id, name).Reason, bus.DeadUnread)
	}
	close(goOn)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant done"})
	verified(t, b.bus.Log(), id)
}

// TestDeadAbout asks what commands are about that a parked turn meets: only the
// answer that it waits for ends it when it is given up.
func TestDeadAbout(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, theCall())
	b.nodeOn(b.bus, (&asker{}).factory(events.EffectsNone))
	id := b.open(session.CreateRequest{})
	b.parks(id)
	for name, c := range map[string]struct {
		cmd  session.Command
		want events.TurnID
	}{
		"cover":    {session.Command{Cover: true}, ""},
		"late":     {session.Command{Answer: events.ToolApprovalGiven{Effect: "t0/0/0", Granted: true}}, ""},
		"late_end": {session.Command{Cancel: session.Cancellation{Turn: "t0", Request: events.TurnCancelRequested{Request: "r"}}}, ""},
		"awaited":  {session.Command{Answer: events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true}}, "t1"},
		"end":      {session.Command{Cancel: session.Cancellation{Turn: "t1", Request: events.TurnCancelRequested{Request: "r"}}}, "t1"},
	} {
		of, err := b.Poisoned(b.ctx, id, "job", &c.cmd)
		must(t, name, err, nil)
		equal(t, name, of.Turn, c.want)
	}
}

// TestDeadHistory has a history that cannot be folded: its job is kept, and the history stays as it is.
func TestDeadHistory(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(session.CreateRequest{})
	b.submit(id, "t1", text("one"))
	must(t, "publish", b.bus.Conn().Publish("lash.s."+string(id)+".junk", []byte("junk")), nil)
	must(t, "flush", b.bus.Conn().Flush(), nil)
	hasty(t, b.bus, scripted.New(b.model.answer))
	letter := b.letter(bus.ClassTurn, id, "t1")
	equal(t, "reason", letter.Reason, bus.DeadPoisoned)
	equal(t, "ended", letter.Ended, false)
	equal(t, "attempts", letter.Attempts, deadAttempts)
	equal(t, "last", b.last(id), 2)
	b.unqueuedJob(id, "t1")
}

// unqueuedJob waits until a turn's job is acked.
func (b *bundle) unqueuedJob(id events.SessionID, name string) {
	b.t.Helper()
	b.until("job "+name+" is acked", func() bool {
		_, err := b.bus.Queued(b.ctx, bus.ClassTurn, id, name)
		return b.gone(err)
	})
}

// TestDeadChurn stops the node under a turn far more often than it would be
// tried, and has its attempts fail between all pieces of progress: neither adds up.
func TestDeadChurn(t *testing.T) {
	t.Parallel()
	const stops, replies = 2 * deadAttempts, 2 * deadAttempts
	b := setupIdle(t)
	id := b.open(session.CreateRequest{Config: events.Config{Provider: "scripted"}}) // so that it is asked for its name
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

// TestDeadHalf plays nodes that died over giving up a job: after the letter,
// and after the end in the history. Who comes next does the rest, once.
func TestDeadHalf(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("second")))
	id := b.open(session.CreateRequest{Config: events.Config{Provider: "scripted"}})
	b.submit(id, "t1", text("one"))
	body, err := b.bus.Queued(b.ctx, bus.ClassTurn, id, "t1")
	must(t, "queued", err, nil)
	must(t, "bury", b.bus.PutDead(b.ctx, &bus.DeadLetter{Class: bus.ClassTurn, Session: id, ID: "t1", Body: body, Reason: bus.DeadPoisoned}), nil)
	stop := hasty(t, bustest.Open(t, b.server), newFragile(deadAttempts, blocks))
	equal(t, "end", b.ended(id, "t1").End, events.EndFailed)
	b.unqueuedJob(id, "t1")
	stop()
	equalLists(t, "letters", b.letters(), []string{"t1"})
	equal(t, "attempts", b.letter(bus.ClassTurn, id, "t1").Attempts, deadAttempts)

	must(t, "queue it once more", b.bus.Enqueue(b.ctx, bus.ClassTurn, id, "t1", body), nil)
	b.submit(id, "t2", text("two"))
	hasty(t, b.bus, newFragile(0, b.model.answer))
	equal(t, "end of the next", b.ended(id, "t2").End, events.EndFinished)
	b.unqueuedJob(id, "t1")
	equal(t, "ends", len(find[*events.TurnCompleted](b, id)), 2)
	equalLists(t, "messages", b.messages(id), []string{"user two", "assistant second"})
	verified(t, b.bus.Log(), id)
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
			_, err := b.RegisterTask(b.ctx, id, session.TaskRequest{ID: "t1", Of: events.TaskTool, Producer: "p", Runner: "exit", Restart: events.RestartAlways, Args: []byte(`{}`)})
			must(b.t, "register", err, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t)
			server := bustest.Server(t, busembed.Config{Listen: true})
			b.bus = bustest.Open(t, server)
			b.Host = b.newHost(b.bus)
			id := b.open(session.CreateRequest{})
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
			class, job := bus.ClassTurn, "t1"
			if name == "task" {
				class, job = bus.ClassTask, "t1-2"
			}
			letter := b.letter(class, id, job)
			equal(t, "reason", letter.Reason, bus.DeadPoisoned)
			equal(t, "attempts", letter.Attempts, deadAttempts)
			equal(t, "ended", letter.Ended, true)
			why := "given up after 3 attempts whose workers died"
			if name == "turn" {
				record := b.ended(id, "t1")
				equal(t, "issue", record.Issue, events.Issue{Kind: "runtime", Code: "poisoned", Message: why})
			} else {
				equal(t, "summary", b.taskIs(id, "t1", events.TaskFailed).Summary, why)
			}
			equal(t, "deaths", deaths.Load(), deadAttempts+1) // of the first delivery nobody kept count
			stop()
			child.Wait()
			got, err := b.Retry(b.ctx, &letter)
			must(t, "retry", err, nil)
			equal(t, "fresh", got.Fresh, true)
			if name == "task" {
				rec := b.taskIs(id, "t1", events.TaskPending)
				equal(t, "retried", rec.Seq > 2 && rec.Attempt == 0 && rec.Runner == "exit" && string(rec.Args) == `{}`, true)
			}
		})
	}
}
