package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// A lease of the specification is a turn's claim here: the event turn.started,
// with the attempt as its fencing token. Its journal is the session's history.
func scaleEntries() []entry {
	return []entry{
		{"S01", "two owners, B has taken over", "A commits", "rejected; B's state intact", testOldOwner},
		{"S02", "takeovers", "the attempts are read", "they strictly increase; holding a turn keeps the attempt", testAttemptsRise},
		{"S03", "a turn that runs", "another one must run now, or inputs are drained", "busy / no-op", testBusy},
		{"S04", "a turn longer than three times the wait for a quiet worker", "its owner is healthy", "lease kept, one execution", testLongTurn},
		{"S05", "a crash before and after every write of a node", "another resumes", "each durable effect observed exactly once", testCrashAnywhere},
		{"S06", "a live run", "its history is replayed", "identical committed state, zero executions", testReplayed},
		{"S07", "the same key with a different command", "repeated", "mismatch error", testMismatch},
		{"S08", "inputs, hosts and nodes that are killed", "any interleaving", "each input settles exactly once", testInputsSettle},
		{"S09", "a commit with claimed inputs and the turn's end", "fails late", "neither visible", testCommitWhole},
		{"S10", "commands enqueued before an input", "drained", "commands first, one at a time", testCommandsFirst},
		{"S11", "two sessions", "concurrent load", "no cross-talk of events, tasks, usage", testNoCrosstalk},
	}
}

// testOldOwner lets another worker's claim land while A waits for a tool.
func testOldOwner(t *testing.T) {
	release, begun := make(chan struct{}), make(chan struct{}, 2)
	b := setupIdle(t, reply(call("k", "slow", "{}")), reply(text("done")))
	plugin.AddTool(b.tools, plugin.Tool{Name: "slow"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		begun <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "from A, too late", nil
	})
	kill := b.work(bustest.Open(t, b.server))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "the call", begun)
	b.await(id, "the call in the history", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Calls) == 1 })
	b.commitTurn(id, &events.TurnStarted{Attempt: 2, Worker: "B", Job: "t1"}, &events.ToolLost{Calls: []int64{0}})
	took := b.state(id)
	close(release)
	kill() // returns when A has written what it can
	after := b.state(id)
	equal(t, "sequence after A's word", after.Seq, took.Seq)
	equal(t, "owner", after.Turn().Worker, "B")
	equal(t, "attempt", after.Turn().Attempt, 2)
	equal(t, "state of B as it was", bytes.Equal(encoded(t, after), encoded(t, took)), true)
	b.work(b.bus)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	if got := strings.Join(b.messages(id), "\n"); strings.Contains(got, "too late") {
		t.Errorf("messages: got %s, want nothing of A's", got)
	}
}

// encoded is a state as a snapshot has it.
func encoded(t *testing.T, s *projector.State) []byte {
	t.Helper()
	head, _, err := s.Clone().Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func testAttemptsRise(t *testing.T) {
	const kills = 4
	var script []step
	begun := make([]chan struct{}, kills)
	for i := range begun {
		begun[i] = make(chan struct{})
		script = append(script, hangs(begun[i]))
	}
	b := setupIdle(t, append(script, reply(text("done")))...)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	for i := range kills {
		kill := b.work(bustest.Open(t, b.server))
		receive(b, "the model call", begun[i])
		kill()
	}
	b.work(b.bus)
	equal(t, "attempts", b.ended(id, "t1").Attempts, kills+1)
	workers := make(map[events.WorkerID]bool)
	for i, p := range find[*events.TurnStarted](b, id) {
		equal(t, "attempt", p.Attempt, int64(i+1))
		workers[p.Worker] = true
	}
	equal(t, "workers", len(workers), kills+1)
}

func testBusy(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	b := setup(t, first(func() { close(begun); <-release }, reply(text("done"))))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "the model call", begun)
	_, err := b.otherHost().Run(b.ctx, id, api.TurnRequest{
		ID: "t2", Input: events.TurnInput{Parts: []events.Part{text("me too")}}, WhenBusy: api.WhenBusyReject,
	})
	must(t, "another turn", err, api.ErrTurnRunning)
	must(t, "wake", b.bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{}), nil)
	close(release)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	b.unqueued(id)
	equal(t, "turns", b.state(id).Turns, 1)
	equal(t, "model calls", len(b.model.asked()), 1)
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant done"})
}

