package harness

import (
	"context"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/decision"
)

// VerifyHistory verifies the whole history of a session.
func VerifyHistory(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v := projector.NewVerifier(id)
	for entry, err := range b.Log().Read(ctx, id, 1) {
		var found []projector.Violation
		if err == nil {
			found, err = follow.Verify(ctx, b, v, entry)
		}
		if err != nil {
			t.Error(err)
			return
		}
		for _, violation := range found {
			t.Errorf("%s: %+v", id, violation)
		}
	}
	for _, violation := range v.Check() {
		t.Errorf("%s: %+v", id, violation)
	}
}

// Verify verifies every commit of a history.
func (b *System) Verify(id events.SessionID) {
	b.T.Helper()
	VerifyHistory(b.T, b.Bus, id)
}

// CompareDecisions decides every step of a history again: today's machine must decide what is recorded.
func CompareDecisions(ctx context.Context, t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	s := projector.New(id)
	for entry, err := range b.Log().Read(ctx, id, 1) {
		if err == nil {
			err = follow.Prepare(ctx, b, s, entry.Commit)
		}
		if err != nil {
			return // the test damaged the history, or the servers
		}
		_, diff, err := decision.Hooks(nil).Compare(ctx, s, entry)
		if err != nil {
			t.Errorf("compare decisions of %s at %d: %v", id, entry.Seq, err)
			return
		}
		if diff != nil {
			t.Errorf("decisions of %s: got a difference at event %s of turn %s after the input %q: recorded %s, this program %s %s",
				id, diff.ID, diff.Turn, diff.Input, shown(diff.Recorded), shown(diff.Decided), diff.Problem)
			return
		}
		if s.Apply(entry) != nil {
			return
		}
		if entry.Seq == 1 && follow.Complete(ctx, b, s) != nil {
			return
		}
	}
}

func shown(ev *events.Event) string {
	if ev == nil {
		return "nothing"
	}
	return string(ev.Kind) + " " + eventjson.Value{V: ev.Payload}.String()
}

// compareAll compares the decisions of all sessions of a bus, after the test.
func (b *System) compareAll() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // in a cleanup the test's context has ended
	defer cancel()
	if b.T.Failed() || !JetStreamOf(b.Bus).Conn().IsConnected() {
		return // a test that stopped its server has no histories to read
	}
	for id, err := range b.Bus.Sessions(ctx) {
		if err != nil {
			return // the same, while the connection did not know
		}
		if _, own := b.byHand.Load(id); !own {
			CompareDecisions(ctx, b.T, b.Bus, id)
		}
	}
}
