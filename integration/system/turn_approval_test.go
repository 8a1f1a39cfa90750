package system

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// atOnce has two clients make a request at once, each on a connection of its own.
func turnAtOnce(b *harness.System, do func(h *session.Host, yes bool) error) map[bool]error {
	b.T.Helper()
	var no, yes error
	one, two := b.OtherHost(), b.OtherHost()
	var clients sync.WaitGroup
	clients.Go(func() { no = do(one, false) })
	clients.Go(func() { yes = do(two, true) })
	clients.Wait()
	return map[bool]error{false: no, true: yes}
}

// TestSmokeApprovalAsked parks a turn, which then occupies no worker. Any client can list and answer the approval.
func TestSmokeApprovalAsked(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("meanwhile")), harness.Reply(harness.Text("3")))
	g := &harness.Approver{}
	b.StartNodeWith(workers.Config{Concurrency: 1}, plugin.BuilderConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{g.Factory(events.EffectsNonIdempotent)},
	})
	id := b.Open(api.CreateRequest{})
	b.ParkTurn(id)
	other := b.Open(api.CreateRequest{}) // the node's one pair of hands is free
	runtest.Equal(t, "another session's turn", b.RunTurn(other, "t1", harness.Text("hello")).Text, "meanwhile")
	question := harness.Find[*events.ToolApprovalAsked](b, id)
	runtest.Equal(t, "questions in the history", len(question), 1)
	client := b.OtherHost()
	list, err := client.Approvals(b.Ctx, id)
	runtest.WantError(t, "approvals", err, nil)
	if len(list) != 1 {
		t.Fatalf("approvals: got %v, want one", list)
	}
	got := list[0]
	runtest.Equal(t, "effect", got.Effect, harness.AddEffect)
	runtest.Equal(t, "tool", got.Tool, "add")
	runtest.Equal(t, "arguments", string(got.Args), `{"A":1,"B":2}`)
	runtest.Equal(t, "who asks", got.Plugin, "gate")
	runtest.Equal(t, "question", got.Question, "really add?")
	runtest.Equal(t, "runs before the answer", g.Runs.Load(), 0)
	runtest.Equal(t, "calls begun before the answer", len(harness.Find[*events.ToolCalled](b, id)), 0)

	runtest.WantError(t, "approve", b.OtherHost().Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: harness.AddEffect, Granted: true, By: "ann", Reason: "fine"}), nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.EqualLists(t, "prompt", b.Model.Prompt(2), []string{"user 1+2?", `assistant k:add{"A":1,"B":2}`, "user k=3"})
	runtest.Equal(t, "runs", g.Runs.Load(), 1)
	runtest.Equal(t, "hooks asked", g.Requests.Load(), 1)
	runtest.Equal(t, "answer", *harness.Find[*events.ToolApprovalGiven](b, id)[0], events.ToolApprovalGiven{Effect: harness.AddEffect, Granted: true, By: "ann", Reason: "fine"})
	list, err = client.Approvals(b.Ctx, id)
	runtest.WantError(t, "approvals after the turn", err, nil)
	runtest.Equal(t, "questions after the turn", len(list), 0)
}

// TestSmokeApprovalDenied sends the model the refusal. The hooks after the call are not called.
func TestSmokeApprovalDenied(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"": "the call was not approved", "too dear": "the call was not approved: too dear"} {
		b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("I may not")))
		g := &harness.Approver{}
		b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
		id := b.Open(api.CreateRequest{})
		b.ParkTurn(id)
		runtest.WantError(t, "deny", b.OtherHost().Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: harness.AddEffect, Reason: reason}), nil)
		runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
		runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k=[failed] "+want)
		got := harness.ToolResults(b, id)[0]
		runtest.Equal(t, "outcome", got.Outcome, events.OutcomeFailure)
		runtest.Equal(t, "class", got.Class, plugin.ClassPermissionDenied)
		runtest.Equal(t, "code", got.Code, plugin.CodeDenied)
		runtest.Equal(t, "runs", g.Runs.Load(), 0)
		runtest.Equal(t, "calls begun", len(harness.Find[*events.ToolCalled](b, id)), 0)
	}
}

