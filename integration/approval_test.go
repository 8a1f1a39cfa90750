package integration

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
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// asker is a plugin whose tool "add" must be approved; other tools of the test's need not.
type asker struct {
	asked atomic.Int64                    // how often the hook was
	runs  atomic.Int64                    // of the tool
	tool  func(ctx context.Context) error // what a run does first; may be nil
}

func (g *asker) factory(effects events.Effects) plugin.Factory {
	return declares("gate", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "add" {
				return nil, nil
			}
			g.asked.Add(1)
			return []plugin.Directive{plugin.Ask("really add?")}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "add", Effects: effects}, func(ctx context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) {
			g.runs.Add(1)
			if g.tool != nil {
				if err := g.tool(ctx); err != nil {
					return 0, err
				}
			}
			return in.A + in.B, nil
		})
	})
}

// theCall is what the model calls first in these tests.
func theCall() step { return reply(call("k", "add", `{"A":1,"B":2}`)) }

const theEffect = events.EffectID("t1/0/0")

// parks runs turn t1 until it waits for an approval and no worker has it.
func (b *bundle) parks(id events.SessionID) {
	b.t.Helper()
	b.submit(id, "t1", text("1+2?"))
	b.await(id, "question", hasAsk)
	b.unqueued(id)
}

// approve answers the question as "yes" or "no".
func (b *bundle) approve(h *session.Host, id events.SessionID, granted bool) error {
	by := map[bool]string{true: "yes", false: "no"}[granted]
	return h.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: theEffect, Granted: granted, By: by})
}

// atOnce lets two clients do something, each on a connection of its own.
func (b *bundle) atOnce(do func(h *session.Host, yes bool) error) map[bool]error {
	b.t.Helper()
	var no, yes error
	one, two := b.otherHost(), b.otherHost()
	var clients sync.WaitGroup
	clients.Go(func() { no = do(one, false) })
	clients.Go(func() { yes = do(two, true) })
	clients.Wait()
	return map[bool]error{false: no, true: yes}
}

func resultsIn(b *bundle, id events.SessionID) []events.ToolResult {
	var list []events.ToolResult
	for _, p := range find[*events.ToolReturned](b, id) {
		list = append(list, p.Results...)
	}
	return list
}

// TestApprovalAsked parks a turn, over which no worker is busy, and lets any
// client see and answer the question.
func TestApprovalAsked(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, theCall(), reply(text("meanwhile")), reply(text("3")))
	g := &asker{}
	b.nodeWith(workers.Config{Concurrency: 1}, plugin.HostConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{g.factory(events.EffectsNonIdempotent)},
	})
	id := b.open(api.CreateRequest{})
	b.parks(id)
	other := b.open(api.CreateRequest{}) // the node's one pair of hands is free
	equal(t, "another session's turn", b.run(other, "t1", text("hello")).Text, "meanwhile")
	asked := find[*events.ToolApprovalAsked](b, id)
	equal(t, "questions in the history", len(asked), 1)
	client := b.otherHost()
	list, err := client.Approvals(b.ctx, id)
	must(t, "approvals", err, nil)
	if len(list) != 1 {
		t.Fatalf("approvals: got %v, want one", list)
	}
	got := list[0]
	equal(t, "effect", got.Effect, theEffect)
	equal(t, "tool", got.Tool, "add")
	equal(t, "arguments", string(got.Args), `{"A":1,"B":2}`)
	equal(t, "who asks", got.Plugin, "gate")
	equal(t, "question", got.Question, "really add?")
	equal(t, "runs before the answer", g.runs.Load(), 0)
	equal(t, "calls begun before the answer", len(find[*events.ToolCalled](b, id)), 0)

	must(t, "approve", b.otherHost().Approve(b.ctx, id, events.ToolApprovalGiven{Effect: theEffect, Granted: true, By: "ann", Reason: "fine"}), nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "prompt", b.model.prompt(2), []string{"user 1+2?", `assistant k:add{"A":1,"B":2}`, "user k=3"})
	equal(t, "runs", g.runs.Load(), 1)
	equal(t, "hooks asked", g.asked.Load(), 1)
	equal(t, "answer", *find[*events.ToolApprovalGiven](b, id)[0], events.ToolApprovalGiven{Effect: theEffect, Granted: true, By: "ann", Reason: "fine"})
	list, err = client.Approvals(b.ctx, id)
	must(t, "approvals after the turn", err, nil)
	equal(t, "questions after the turn", len(list), 0)
}

