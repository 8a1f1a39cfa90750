package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

func nodeIDs(t *testing.T, s *projector.State) (list []events.NodeID) {
	t.Helper()
	path, err := s.Path()
	runtest.NoError(t, err)
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
	runtest.NoError(t, b.Host.BranchTo(ctx, sid, ""))
	last := b.State().Seq
	for seq := events.Seq(1); seq <= last; seq++ {
		want, err := b.Host.StateAt(ctx, sid, seq)
		runtest.NoError(t, err)
		id, err := b.Host.Fork(ctx, sid, api.CreateRequest{At: seq})
		if err != nil {
			t.Fatalf("at %d: %v", seq, err)
		}
		got, err := follow.Whole(ctx, b.Bus, id)
		runtest.NoError(t, err)
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

// nowhere sends no request.
type nowhere struct{ *testing.T }

func (n nowhere) Send(context.Context, *operation.Row, events.SessionID, string, any, any) error {
	n.Error("the request was sent")
	return nil
}

// TestSnapshotForReading starts a session from a state of StateAt. A host and a client refuse it with the same error, and
// name the request that makes the same copy.
func TestSnapshotForReading(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	b.Append("", &events.SessionClosed{})
	at, err := b.Host.StateAt(ctx, sid, 1)
	runtest.NoError(t, err)
	for name, create := range map[string]func(context.Context, api.CreateRequest) (events.SessionID, error){
		"host": b.Host.Create, "client": operation.Requests{Transport: nowhere{t}}.Create,
	} {
		_, err := create(ctx, api.CreateRequest{ID: "copy", Start: api.StartSnapshot, Snapshot: at})
		field, ok := errors.AsType[*events.FieldError](err)
		if !ok || field.Field != "snapshot" || !strings.Contains(field.Reason, `"existing_session" from s at 1 `) {
			t.Errorf("%s: got %v, want the field snapshot refused", name, err)
		}
	}
	_, err = b.Host.Create(ctx, api.CreateRequest{ID: "copy", Start: api.StartExisting, From: sid, At: 1})
	runtest.WantError(t, "the named request", err, nil)
}