// TestApprovalElsewhere continues the turn on a node that worked on the session before and has an old state of it
// cached. The node runs one turn at a time.
func TestApprovalElsewhere(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")), harness.DoFirst(func() { close(started); <-release }, harness.Reply(harness.Text("free"))), harness.CallAdd(), harness.Reply(harness.Text("3")))
	g := &harness.Approver{}
	b.StartNodeWith(workers.Config{Concurrency: 1}, plugin.BuilderConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{g.Factory(events.EffectsNonIdempotent)},
	})
	id, other := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
	b.RunTurn(id, "t0", harness.Text("hello"))
	b.StartTurn(other, "t9", harness.Text("keep the first node busy"))
	harness.Receive(b, "the start", started)
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), g.Factory(events.EffectsNonIdempotent))
	b.ParkTurn(id)
	kill()
	close(release)
	runtest.WantError(t, "approve", b.AnswerApproval(b.OtherHost(), id, true), nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "runs", g.Runs.Load(), 1)
	starts := harness.Find[*events.TurnStarted](b, id)
	runtest.Equal(t, "worker of the new attempt", starts[2].Worker, starts[0].Worker)
	runtest.Equal(t, "another worker asked", starts[1].Worker != starts[0].Worker, true)
}

// TestApprovalTwice has two clients answer differently at once, with a node and without one.
func TestApprovalTwice(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"node": false, "no_node": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			b := harness.StartIdle(t, harness.CallAdd(), harness.DoFirst(func() { <-release }, harness.Reply(harness.Text("done"))))
			g := &harness.Approver{}
			_, kill := b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
			id := b.Open(api.CreateRequest{})
			b.ParkTurn(id)
			if idle {
				kill()
			}
			errs := turnAtOnce(b, func(h *session.Host, granted bool) error { return b.AnswerApproval(h, id, granted) })
			won := errs[true] == nil
			runtest.WantError(t, "the first", errs[won], nil)
			runtest.WantError(t, "the second", errs[!won], api.ErrDifferent)
			if name := map[bool]string{true: "yes has granted", false: "no has denied"}[won]; !strings.Contains(fmt.Sprint(errs[!won]), name) {
				t.Errorf("the second: got %v, want %q in it", errs[!won], name)
			}
			runtest.WantError(t, "the same again", b.AnswerApproval(b.OtherHost(), id, won), nil)
			runtest.WantError(t, "the other again", b.AnswerApproval(b.OtherHost(), id, !won), api.ErrDifferent)
			if idle {
				b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
			}
			close(release)
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			answers := harness.Find[*events.ToolApprovalGiven](b, id)
			runtest.Equal(t, "answers in the history", len(answers), 1)
			runtest.Equal(t, "the one that counts", answers[0].Granted, won)
			runtest.Equal(t, "outcome", harness.ToolResults(b, id)[0].Outcome == events.OutcomeSuccess, won)
			runtest.Equal(t, "runs", g.Runs.Load(), map[bool]int64{true: 1}[won])
		})
	}
}

// turnWatcher reads the events of a turn.
type turnWatcher struct {
	b    *harness.System
	read func() (api.SessionEvent, error, bool)
}

// watches reads the events of turn t1 from its first.
func watches(b *harness.System, h *session.Host, id events.SessionID) *turnWatcher {
	b.T.Helper()
	list, err := h.WatchTurn(b.Ctx, id, "t1")
	runtest.WantError(b.T, "watch", err, nil)
	next, stop := iter.Pull2(list)
	b.T.Cleanup(stop)
	return &turnWatcher{b, next}
}