// TestApprovalDenied tells the model of the refusal. The hooks after the call do not see it.
func TestApprovalDenied(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"": "the call was not approved", "too dear": "the call was not approved: too dear"} {
		b := setupIdle(t, theCall(), reply(text("I may not")))
		g := &asker{}
		b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
		id := b.open(api.CreateRequest{})
		b.parks(id)
		must(t, "deny", b.otherHost().Approve(b.ctx, id, events.ToolApprovalGiven{Effect: theEffect, Reason: reason}), nil)
		equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
		equal(t, "what the model reads", b.model.prompt(1)[2], "user k=[failed] "+want)
		got := resultsIn(b, id)[0]
		equal(t, "outcome", got.Outcome, events.OutcomeFailure)
		equal(t, "class", got.Class, plugin.ClassPermissionDenied)
		equal(t, "code", got.Code, plugin.CodeDenied)
		equal(t, "runs", g.runs.Load(), 0)
		equal(t, "calls begun", len(find[*events.ToolCalled](b, id)), 0)
	}
}

// TestApprovalElsewhere lets a node go on that worked on the session before,
// and has in mind how it was then. It has one pair of hands.
func TestApprovalElsewhere(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, reply(text("hi")), first(func() { close(begun); <-release }, reply(text("free"))), theCall(), reply(text("3")))
	g := &asker{}
	b.nodeWith(workers.Config{Concurrency: 1}, plugin.HostConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{g.factory(events.EffectsNonIdempotent)},
	})
	id, other := b.open(api.CreateRequest{}), b.open(api.CreateRequest{})
	b.run(id, "t0", text("hello"))
	b.submit(other, "t9", text("keep the first node busy"))
	receive(b, "begun", begun)
	_, kill := b.nodeOn(bustest.Open(t, b.server), g.factory(events.EffectsNonIdempotent))
	b.parks(id)
	kill()
	close(release)
	must(t, "approve", b.approve(b.otherHost(), id, true), nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "runs", g.runs.Load(), 1)
	started := find[*events.TurnStarted](b, id)
	equal(t, "who goes on", started[2].Worker, started[0].Worker)
	equal(t, "who asked is another", started[1].Worker != started[0].Worker, true)
}

// TestApprovalTwice has two clients answer differently at once: while a node
// takes the answers, and while none does.
func TestApprovalTwice(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"node": false, "no_node": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			b := setupIdle(t, theCall(), first(func() { <-release }, reply(text("done"))))
			g := &asker{}
			_, kill := b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
			id := b.open(api.CreateRequest{})
			b.parks(id)
			if idle {
				kill()
			}
			errs := b.atOnce(func(h *session.Host, granted bool) error { return b.approve(h, id, granted) })
			won := errs[true] == nil
			must(t, "the first", errs[won], nil)
			must(t, "the second", errs[!won], api.ErrDifferent)
			if name := map[bool]string{true: "yes has granted", false: "no has denied"}[won]; !strings.Contains(fmt.Sprint(errs[!won]), name) {
				t.Errorf("the second: got %v, want %q in it", errs[!won], name)
			}
			must(t, "the same again", b.approve(b.otherHost(), id, won), nil)
			must(t, "the other again", b.approve(b.otherHost(), id, !won), api.ErrDifferent)
			if idle {
				b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
			}
			close(release)
			equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
			given := find[*events.ToolApprovalGiven](b, id)
			equal(t, "answers in the history", len(given), 1)
			equal(t, "the one that counts", given[0].Granted, won)
			equal(t, "outcome", resultsIn(b, id)[0].Outcome == events.OutcomeSuccess, won)
			equal(t, "runs", g.runs.Load(), map[bool]int64{true: 1}[won])
		})
	}
}

// turnWatcher reads the events of a turn.
type turnWatcher struct {
	b    *bundle
	read func() (api.SessionEvent, error, bool)
}