func testLongTurn(t *testing.T) {
	var calls atomic.Int64
	wait := func(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
		calls.Add(1)
		timer := time.NewTimer(3*bus.AckWait + bus.AckWait/4)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return reply(text("done"))(ctx, llm.Request{})
	}
	b := setupIdle(t, wait)
	b.work(b.bus)
	b.work(bustest.Open(t, b.server)) // would take the turn, were it free
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndFinished)
	equal(t, "attempts", record.Attempts, 1)
	equal(t, "executions", calls.Load(), 1)
	equal(t, "claims", len(find[*events.TurnStarted](b, id)), 1)
}

// testReplayed replays the history of a turn that asked plugins at every point: the state is the one that the
// node of the live run came to, event by event ahead of the log, and nothing was run for it. A node that reads the history runs nothing either.
func testReplayed(t *testing.T) {
	c := newHookCounter("nothing")
	b := setupIdle(t, reply(call("k", "look", `{"a":1}`)), reply(text("done")), reply(text("again")))
	b.node(c.all())
	id := b.open(api.CreateRequest{Labels: map[string]string{"a": "b"}})
	live := b.run(id, "t1", text("go"))
	equal(t, "times that the model was asked", len(b.model.asked()), 2)
	before := maps.Clone(c.count)
	equal(t, "executions of the live run", before["tool"], 1)
	var file bytes.Buffer
	_, err := archive.Write(b.ctx, b.bus.Log(), b.bus, id, &file)
	must(t, "export", err, nil)
	archive, err := events.ReadArchive(&file, 1<<30)
	must(t, "read archive", err, nil)
	replayed := projector.New(id)
	for e, err := range archive.Log.Read(b.ctx, id, 1) {
		must(t, "read", err, nil)
		must(t, "apply", replayed.Apply(e), nil)
	}
	equal(t, "state", bytes.Equal(encoded(t, replayed), encoded(t, b.state(id))), true) // of the node's own host: it folded nothing from the log
	equal(t, "state of a host that reads it", bytes.Equal(encoded(t, replayed), encoded(t, stateAt(b, b.otherHost(), id))), true)
	record, err := replayed.Record("t1")
	must(t, "record", err, nil)
	equal(t, "end", record.End, live.End)
	b.nodeOn(bustest.Open(t, b.server), c.all())
	b.unqueued(id)
	if !maps.Equal(c.count, before) {
		t.Errorf("executions after replays: got %v, want %v", c.count, before)
	}
	equal(t, "model calls", len(b.model.asked()), 2)
	verified(t, b.bus, id)
}

func stateAt(b *bundle, h *session.Host, id events.SessionID) *projector.State {
	b.t.Helper()
	s, err := h.State(b.ctx, id)
	must(b.t, "state", err, nil)
	return s
}

