package servicetest

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

var watchCases = []testCase{
	{"observe", func(b *bench) {
		id := b.open("a")
		b.run(id, "x")
		last := b.state(id).Seq
		next := events.Seq(1)
		for seen, err := range b.Observe(b.ctx, id, 0) {
			b.must("observe", err, nil)
			if seen.Commit == nil {
				continue
			}
			equal(b, "sequence", seen.Seq, next)
			if next++; seen.Seq == last {
				break
			}
		}
		for seen, err := range b.Observe(b.ctx, id, last-1) {
			b.must("observe", err, nil)
			equal(b, "sequence after the cursor", seen.Seq, last)
			break
		}
	}},
	{"observe_beyond", func(b *bench) {
		id := b.open()
		last := b.state(id).Seq
		for _, err := range b.Observe(b.ctx, id, last+5) {
			equal(b, "error", *as[*api.CursorError](b, "observe", err), api.CursorError{Session: id, Cursor: last + 5, Last: last})
		}
	}},
	{"observe_unknown", func(b *bench) {
		for _, err := range b.Observe(b.ctx, "nobody", 0) {
			b.must("observe", err, events.ErrNoSession)
		}
	}},
	{"observe_until_cancelled", func(b *bench) {
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(b.ctx)
		defer cancel(nil)
		id := b.open()
		for _, err := range b.Observe(ctx, id, 0) {
			if err != nil {
				b.must("observe", err, enough)
			}
			cancel(enough)
		}
	}},
	{"late_joiner", func(b *bench) {
		id := b.open()
		b.submit(id, "t1", "hang")
		b.await(id, "running turn", func(s *projector.State) bool { return s.Turn() != nil })
		shown := ""
		for seen, err := range b.Observe(b.ctx, id, 0) {
			b.must("observe", err, nil)
			if seen.Delta != nil {
				shown += seen.Delta.Text
			}
			if shown == "you said hang" {
				break
			}
		}
		b.cancels(id)
	}},
}