// watches reads the events of turn t1 from its first.
func (b *bundle) watches(h *session.Host, id events.SessionID) *turnWatcher {
	b.t.Helper()
	list, err := h.WatchTurn(b.ctx, id, "t1")
	must(b.t, "watch", err, nil)
	next, stop := iter.Pull2(list)
	b.t.Cleanup(stop)
	return &turnWatcher{b, next}
}

// next is what the next event of a type says of a question or its answer.
func (w *turnWatcher) next(typ api.EventType) string {
	w.b.t.Helper()
	for {
		e, err, ok := w.read()
		if err != nil || !ok {
			w.b.t.Fatalf("%s: got the end of the stream, %v", typ, err)
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

// TestApprovalKilledAsking kills the node as soon as its question is seen.
func TestApprovalKilledAsking(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, theCall(), reply(text("3")))
	g := &asker{}
	_, kill := b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("1+2?"))
	b.await(id, "question", hasAsk)
	kill()
	client := b.otherHost()
	list, err := client.Approvals(b.ctx, id)
	must(t, "approvals while no node lives", err, nil)
	equal(t, "questions", len(list), 1)
	watchers := []*turnWatcher{b.watches(client, id), b.watches(b.otherHost(), id)}
	for _, w := range watchers {
		equal(t, "asked while no node lives", w.next("tool_approval_asked"), `t1/0/0 k add {"A":1,"B":2} gate asks really add?`)
	}
	must(t, "approve while no node lives", b.approve(client, id, true), nil)
	for _, w := range watchers {
		equal(t, "answered while no node lives", w.next("tool_approval_given"), "t1/0/0 k add granted true by yes")
	}
	b.nodeOn(bustest.Open(t, b.server), g.factory(events.EffectsNonIdempotent))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	late := b.watches(b.otherHost(), id)
	late.next("tool_approval_asked")
	late.next("tool_approval_given")
	equal(t, "runs", g.runs.Load(), 1)
	equal(t, "hooks asked", g.asked.Load(), 1)
	equal(t, "what the model reads", b.model.prompt(1)[2], "user k=3")
}

// TestApprovalKilledAnswered kills the node that has the answer: before it
// records it, and when the call has begun.
func TestApprovalKilledAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effects events.Effects
		begun   bool // the call has
		runs    int64
		read    string
	}{
		"before":     {events.EffectsNonIdempotent, false, 1, "3"},
		"repeatable": {events.EffectsIdempotent, true, 2, "3"},
		"once":       {events.EffectsNonIdempotent, true, 1, projector.LostText},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, theCall(), reply(text("done")))
			g, here := &asker{}, make(chan struct{})
			var dying atomic.Bool
			dies := func(ctx context.Context) error { // once
				if dying.CompareAndSwap(true, false) {
					close(here)
					<-ctx.Done()
				}
				return ctx.Err()
			}
			stack := []plugin.Factory{g.factory(c.effects)}
			if c.begun {
				g.tool = dies
			} else {
				stack = append(stack, speaks(protocol{validate: func(ctx context.Context, _ events.TurnInput) error { return dies(ctx) }}))
			}
			_, kill := b.nodeOn(b.bus, stack...)
			id := b.open(api.CreateRequest{})
			b.parks(id)
			dying.Store(true)
			must(t, "approve", b.approve(b.otherHost(), id, true), nil)
			receive(b, "here", here)
			kill()
			b.nodeOn(bustest.Open(t, b.server), stack...)
			equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
			equal(t, "runs", g.runs.Load(), c.runs)
			equal(t, "what the model reads", b.model.prompt(1)[2], "user k="+c.read)
			equal(t, "answers", len(find[*events.ToolApprovalGiven](b, id)), 1)
			equal(t, "questions", len(find[*events.ToolApprovalAsked](b, id)), 1)
		})
	}
}

