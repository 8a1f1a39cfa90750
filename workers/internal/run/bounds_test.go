package run

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestRefusedMonitorTurn expects one end of the turn for a monitor's line when the worker lacks the session's
// provider.
func TestRefusedMonitorTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	cfg := b.State().Config
	cfg.Provider = "gone"
	b.Append("", &events.SessionConfigured{Config: cfg})
	b.Append("", &events.MonitorRegistered{Spec: events.MonitorSpec{ID: "m1", Command: "tail", Wake: events.WakeQueueTurn}})
	b.Append("", &events.InputInjected{Input: "line1", Role: events.RoleUser, Parts: api.Ask("a line").Input.Parts},
		&events.MonitorReported{Monitor: "m1", Lines: []events.MonitorLine{{Sequence: 1, Text: "a line", Wake: "line1"}}})
	if before := b.State(); !turn.NeedsWorker(before, 0) {
		t.Fatal("the line asks for no turn")
	}
	once := func() {
		b.publish()
		r := newRun(p, sid, bus.ClassTurn, b.FetchWake(p.cfg.Bus, bus.ClassTurn))
		p.runs[sid] = r
		p.work(t.Context(), r)
	}
	once()
	after := b.State()
	records, err := after.Records()
	if err != nil || len(records) != 1 || records[0].End != events.EndFailed {
		t.Errorf("got %+v, %v, want one turn that failed", records, err)
	}
	if turn.NeedsWorker(after, 0) || len(after.Inputs) != 0 {
		t.Errorf("needs a worker: %v, inputs %d, want the input ended with the turn", turn.NeedsWorker(after, 0), len(after.Inputs))
	}
	once()
	if got := b.State().Seq; got != after.Seq {
		t.Errorf("once more: got to %d, want %d", got, after.Seq)
	}
}

// calls is a model that requests n calls of the tool x, and then replies.
func calls(n int) scripted.Script {
	return func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Iteration > 0 {
			return says("done")(context.Background(), req)
		}
		resp := llm.Response{Stop: events.StopToolUse}
		for i := range n {
			resp.Parts = append(resp.Parts, events.Part{Kind: events.PartToolCall, Call: events.CallID(fmt.Sprint("k", i)), Tool: "x", Args: []byte("{}")})
		}
		return scripted.Answer{Response: resp}, nil
	}
}

// TestResultsDueTogether resolves more results at one time than fit a commit.
func TestResultsDueTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ calls, bytes int }{"large": {20, 60 << 10}, "many": {600, 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, tools := setup(t), plugin.NewTools()
			plugin.AddTool(tools, plugin.Tool{Name: "x", Effects: events.EffectsNone}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
				c.CompletionKey()
				return plugin.Result{Pending: true}, nil
			})
			b.start(b.pool("w1", 1, calls(c.calls), tools))
			b.submit("t1")
			at := time.Now().Add(3 * time.Second)
			for i := range c.calls {
				result := events.ToolResult{Call: int64(i), Outcome: events.OutcomeSuccess, Text: strings.Repeat("x", c.bytes)}
				effect := turn.ToolEffect("t1", 0, int64(i))
				bustest.Eventually(t, "the history has the calls", func() bool {
					return b.Host.ResolveAt(t.Context(), sid, effect, at, result) == nil
				})
			}
			if r := b.await("t1"); r.End != events.EndFinished || r.ToolCalls != int64(c.calls) {
				t.Errorf("got %s after %d calls, want it finished after %d", r.End, r.ToolCalls, c.calls)
			}
		})
	}
}

// TestManyCalls cancels a turn with the maximum of calls in one reply. It expects the end of a turn with more calls,
// or with ids and names that are too long together.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	b, tools := setup(t), plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "x", Effects: events.EffectsNonIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	n, id := turn.MaxCalls, ""
	b.start(b.pool("w1", 1, func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		answer, err := calls(n)(ctx, req)
		for i := range answer.Response.Parts {
			if p := &answer.Response.Parts[i]; p.Kind == events.PartToolCall {
				p.Call += events.CallID(id)
			}
		}
		return answer, err
	}, tools))
	b.submit("t1")
	bustest.Eventually(t, "the turn has a reply", func() bool {
		tn := b.State().Turn()
		return tn != nil && tn.Replied
	})
	if _, _, err := b.Host.Cancel(t.Context(), sid, "t1", api.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	if r := b.await("t1"); r.End != events.EndCancelled {
		t.Errorf("got %s, want it cancelled", r.End)
	}
	refused := func(name events.TurnID) {
		t.Helper()
		b.submit(name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r, _ := b.Host.Await(ctx, sid, name); r.Issue.Code != "too_many_calls" {
			t.Errorf("%s: got %s, %+v, want it to end with too_many_calls", name, r.End, r.Issue)
		}
	}
	n++
	refused("t2")
	n, id = turn.MaxCalls, strings.Repeat("x", turn.MaxCallsBytes/turn.MaxCalls-100) // a result takes more than a call
	refused("t3")
}

// TestClockAhead starts a turn three times on a worker whose clock is an hour ahead and which dies. A worker with a
// right clock then runs the turn.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("t1")
	for i := range 3 {
		c := &events.Commit{
			ID: events.CommitID(fmt.Sprint("c", i)), Session: sid, At: events.MillisOf(time.Now().Add(time.Hour)),
			Actor:  events.Actor{Kind: events.ActorNode, ID: "fast"},
			Events: []events.Event{events.Of("t1", &events.TurnStarted{Attempt: int64(i + 1), Worker: "fast"})},
		}
		if _, err := b.Bus.Log().Append(t.Context(), c, b.State().Seq); err != nil {
			t.Fatal(err)
		}
	}
	p := b.pool("w1", 1, says("hi"), nil)
	p.cfg.Retry.Attempts, p.cfg.Retry.Base, p.cfg.Retry.Max = 8, time.Second, time.Minute
	p.trials.Retry = p.cfg.Retry
	b.start(p)
	if r := b.await("t1"); r.End != events.EndFinished {
		t.Errorf("got %s, %+v, want it finished", r.End, r.Issue)
	}
}

// TestOffersTakeRoom offers wakes to a worker that is connected and does not respond: the offers count against the
// capacity of the pool.
func TestOffersTakeRoom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	frozen, err := b.Bus.Conn().SubscribeSync("lash.ask.frozen")
	if err == nil {
		err = b.Bus.Conn().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	const n, room = 24, 2
	for i := range n {
		id := events.SessionID(fmt.Sprint("offered", i))
		if _, err := b.Host.Create(t.Context(), sessionRequest(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Host.Submit(t.Context(), id, sessionAsk("t1")); err != nil {
			t.Fatal(err)
		}
		if err := b.Bus.StoreWake(t.Context(), bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{Worker: "frozen"}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	b.start(b.pool("w1", room, says("hi"), nil))
	for i := range n {
		if _, err := frozen.NextMsg(time.Minute); err != nil {
			t.Fatalf("offer %d: %v", i, err)
		}
	}
	if took, least := time.Since(began), (n/room-1)*250*time.Millisecond; took < least { // the wait of each offer
		t.Errorf("got %d offers in %v, want no more than %d at a time, which takes at least %v", n, took, room, least)
	}
	for i := range n {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := b.Host.Await(ctx, events.SessionID(fmt.Sprint("offered", i)), "t1")
		cancel()
		if err != nil {
			t.Errorf("turn %d: %v", i, err)
		}
	}
}
