package catalogue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// testInputsEndOnce has three hosts inject inputs into a session whose nodes are processes that are killed again
// and again.
func testInputsEndOnce(t *testing.T) {
	const hosts, each = 3, 8
	b := setupListening(t)
	b.Model.Script = slices.Repeat([]harness.Step{harness.Reply(harness.Text("on"))}, 400)
	id := b.Open(api.CreateRequest{})
	var group sync.WaitGroup
	for i := range hosts {
		h := b.OtherHost()
		group.Go(func() {
			for n := range each {
				name := fmt.Sprintf("i%d-%d", i, n)
				_, err := h.Inject(b.Ctx, id, api.InjectRequest{ID: events.InputID(name), Parts: []events.Part{harness.Text(name)}})
				runtest.WantError(t, "inject", err, nil)
				_, err = h.Submit(b.Ctx, id, api.TurnRequest{ID: events.TurnID("t" + name), Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
				runtest.WantError(t, "submit", err, nil)
			}
		})
	}
	kill := process(b, "", nil)
	for n := range 4 {
		b.AwaitState(id, "more turns", func(s *projector.State) bool { return s.Turns > int64(n*hosts*each/5) })
		next := func() func() { return process(b, "", nil) }
		if n == 3 {
			next = func() func() { return b.StartWorker(b.Bus) }
		}
		kill()
		kill = next()
	}
	group.Wait()
	b.AwaitState(id, "all turns", func(s *projector.State) bool { return s.Turns >= hosts*each && s.Idle() && len(s.Inputs) == 0 })
	all := strings.Join(b.Messages(id), "\n") + "\n"
	inputsAccepted := make(map[events.InputID]int)
	for _, p := range harness.Find[*events.InputAccepted](b, id) {
		for _, in := range p.Inputs {
			inputsAccepted[in]++
		}
	}
	for i := range hosts {
		for n := range each {
			name := fmt.Sprintf("i%d-%d", i, n)
			runtest.Equal(t, "messages of "+name, strings.Count(all, name+"\n"), 1)
			runtest.Equal(t, "times that "+name+" was taken", inputsAccepted[events.InputID(name)], 1)
		}
	}
	harness.VerifyHistory(t, b.Bus, id)
}

// testCommitWhole cuts the connection of the node that runs a turn in the middle of two commits: the one that
// takes an input together with the reply before it, and the one that ends the turn with the last reply. It cuts
// each at many bytes, and behind the last one, where the commit arrives and its acknowledgement does not.
func testCommitWhole(t *testing.T) {
	const cuts = 5 // of each commit, and a byte from its ends
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

// commitWhole cuts the connection in the commit that has an event of a kind.
func commitWhole(t *testing.T, kind events.Kind, cut string, at func(size int) int) {
	t.Helper()
	b := harness.StartIdle(t)
	reads := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{harness.Text([]string{"one", "two"}[req.Iteration])}}}, nil
	}
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	checkWhole := func(when string) {
		t.Helper()
		replies, inputsAccepted, ends := len(harness.Find[*events.ModelReplied](b, id)), len(harness.Find[*events.InputAccepted](b, id)), len(harness.Find[*events.TurnCompleted](b, id))
		got := fmt.Sprintf("%d replies, %d inputs taken, %d ends", replies, inputsAccepted, ends)
		if !slices.Contains([]string{"0 replies, 0 inputs taken, 0 ends", "1 replies, 1 inputs taken, 0 ends", "2 replies, 1 inputs taken, 1 ends"}, got) {
			t.Errorf("cut %s, %s: got %s, want a commit whole or not at all", cut, when, got)
		}
		waits := len(b.StateOf(id).Inputs)
		runtest.Equal(t, "cut "+cut+", "+when+": inputs that wait or were taken", waits+inputsAccepted, 1)
	}
	finished := bustest.KilledIn(t, b.Server, string(kind), at, func(ctx context.Context, victim *bus.Bus) error {
		first := func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			if req.Iteration == 0 { // for the checkpoint behind the first reply
				_, err := b.Inject(ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("and this")}})
				runtest.WantError(t, "inject", err, nil)
			}
			return reads(ctx, req)
		}
		w := scriptedNode(b, victim, first)
		if err := w.Start(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		stopNow(w)
		return ctx.Err()
	})
	runtest.Equal(t, "turn was over before it was cut "+cut, finished, false)
	checkWhole("before another goes on")
	w := scriptedNode(b, b.Bus, reads)
	runtest.WantError(t, "start", w.Start(b.Ctx), nil)
	defer stopNow(w)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	checkWhole("at the end")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant one", "user and this", "assistant two"})
}

