package session_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

func nodeIDs(t *testing.T, s *projector.State) (list []events.NodeID) {
	t.Helper()
	path, err := s.Path()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range path {
		list = append(list, n.ID)
	}
	return list
}

// TestForkAt: a fork of a sequence has the path of that time, whatever came later, and the history verifies.
func TestForkAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	b.pending(1)
	b.Append("t1", &events.TurnCompleted{End: events.EndCancelled})
	if err := b.Host.BranchTo(ctx, sid, ""); err != nil {
		t.Fatal(err)
	}
	last := b.State().Seq
	for seq := events.Seq(1); seq <= last; seq++ {
		want, err := b.Host.StateAt(ctx, sid, seq)
		if err != nil {
			t.Fatal(err)
		}
		id, err := b.Host.Fork(ctx, sid, api.CreateRequest{At: seq})
		if err != nil {
			t.Fatalf("at %d: %v", seq, err)
		}
		got, err := follow.Whole(ctx, b.Bus, id)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(nodeIDs(t, got)) != fmt.Sprint(nodeIDs(t, want)) || got.Forked != (events.ForkedFrom{Session: sid, Seq: seq, Leaf: want.Leaf}) {
			t.Errorf("at %d: got %v, %+v, want %v", seq, nodeIDs(t, got), got.Forked, nodeIDs(t, want))
		}
		if got.Owner != want.Owner || len(got.Run) != 0 {
			t.Errorf("at %d: got owner %q, %d running turns, want %q and none", seq, got.Owner, len(got.Run), want.Owner)
		}
	}
	for name, req := range map[string]api.CreateRequest{
		"after the end":   {Start: api.StartExisting, From: sid, At: last + 1},
		"another start":   {At: 1},
		"a snapshot's at": {Start: api.StartSnapshot, Snapshot: b.State(), At: 1},
	} {
		_, err := b.Host.Create(ctx, req)
		field := new(events.FieldError)
		if !errors.As(err, &field) || field.Field != "at" || !errors.Is(err, events.ErrInvalid) {
			t.Errorf("%s: got %v, want field at", name, err)
		}
	}
}
