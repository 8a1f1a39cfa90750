package servicetest

import (
	"cmp"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

var turnCases = []testCase{
	{"run", func(b *bench) {
		id := b.open()
		r := b.run(id, "x")
		equal(b, "text", r.Text, "you said x")
		equal(b, "end", r.End, events.EndFinished)
		equal(b, "messages", b.texts(id), []string{"x", "you said x"})
		equal(b, "text again", b.run(id, "x").Text, "you said x")
		equal(b, "messages", b.texts(id), []string{"x", "you said x"})
	}},
	{"receipt", func(b *bench) {
		id := b.open()
		submit := func(turn events.TurnID) events.Seq {
			ctx, receipt := api.WithReceipt(b.ctx, id)
			_, err := b.Submit(ctx, id, asks(turn, "x"))
			b.must("submit", err, nil)
			return receipt.Seq()
		}
		first := submit("t1")
		b.run(id, "x")
		equal(b, "sequence of the repeat", submit("t1"), first)
		equal(b, "sequence of the next is later", submit("t2") > first, true)
		for seen, err := range b.Observe(b.ctx, id, first-1) {
			b.must("observe", err, nil)
			equal(b, "sequence of the request", seen.Seq, first)
			equal(b, "kind", seen.Commit.Events[0].Kind, events.KindTurnRequested)
			break
		}
	}},
	{"run_new_id", func(b *bench) {
		r, err := b.Run(b.ctx, b.open(), asks("", "x"))
		b.must("run", err, nil)
		equal(b, "text", r.Text, "you said x")
	}},
	{"run_different", func(b *bench) {
		id := b.open()
		b.run(id, "x")
		_, err := b.Run(b.ctx, id, asks("t1", "y"))
		b.must("run", err, api.ErrDifferent)
	}},
	{"submit_invalid", func(b *bench) {
		_, err := b.Submit(b.ctx, b.open(), asks("no id", "x"))
		b.must("submit", err, events.ErrInvalidID)
		equal(b, "field", as[*events.FieldError](b, "submit", err).Field, "turn")
	}},
	{"submit_at", func(b *bench) {
		id, later := b.open(), time.Now().Add(time.Hour)
		turn, err := b.SubmitAt(b.ctx, id, time.Now().Add(-time.Minute), asks("t1", "x"))
		b.must("submit", err, nil)
		equal(b, "turn", turn, "t1")
		r, err := b.Await(b.ctx, id, "t1")
		b.must("await", err, nil)
		equal(b, "text", r.Text, "you said x")
		for range 2 {
			_, err = b.SubmitAt(b.ctx, id, later, asks("t2", "y"))
			b.must("submit for later", err, nil)
		}
		_, err = b.SubmitAt(b.ctx, id, later.Add(time.Second), asks("t2", "y"))
		b.must("submit for another time", err, api.ErrDifferent)
		equal(b, "turns", b.state(id).Turns, 1)
		receipt, _, err := b.Cancel(b.ctx, id, "t2", api.CancelRequest{})
		b.must("cancel", err, nil)
		equal(b, "receipt", receipt, api.CancelRequested)
		r, err = b.Await(b.ctx, id, "t2")
		b.must("await", err, nil)
		equal(b, "end", r.End, events.EndCancelled)
		_, err = b.SubmitAt(b.ctx, id, later, asks("no id", "z"))
		b.must("submit without an id", err, events.ErrInvalidID)
		_, err = b.SubmitAt(b.ctx, "nobody", later, asks("t1", "z"))
		b.must("submit to nobody", err, events.ErrNoSession)
	}},
	{"await", func(b *bench) {
		id := b.open()
		b.submit(id, "t1", "x")
		r, err := b.Await(b.ctx, id, "t1")
		b.must("await", err, nil)
		equal(b, "text", r.Text, "you said x")
		_, err = b.Await(b.ctx, id, "t2")
		b.must("await", err, api.ErrUnknownTurn)
	}},
	{"await_waiting", func(b *bench) {
		id := b.open()
		b.hangs(id)
		b.submit(id, "t2", "y")
		b.cancels(id)
		r, err := b.Await(b.ctx, id, "t2")
		b.must("await", err, nil)
		equal(b, "text", r.Text, "you said y")
	}},
	{"assembled", func(b *bench) {
		id := b.open()
		b.run(id, "hello")
		a, err := b.AssembledTurn(b.ctx, id, "t1")
		b.must("assembled", err, nil)
		equal(b, "outcome", a.Outcome, api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: "you said hello"})
		_, err = b.AssembledTurn(b.ctx, id, "t2")
		b.must("assembled", err, api.ErrUnknownTurn)
	}},
	{"stream", func(b *bench) {
		turn, list, err := b.StartTurnStream(b.ctx, b.open(), asks("t1", "x"))
		b.must("stream", err, nil)
		equal(b, "turn", turn, "t1")
		shown, last := "", api.EventType("")
		for e, err := range list {
			b.must("stream", err, nil)
			if last = e.Type; e.Type == api.EventTextDelta {
				shown += e.Content
			}
		}
		equal(b, "text", shown, "you said x")
		equal(b, "last", last, api.EventDone)
	}},
	{"cancel", func(b *bench) {
		id := b.open()
		b.hangs(id)
		receipt, evidence, err := b.Cancel(b.ctx, id, "t1", api.CancelRequest{ID: "c1", Origin: "user", Reason: "enough"})
		b.must("cancel", err, nil)
		equal(b, "receipt", receipt, api.CancelRequested)
		equal(b, "evidence", evidence, api.CancelRequest{ID: "c1", Origin: cmp.Or(b.caller, "user"), Reason: "enough"})
		r, err := b.Await(b.ctx, id, "t1")
		b.must("await", err, nil)
		equal(b, "end", r.End, events.EndCancelled)
		receipt, _, err = b.Cancel(b.ctx, id, "t1", api.CancelRequest{ID: "c2"})
		b.must("cancel", err, nil)
		equal(b, "receipt", receipt, api.CancelCompletionWon)
		_, _, err = b.Cancel(b.ctx, id, "t9", api.CancelRequest{})
		b.must("cancel", err, api.ErrUnknownTurn)
	}},
	{"inject", func(b *bench) {
		id := b.open()
		input, err := b.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: text("by the way")})
		b.must("inject", err, nil)
		equal(b, "input", input, "i1")
		_, err = b.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: text("by the way")})
		b.must("inject again", err, nil)
		_, err = b.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: text("else")})
		b.must("inject else", err, api.ErrDifferent)
		equal(b, "inputs", len(b.state(id).Inputs), 1)
		b.run(id, "x")
		n := 0
		for _, said := range b.texts(id) {
			if said == "by the way" {
				n++
			}
		}
		equal(b, "taken", n, 1)
	}},
	{"cancel_inputs", func(b *bench) {
		id := b.open()
		for _, in := range []events.InputID{"i1", "i2", "i3"} {
			_, err := b.Inject(b.ctx, id, api.InjectRequest{ID: in, Parts: text("x")})
			b.must("inject", err, nil)
		}
		got, err := b.CancelInputs(b.ctx, id, "i1", "i9")
		b.must("cancel", err, nil)
		equal(b, "receipts", got, []api.InputReceipt{api.InputCancelled, api.InputNotFound})
		got, err = b.CancelInputs(b.ctx, id, "i1")
		b.must("cancel", err, nil)
		equal(b, "receipts", got, []api.InputReceipt{api.InputAlreadyCancelled})
		receipt, list, err := b.CancelInputsFrom(b.ctx, id, "i2")
		b.must("cancel from", err, nil)
		equal(b, "receipt", receipt, api.InputCancelled)
		equal(b, "cancelled", list, []events.InputID{"i2", "i3"})
		equal(b, "inputs", len(b.state(id).Inputs), 0)
	}},
	{"large_input", func(b *bench) { // in blobs, and within one request
		id := b.open()
		large := make([]byte, 200<<10)
		for i := range large {
			large[i] = 'a'
		}
		_, err := b.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: text(string(large))})
		b.must("inject", err, nil)
		s := b.await(id, "input", func(s *projector.State) bool { return len(s.Inputs) == 1 })
		equal(b, "size", s.Inputs[0].Parts[0].Blob.Size, int64(len(large)))
	}},
}