// testCommandsFirst sends commands and then inputs to a session whose turn runs. Commands do not wait for the
// turn: each takes effect in a commit of its own, in the order of their arrival, before the inputs.
func testCommandsFirst(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.DoFirst(func() { close(started); <-release }, harness.Reply(harness.Text("0"))), harness.Reply(harness.Text("1")), harness.Reply(harness.Text("2")), harness.Reply(harness.Text("3")))
	b.StartNode(plugin.Func("math", func(r *plugin.Registrar) error { harness.NamedTools(r, "a", "b"); return nil }))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t0", harness.Text("turn t0"))
	harness.Receive(b, "the start", started)
	model := func(s string) {
		runtest.WantError(t, "configure", b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
			c.Model += s
			return c
		}}), nil)
	}
	model("large")
	_, err := b.RefreshCatalog(b.Ctx, id)
	runtest.WantError(t, "refresh", err, nil)
	_, err = b.SetToolsAvailability(b.Ctx, id, []string{"b"}, "off")
	runtest.WantError(t, "availability", err, nil)
	model("-2")
	_, err = b.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("input")}})
	runtest.WantError(t, "inject", err, nil)
	for _, turn := range []events.TurnID{"t1", "t2"} {
		b.StartTurn(id, turn, harness.Text("turn "+string(turn)))
	}
	close(release)
	b.AwaitTurn(id, "t2")
	runtest.EqualLists(t, "prompt with the input", b.Model.Prompt(1), []string{"user turn t0", "assistant 0", "user input"})
	for n := 1; n < 4; n++ {
		runtest.Equal(t, fmt.Sprint("model of call ", n), b.Model.Requests()[n].Model, "large-2")
		runtest.EqualLists(t, fmt.Sprint("tools of call ", n), b.Model.Offered(n), []string{"a"})
	}
	var order []string
	for entry, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		for _, e := range entry.Commit.Events {
			switch e.Kind {
			case events.KindSessionConfigured, events.KindToolStateApplied:
				if e.Turn == "" && entry.Seq > 1 {
					runtest.Equal(t, "events of the commit of a command", len(entry.Commit.Events), 1)
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
	runtest.EqualLists(t, "order", order, []string{
		"session.configured", "tool.state_applied", "tool.state_applied", "session.configured", "input.injected", "turn.requested t1", "turn.requested t2",
		"input.accepted t0", "turn.started t1", "turn.started t2",
	})
	harness.VerifyHistory(t, b.Bus, id)
}

func testSessionsAreIndependent(t *testing.T) {
	const turns = 12
	b := harness.StartIdle(t)
	model := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		last := req.Messages[len(req.Messages)-1].Text()
		use := events.Usage{Input: 3}
		if strings.Contains(last, "red") {
			use.Input = 5
		}
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{harness.Text("re: " + last)}, Usage: use}}, nil
	}
	for range 2 {
		w, err := workers.NewNode(workers.Config{
			Roles: harness.TurnRoles(),
			Bus:   bustest.Open(t, b.Server), Providers: map[string]llm.Provider{"scripted": scripted.New(model)}, Provider: "scripted",
		})
		runtest.WantError(t, "new worker", err, nil)
		runtest.WantError(t, "start", w.Start(b.Ctx), nil)
		t.Cleanup(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			w.Stop(now)
		})
	}
	seen := make(map[events.SessionID]chan []string)
	var group sync.WaitGroup
	for _, id := range []events.SessionID{"red", "blue"} {
		b.Open(api.CreateRequest{ID: id})
		_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: events.TaskID("task-" + id), Of: events.TaskTool, Producer: string(id)})
		runtest.WantError(t, "register task", err, nil)
		seen[id] = make(chan []string, 1)
		group.Go(func() {
			var list []string
			for o, err := range b.Observe(b.Ctx, id, 0) {
				runtest.WantError(t, "observe", err, nil)
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
				_, err := b.Run(b.Ctx, id, api.TurnRequest{
					ID: events.TurnID(fmt.Sprintf("%s-%d", id, n)), Input: events.TurnInput{Parts: []events.Part{harness.Text(fmt.Sprintf("%s %d", id, n))}},
				})
				runtest.WantError(t, "run", err, nil)
			}
			runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "done"), nil)
		})
	}
	group.Wait()
	for id, other := range map[events.SessionID]string{"red": "blue", "blue": "red"} {
		list := harness.Receive(b, "observed", seen[id])
		runtest.Equal(t, "foreign things observed in "+string(id), slices.ContainsFunc(list, func(s string) bool { return s != string(id) }), false)
		messages := b.Messages(id)
		runtest.Equal(t, "messages of "+string(id), len(messages), 2*turns)
		runtest.Equal(t, "words of "+other+" in "+string(id), strings.Contains(strings.Join(messages, "\n"), other), false)
		tasks, err := b.Tasks(b.Ctx, id)
		runtest.WantError(t, "tasks", err, nil)
		runtest.Equal(t, "tasks of "+string(id), len(tasks), 1)
		runtest.Equal(t, "task of "+string(id), tasks[0].Producer, string(id))
		var used int64
		for _, row := range b.StateOf(id).Ledger {
			used += row.Usage.Input
		}
		runtest.Equal(t, "input tokens of "+string(id), used, map[events.SessionID]int64{"red": 5, "blue": 3}[id]*turns)
	}
}