// next is the content of the next event of a type: the approval or its answer.
func (w *turnWatcher) next(typ api.EventType) string {
	w.b.T.Helper()
	for {
		e, err, ok := w.read()
		if err != nil || !ok {
			w.b.T.Fatalf("%s: got the end of the stream, %v", typ, err)
		}
		switch {
		case e.Type != typ:
		case e.Granted != nil:
			return fmt.Sprint(e.Call, " ", e.CallID, " ", e.Name, " granted ", *e.Granted, " by ", e.By)
		default:
			return fmt.Sprintf("%s %s %s %s %s asks %s", e.Call, e.CallID, e.Name, e.Args, e.Plugin, e.Question)
		}
	}
}

// TestApprovalKilledAtRequest kills the node as soon as its request for an approval is recorded.
func TestApprovalKilledAtRequest(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("3")))
	g := &harness.Approver{}
	_, kill := b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("1+2?"))
	b.AwaitState(id, "question", harness.HasAsk)
	kill()
	client := b.OtherHost()
	list, err := client.Approvals(b.Ctx, id)
	runtest.WantError(t, "approvals while no node lives", err, nil)
	runtest.Equal(t, "questions", len(list), 1)
	watchers := []*turnWatcher{watches(b, client, id), watches(b, b.OtherHost(), id)}
	for _, w := range watchers {
		runtest.Equal(t, "asked while no node lives", w.next("tool_approval_asked"), `t1/0/0 k add {"A":1,"B":2} gate asks really add?`)
	}
	runtest.WantError(t, "approve while no node lives", b.AnswerApproval(client, id, true), nil)
	for _, w := range watchers {
		runtest.Equal(t, "answered while no node lives", w.next("tool_approval_given"), "t1/0/0 k add granted true by yes")
	}
	b.StartNodeOn(bustest.Open(t, b.Server), g.Factory(events.EffectsNonIdempotent))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	late := watches(b, b.OtherHost(), id)
	late.next("tool_approval_asked")
	late.next("tool_approval_given")
	runtest.Equal(t, "runs", g.Runs.Load(), 1)
	runtest.Equal(t, "hooks asked", g.Requests.Load(), 1)
	runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k=3")
}

// TestApprovalKilledAnswered kills the node that has the answer: before it records the answer, and after the call
// has started.
func TestApprovalKilledAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effects events.Effects
		started bool // the call has
		runs    int64
		read    string
	}{
		"before":     {events.EffectsNonIdempotent, false, 1, "3"},
		"repeatable": {events.EffectsIdempotent, true, 2, "3"},
		"once":       {events.EffectsNonIdempotent, true, 1, projector.LostText},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("done")))
			g, here := &harness.Approver{}, make(chan struct{})
			var dying atomic.Bool
			killOnce := func(ctx context.Context) error { // once
				if dying.CompareAndSwap(true, false) {
					close(here)
					<-ctx.Done()
				}
				return ctx.Err()
			}
			stack := []plugin.Factory{g.Factory(c.effects)}
			if c.started {
				g.Tool = killOnce
			} else {
				stack = append(stack, harness.ProtocolPlugin(harness.Protocol{Validate: func(ctx context.Context, _ events.TurnInput) error { return killOnce(ctx) }}))
			}
			_, kill := b.StartNodeOn(b.Bus, stack...)
			id := b.Open(api.CreateRequest{})
			b.ParkTurn(id)
			dying.Store(true)
			runtest.WantError(t, "approve", b.AnswerApproval(b.OtherHost(), id, true), nil)
			harness.Receive(b, "here", here)
			kill()
			b.StartNodeOn(bustest.Open(t, b.Server), stack...)
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "runs", g.Runs.Load(), c.runs)
			runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k="+c.read)
			runtest.Equal(t, "answers", len(harness.Find[*events.ToolApprovalGiven](b, id)), 1)
			runtest.Equal(t, "questions", len(harness.Find[*events.ToolApprovalAsked](b, id)), 1)
		})
	}
}

