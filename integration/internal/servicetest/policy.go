package servicetest

import (
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// busy is a turn request with a policy.
func busy(turn events.TurnID, said string, policy api.WhenBusy) api.TurnRequest {
	req := asks(turn, said)
	req.WhenBusy = policy
	return req
}

// meets requests turn t2, with the text y and a policy, while another turn runs.
func (b *bench) meets(id events.SessionID, policy api.WhenBusy) {
	b.t.Helper()
	got, err := b.Submit(b.ctx, id, busy("t2", "y", policy))
	b.must("submit", err, nil)
	equal(b, "turn", got, "t2")
}

// waits reports whether turn t2 is in the queue.
func waits(s *projector.State) bool {
	return slices.ContainsFunc(s.Queue, func(q projector.QueuedTurn) bool { return q.ID == "t2" })
}

var policyCases = []testCase{
	{"policy_idle", func(b *bench) {
		for _, policy := range []api.WhenBusy{
			"", api.WhenBusyEnqueue, api.WhenBusyInject, api.WhenBusyReject, api.WhenBusyInterrupt, api.WhenBusyBranch,
		} {
			id := b.open()
			r, err := b.Run(b.ctx, id, busy("t1", "x", policy))
			b.must("run "+string(policy), err, nil)
			equal(b, "end "+string(policy), r.End, events.EndFinished)
			equal(b, "messages "+string(policy), b.texts(id), []string{"x", "you said x"})
		}
	}},
	{"policy_invalid", func(b *bench) {
		id := b.open()
		_, err := b.Submit(b.ctx, id, busy("t1", "x", "hurry"))
		b.must("unknown", err, events.ErrInvalid)
		if f := as[*events.FieldError](b, "unknown", err); !strings.HasSuffix(f.Field, "busy") { // the field is when_busy over HTTP
			b.t.Errorf("field: got %v, want busy", f)
		}
		_, err = b.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Continue: true}, WhenBusy: api.WhenBusyInject})
		b.must("inject what is no message", err, events.ErrInvalid)
		equal(b, "turns", b.state(id).Turns, 0)
	}},
	{"policy_enqueue", func(b *bench) {
		id := b.open()
		b.hangs(id)
		b.meets(id, api.WhenBusyEnqueue)
		s := b.await(id, "waiting turn", waits)
		equal(b, "running", s.Turn().ID, "t1")
		b.cancels(id)
		r, err := b.Await(b.ctx, id, "t2")
		b.must("await", err, nil)
		equal(b, "end", r.End, events.EndFinished)
		equal(b, "messages", b.texts(id), []string{"hang", "y", "you said y"})
	}},
	{"policy_inject", func(b *bench) {
		id := b.parks("later")
		b.meets(id, api.WhenBusyInject)
		b.await(id, "waiting turn", waits)
		b.must("resolve", b.ResolveTool(b.ctx, id, theCall, events.ToolResult{Text: "done"}), nil)
		r, err := b.Await(b.ctx, id, "t2")
		b.must("await", err, nil)
		equal(b, "end", r.End, events.EndInjected)
		equal(b, "taken in by", r.By, "t1")
		r, err = b.Await(b.ctx, id, "t1")
		b.must("await", err, nil)
		equal(b, "text", r.Text, "you said y")
		equal(b, "turns", b.state(id).Turns, 1)
	}},
	{"policy_reject", func(b *bench) {
		id := b.open()
		b.hangs(id)
		r, err := b.Run(b.ctx, id, busy("t2", "y", api.WhenBusyReject))
		b.must("run", err, api.ErrTurnRunning)
		equal(b, "rejected", *as[*api.TurnRejectedError](b, "run", err), api.TurnRejectedError{Turn: "t2", By: "t1"})
		equal(b, "end", r.End, events.EndRejected)
		_, err = b.Await(b.ctx, id, "t2")
		equal(b, "rejected", *as[*api.TurnRejectedError](b, "await", err), api.TurnRejectedError{Turn: "t2", By: "t1"})
		equal(b, "running", b.state(id).Turn().ID, "t1")
		b.cancels(id)
		_, err = b.Run(b.ctx, id, busy("t2", "y", api.WhenBusyReject)) // a repeat is refused too
		b.must("run again", err, api.ErrTurnRunning)
		equal(b, "messages", b.texts(id), []string{"hang"})
	}},
	{"policy_interrupt", func(b *bench) {
		id := b.open()
		b.hangs(id)
		r, err := b.Run(b.ctx, id, busy("t2", "y", api.WhenBusyInterrupt))
		b.must("run", err, nil)
		equal(b, "end", r.End, events.EndFinished)
		r, err = b.Await(b.ctx, id, "t1")
		b.must("await", err, nil)
		equal(b, "end of the other", r.End, events.EndCancelled)
		equal(b, "messages", b.texts(id), []string{"hang", "y", "you said y"})
	}},
	{"policy_branch", func(b *bench) {
		id := b.open("a")
		b.hangs(id)
		r, err := b.Run(b.ctx, id, busy("t2", "y", api.WhenBusyBranch))
		b.must("run", err, nil)
		equal(b, "end", r.End, events.EndBranched)
		equal(b, "because of", r.By, "t1")
		there, err := b.Await(b.ctx, r.Session, "t2")
		b.must("await there", err, nil)
		equal(b, "end there", there.End, events.EndFinished)
		equal(b, "messages there", b.texts(r.Session), []string{"a", "y", "you said y"})
		equal(b, "running", b.state(id).Turn().ID, "t1")
		b.cancels(id)
		equal(b, "messages", b.texts(id), []string{"a", "hang"})
	}},
}
