package bustest

import (
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// AcceptLoss accepts the loss of commits of a session, in the name of "ops", and returns the sequence of the record.
func AcceptLoss(t testing.TB, b *bus.Bus, session events.SessionID) events.Seq {
	t.Helper()
	lost, err := b.AcceptLoss(t.Context(), session, func(lost *bus.CutOffError) *events.Commit { return LossRecord(lost, "loss-accepted") })
	if err != nil {
		t.Fatal(err)
	}
	return lost.Last + 1
}

// LossRecord is the commit that accepts a loss.
func LossRecord(lost *bus.CutOffError, id events.CommitID) *events.Commit {
	return &events.Commit{
		ID: id, Session: lost.Session, At: 1, Actor: events.Actor{Kind: events.ActorClient, ID: "ops"},
		Events: []events.Event{events.Of("", &events.SessionLossAccepted{After: lost.Last, UpTo: lost.Known, By: "ops", Reason: "no backup"})},
	}
}