// TestApprovalSeveral has two approvals in one reply. One node dies during the call that was approved first, which
// is the second; the other call still waits.
func TestApprovalSeveral(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "add", `{"A":1,"B":2}`), harness.Call("k2", "add", `{"A":3,"B":4}`)), harness.Reply(harness.Text("done")))
	g, here := &harness.Approver{}, make(chan struct{})
	g.Tool = func(ctx context.Context) error {
		if g.Runs.Load() == 1 {
			close(here)
			<-ctx.Done()
		}
		return ctx.Err()
	}
	_, kill := b.StartNodeOn(b.Bus, g.Factory(events.EffectsIdempotent))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("sums?"))
	b.AwaitState(id, "questions", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) == 2 })
	b.AwaitUnqueued(id)
	answer := func(effect events.EffectID, granted bool) {
		runtest.WantError(t, "answer "+string(effect), b.OtherHost().Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: effect, Granted: granted}), nil)
	}
	answer("t1/0/1", true)
	harness.Receive(b, "here", here)
	kill()
	list, err := b.Approvals(b.Ctx, id)
	runtest.WantError(t, "approvals", err, nil)
	if len(list) != 1 || list[0].Effect != "t1/0/0" {
		t.Errorf("approvals: got %v, want the one of t1/0/0", list)
	}
	b.StartNodeOn(bustest.Open(t, b.Server), g.Factory(events.EffectsIdempotent))
	b.AwaitState(id, "second result", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Calls[1].Done })
	answer("t1/0/0", false)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k1=[failed] the call was not approved k2=7")
	runtest.Equal(t, "runs", g.Runs.Load(), 2)
}

// TestApprovalLarge has large arguments. The list of approvals shows all of them, from the event or from the blob
// store.
func TestApprovalLarge(t *testing.T) {
	t.Parallel()
	args := `{"A":1,"B":2,"Note":"` + strings.Repeat("long ", 64<<10) + `"}`
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "add", args)), harness.Reply(harness.Text("3")))
	g := &harness.Approver{}
	b.StartNodeOn(b.Bus, harness.PluginOf("big", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Ask("so much?")}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct {
			A, B int
			Note string
		},
		) (int, error) {
			g.Runs.Add(1)
			return in.A + in.B, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.ParkTurn(id)
	list, err := b.OtherHost().Approvals(b.Ctx, id)
	runtest.WantError(t, "approvals", err, nil)
	runtest.Equal(t, "arguments are whole", len(list) == 1 && string(list[0].Args) == args, true)
	runtest.WantError(t, "approve", b.AnswerApproval(b.OtherHost(), id, true), nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "runs", g.Runs.Load(), 1)
	stream, err := b.OtherHost().WatchTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "watch", err, nil)
	questions := 0
	for e, err := range stream {
		runtest.WantError(t, "stream", err, nil)
		if e.Type == api.EventApprovalAsked {
			questions++
			runtest.Equal(t, "arguments of the question in the stream are whole", string(e.Args) == args, true)
		}
	}
	runtest.Equal(t, "questions in the stream", questions, 1)
}

// TestApprovalQueued has a turn behind one that waits for an approval. Neither occupies a worker, and both
// continue after the answer, on another node.
func TestApprovalQueued(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("3")), harness.Reply(harness.Text("two")))
	g := &harness.Approver{}
	_, kill := b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
	id := b.Open(api.CreateRequest{})
	b.ParkTurn(id)
	b.StartTurn(id, "t2", harness.Text("and then?"))
	b.AwaitState(id, "t2 in the queue", func(s *projector.State) bool { return len(s.Queue) == 1 })
	b.AwaitUnqueued(id)
	kill()
	b.StartNodeOn(bustest.Open(t, b.Server), g.Factory(events.EffectsNonIdempotent))
	runtest.WantError(t, "approve", b.AnswerApproval(b.OtherHost(), id, true), nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "next", b.AwaitTurn(id, "t2").End, events.EndFinished)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{
		"user 1+2?", `assistant k:add{"A":1,"B":2}`, "user k=3", "assistant 3", "user and then?", "assistant two",
	})
}