// testMismatch repeats with another command what has a key: a turn's id, the key of a direct
// completion in a turn, and a reply's effect. Calls inside of calls do so in TestNestedFail, requests in TestKeyBelongsToItsRequest.
func testMismatch(t *testing.T) {
	var failed, same []error
	b := setupIdle(t, reply(call("k", "ask", "{}")), reply(text("title")), reply(text("hi")))
	b.node(declares("asks", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "ask"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			var said string
			for _, question := range []string{"one", "other", "one"} {
				req := asks(question)
				req.Key = "title"
				got, err := c.Host.Complete(ctx, req, "title")
				if question == "one" {
					same, said = append(same, err), said+got.Text
				} else {
					failed = append(failed, err)
				}
			}
			return said, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hello"))
	must(t, "the same key with another completion", errors.Join(failed...), api.ErrDifferent)
	must(t, "the same completion", errors.Join(same...), nil)
	equal(t, "its answers", b.result(id, "k"), "titletitle")
	equal(t, "times that the model was asked", len(b.model.asked()), 3)
	before := b.last(id)
	_, err := b.Run(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("other")}}})
	must(t, "the same turn with other input", err, api.ErrDifferent)
	equal(t, "text of the same turn again", b.run(id, "t1", text("hello")).Text, "hi")
	equal(t, "sequence", b.last(id), before)

	v := projector.NewVerifier(id)
	var found []projector.Check
	for e, err := range b.bus.Log().Read(b.ctx, id, 1) {
		must(t, "read", err, nil)
		for i := range e.Commit.Events {
			if p, ok := e.Commit.Events[i].Payload.(*events.ModelReplied); ok {
				p.Prompt.Digest = strings.Repeat("0", len(p.Prompt.Digest)) // as of another command
			}
		}
		for _, violation := range v.Apply(e) {
			found = append(found, violation.Check)
		}
	}
	equalLists(t, "what a replay says of replies to another prompt", found, []projector.Check{projector.CheckPrompt, projector.CheckPrompt})
}

// testInputsSettle has three hosts put inputs into a session whose nodes are processes that are killed again and again.
func testInputsSettle(t *testing.T) {
	const hosts, each = 3, 8
	b := setupListening(t)
	b.model.script = slices.Repeat([]step{reply(text("on"))}, 400)
	id := b.open(api.CreateRequest{})
	var group sync.WaitGroup
	for i := range hosts {
		h := b.otherHost()
		group.Go(func() {
			for n := range each {
				name := fmt.Sprintf("i%d-%d", i, n)
				_, err := h.Inject(b.ctx, id, api.InjectRequest{ID: events.InputID(name), Parts: []events.Part{text(name)}})
				must(t, "inject", err, nil)
				_, err = h.Submit(b.ctx, id, api.TurnRequest{ID: events.TurnID("t" + name), Input: events.TurnInput{Parts: []events.Part{text("go")}}})
				must(t, "submit", err, nil)
			}
		})
	}
	kill := b.process("", nil)
	for n := range 4 {
		b.await(id, "more turns", func(s *projector.State) bool { return s.Turns > int64(n*hosts*each/5) })
		next := func() func() { return b.process("", nil) }
		if n == 3 {
			next = func() func() { return b.work(b.bus) }
		}
		kill()
		kill = next()
	}
	group.Wait()
	b.await(id, "all turns", func(s *projector.State) bool { return s.Turns >= hosts*each && s.Idle() && len(s.Inputs) == 0 })
	all := strings.Join(b.messages(id), "\n") + "\n"
	taken := make(map[events.InputID]int)
	for _, p := range find[*events.InputAccepted](b, id) {
		for _, in := range p.Inputs {
			taken[in]++
		}
	}
	for i := range hosts {
		for n := range each {
			name := fmt.Sprintf("i%d-%d", i, n)
			equal(t, "messages of "+name, strings.Count(all, name+"\n"), 1)
			equal(t, "times that "+name+" was taken", taken[events.InputID(name)], 1)
		}
	}
	verified(t, b.bus, id)
}

// testCommitWhole cuts the wire of the node that runs a turn in the middle of
// two commits: the one that takes an input with the reply before it, and the one
// that ends the turn with the last reply; in each at many bytes, and behind the
// last one, when it arrives and its answer does not.
func testCommitWhole(t *testing.T) {
	const cuts = 20 // of each commit, and a byte from its ends
	for _, kind := range []events.Kind{events.KindInputAccepted, events.KindTurnCompleted} {
		t.Run(kind.Family(), func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{}, 8) // so many at once
			var group sync.WaitGroup
			defer group.Wait()
			cut := func(name string, at func(size int) int) {
				gate <- struct{}{}
				group.Go(func() {
					defer func() { <-gate }()
					commitWhole(t, kind, name, at)
				})
			}
			cut("behind the first byte", func(int) int { return 1 })
			cut("before the last byte", func(size int) int { return size - 1 })
			for i := range cuts + 1 {
				cut(fmt.Sprintf("behind %d of %d parts", i, cuts), func(size int) int { return size * i / cuts })
			}
		})
	}
}