// TestApprovalNotAsked answers what nobody asked.
func TestApprovalNotAsked(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, theCall(), reply(text("3")))
	g := &asker{}
	b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
	id := b.open(api.CreateRequest{})
	must(t, "before any turn", b.approve(b.Host, id, true), api.ErrNotAsked)
	must(t, "in no session", b.approve(b.Host, "nobody", true), events.ErrNoSession)
	b.parks(id)
	before := b.last(id)
	for _, effect := range []events.EffectID{"t1/0/1", "t1/0", "t2/0/0", ""} {
		err := b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: effect, Granted: true})
		must(t, "effect "+string(effect), err, api.ErrNotAsked)
	}
	equal(t, "commits", b.last(id), before)
	must(t, "approve", b.approve(b.Host, id, true), nil)
	b.ended(id, "t1")
	ended := b.last(id)
	must(t, "the same after the turn", b.approve(b.Host, id, true), nil)
	must(t, "another after the turn", b.approve(b.otherHost(), id, false), api.ErrDifferent)
	err := b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: "t1/0/1"})
	must(t, "another call after the turn", err, api.ErrNotAsked)
	equal(t, "commits after the turn", b.last(id), ended)
}

// TestApprovalSeveral has two questions in one reply. One node dies over the
// call that was answered first, which is the second; the other call waits on.
func TestApprovalSeveral(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k1", "add", `{"A":1,"B":2}`), call("k2", "add", `{"A":3,"B":4}`)), reply(text("done")))
	g, here := &asker{}, make(chan struct{})
	g.tool = func(ctx context.Context) error {
		if g.runs.Load() == 1 {
			close(here)
			<-ctx.Done()
		}
		return ctx.Err()
	}
	_, kill := b.nodeOn(b.bus, g.factory(events.EffectsIdempotent))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("sums?"))
	b.await(id, "questions", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) == 2 })
	b.unqueued(id)
	answer := func(effect events.EffectID, granted bool) {
		must(t, "answer "+string(effect), b.otherHost().Approve(b.ctx, id, events.ToolApprovalGiven{Effect: effect, Granted: granted}), nil)
	}
	answer("t1/0/1", true)
	receive(b, "here", here)
	kill()
	list, err := b.Approvals(b.ctx, id)
	must(t, "approvals", err, nil)
	if len(list) != 1 || list[0].Effect != "t1/0/0" {
		t.Errorf("approvals: got %v, want the one of t1/0/0", list)
	}
	b.nodeOn(bustest.Open(t, b.server), g.factory(events.EffectsIdempotent))
	b.await(id, "second result", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Calls[1].Done })
	answer("t1/0/0", false)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "what the model reads", b.model.prompt(1)[2], "user k1=[failed] the call was not approved k2=7")
	equal(t, "runs", g.runs.Load(), 2)
}

// TestApprovalLarge shows whoever answers all of the arguments, wherever they are kept.
func TestApprovalLarge(t *testing.T) {
	t.Parallel()
	args := `{"A":1,"B":2,"Note":"` + strings.Repeat("long ", 64<<10) + `"}`
	b := setupIdle(t, reply(call("k", "add", args)), reply(text("3")))
	g := &asker{}
	b.nodeOn(b.bus, declares("big", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Ask("so much?")}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct {
			A, B int
			Note string
		},
		) (int, error) {
			g.runs.Add(1)
			return in.A + in.B, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	b.parks(id)
	list, err := b.otherHost().Approvals(b.ctx, id)
	must(t, "approvals", err, nil)
	equal(t, "arguments are whole", len(list) == 1 && string(list[0].Args) == args, true)
	must(t, "approve", b.approve(b.otherHost(), id, true), nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "runs", g.runs.Load(), 1)
}

// TestApprovalQueued has a turn behind one that waits. No worker is busy with
// either, and both go on with the answer, on another node.
func TestApprovalQueued(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, theCall(), reply(text("3")), reply(text("two")))
	g := &asker{}
	_, kill := b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
	id := b.open(api.CreateRequest{})
	b.parks(id)
	b.submit(id, "t2", text("and then?"))
	b.await(id, "t2 in the queue", func(s *projector.State) bool { return len(s.Queue) == 1 })
	b.unqueued(id)
	kill()
	b.nodeOn(bustest.Open(t, b.server), g.factory(events.EffectsNonIdempotent))
	must(t, "approve", b.approve(b.otherHost(), id, true), nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "next", b.ended(id, "t2").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{
		"user 1+2?", `assistant k:add{"A":1,"B":2}`, "user k=3", "assistant 3", "user and then?", "assistant two",
	})
}
