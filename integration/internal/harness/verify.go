package harness

import (
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// VerifyHistory verifies the whole history of a session.
func VerifyHistory(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	v := projector.NewVerifier(id)
	for entry, err := range b.Log().Read(Context(t), id, 1) {
		var found []projector.Violation
		if err == nil {
			found, err = follow.Verify(Context(t), b, v, entry)
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