// commitWhole cuts the wire in the commit that has an event of a kind.
func commitWhole(t *testing.T, kind events.Kind, cut string, at func(size int) int) {
	t.Helper()
	b := setupIdle(t)
	reads := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{text([]string{"one", "two"}[req.Iteration])}}}, nil
	}
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	whole := func(when string) {
		t.Helper()
		replies, taken, ends := len(find[*events.ModelReplied](b, id)), len(find[*events.InputAccepted](b, id)), len(find[*events.TurnCompleted](b, id))
		got := fmt.Sprintf("%d replies, %d inputs taken, %d ends", replies, taken, ends)
		if !slices.Contains([]string{"0 replies, 0 inputs taken, 0 ends", "1 replies, 1 inputs taken, 0 ends", "2 replies, 1 inputs taken, 1 ends"}, got) {
			t.Errorf("cut %s, %s: got %s, want a commit whole or not at all", cut, when, got)
		}
		waits := len(b.state(id).Inputs)
		equal(t, "cut "+cut+", "+when+": inputs that wait or were taken", waits+taken, 1)
	}
	finished := bustest.KilledIn(t, b.server, string(kind), at, func(ctx context.Context, victim *bus.Bus) error {
		first := func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			if req.Iteration == 0 { // for the checkpoint behind the first reply
				_, err := b.Inject(ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{text("and this")}})
				must(t, "inject", err, nil)
			}
			return reads(ctx, req)
		}
		w := b.scripted(victim, first)
		if err := w.Start(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		stopNow(w)
		return ctx.Err()
	})
	equal(t, "turn was over before it was cut "+cut, finished, false)
	whole("before another goes on")
	w := b.scripted(b.bus, reads)
	must(t, "start", w.Start(b.ctx), nil)
	defer stopNow(w)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	whole("at the end")
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant one", "user and this", "assistant two"})
}

// testCommandsFirst gives commands and then inputs to a session whose turn runs. Commands do not wait for the turn:
// each takes effect in a commit of its own, in the order of their arrival, before the inputs do.
func testCommandsFirst(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, first(func() { close(begun); <-release }, reply(text("0"))), reply(text("1")), reply(text("2")), reply(text("3")))
	b.node(plugin.Func("math", func(r *plugin.Registrar) error { simple(r, "a", "b"); return nil }))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t0", text("turn t0"))
	receive(b, "begun", begun)
	model := func(s string) {
		must(t, "configure", b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
			c.Model += s
			return c
		}}), nil)
	}
	model("large")
	_, err := b.RefreshCatalog(b.ctx, id)
	must(t, "refresh", err, nil)
	_, err = b.SetToolsAvailability(b.ctx, id, []string{"b"}, "off")
	must(t, "availability", err, nil)
	model("-2")
	_, err = b.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{text("input")}})
	must(t, "inject", err, nil)
	for _, turn := range []events.TurnID{"t1", "t2"} {
		b.submit(id, turn, text("turn "+string(turn)))
	}
	close(release)
	b.ended(id, "t2")
	equalLists(t, "prompt with the input", b.model.prompt(1), []string{"user turn t0", "assistant 0", "user input"})
	for n := 1; n < 4; n++ {
		equal(t, fmt.Sprint("model of call ", n), b.model.asked()[n].Model, "large-2")
		equalLists(t, fmt.Sprint("tools of call ", n), b.model.offered(n), []string{"a"})
	}
	var order []string
	for entry, err := range b.bus.Log().Read(b.ctx, id, 1) {
		must(t, "read", err, nil)
		for _, e := range entry.Commit.Events {
			switch e.Kind {
			case events.KindSessionConfigured, events.KindToolStateApplied:
				if e.Turn == "" && entry.Seq > 1 {
					equal(t, "events of the commit of a command", len(entry.Commit.Events), 1)
					order = append(order, string(e.Kind))
				}
			case events.KindInputInjected, events.KindInputAccepted, events.KindTurnRequested, events.KindTurnStarted:
				if e.Turn != "t0" || e.Kind == events.KindInputAccepted {
					order = append(order, strings.TrimSpace(string(e.Kind)+" "+string(e.Turn)))
				}
			default:
			}
		}
	}
	equalLists(t, "order", order, []string{
		"session.configured", "tool.state_applied", "tool.state_applied", "session.configured", "input.injected", "turn.requested t1", "turn.requested t2",
		"input.accepted t0", "turn.started t1", "turn.started t2",
	})
	verified(t, b.bus, id)
}

func testNoCrosstalk(t *testing.T) {
	const turns = 12
	b := setupIdle(t)
	model := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		last := req.Messages[len(req.Messages)-1].Text()
		use := events.Usage{Input: 3}
		if strings.Contains(last, "red") {
			use.Input = 5
		}
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{text("re: " + last)}, Usage: use}}, nil
	}
	for range 2 {
		w, err := workers.NewNode(workers.Config{
			Roles: turnRoles(),
			Bus:   bustest.Open(t, b.server), Providers: map[string]llm.Provider{"scripted": scripted.New(model)}, Provider: "scripted",
		})
		must(t, "new worker", err, nil)
		must(t, "start", w.Start(b.ctx), nil)
		t.Cleanup(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			w.Stop(now)
		})
	}
	seen := make(map[events.SessionID]chan []string)
	var group sync.WaitGroup
	for _, id := range []events.SessionID{"red", "blue"} {
		b.open(api.CreateRequest{ID: id})
		_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: events.TaskID("task-" + id), Of: events.TaskTool, Producer: string(id)})
		must(t, "register task", err, nil)
		seen[id] = make(chan []string, 1)
		group.Go(func() {
			var list []string
			for o, err := range b.Observe(b.ctx, id, 0) {
				must(t, "observe", err, nil)
				if o.Commit != nil {
					list = append(list, string(o.Commit.Session))
				}
				if o.Delta != nil && !strings.HasPrefix(string(o.Delta.Turn), string(id)) {
					list = append(list, "delta of "+string(o.Delta.Turn))
				}
				if o.Commit != nil && o.Commit.Events[len(o.Commit.Events)-1].Kind == events.KindSessionClosed {
					break
				}
			}
			seen[id] <- list
		})
		group.Go(func() {
			for n := range turns {
				_, err := b.Run(b.ctx, id, api.TurnRequest{
					ID: events.TurnID(fmt.Sprintf("%s-%d", id, n)), Input: events.TurnInput{Parts: []events.Part{text(fmt.Sprintf("%s %d", id, n))}},
				})
				must(t, "run", err, nil)
			}
			must(t, "close", b.CloseSession(b.ctx, id, "done"), nil)
		})
	}
	group.Wait()
	for id, other := range map[events.SessionID]string{"red": "blue", "blue": "red"} {
		list := receive(b, "observed", seen[id])
		equal(t, "foreign things observed in "+string(id), slices.ContainsFunc(list, func(s string) bool { return s != string(id) }), false)
		messages := b.messages(id)
		equal(t, "messages of "+string(id), len(messages), 2*turns)
		equal(t, "words of "+other+" in "+string(id), strings.Contains(strings.Join(messages, "\n"), other), false)
		tasks, err := b.Tasks(b.ctx, id)
		must(t, "tasks", err, nil)
		equal(t, "tasks of "+string(id), len(tasks), 1)
		equal(t, "task of "+string(id), tasks[0].Producer, string(id))
		var used int64
		for _, row := range b.state(id).Ledger {
			used += row.Usage.Input
		}
		equal(t, "input tokens of "+string(id), used, map[events.SessionID]int64{"red": 5, "blue": 3}[id]*turns)
	}
}
