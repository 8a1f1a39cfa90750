package internal_test

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/quota"
)

func reserve(t *testing.T, c *quota.Counter, owner string, id events.SessionID) func() {
	t.Helper()
	release, err := c.Reserve(t.Context(), owner, id)
	if err != nil {
		t.Fatalf("reserve %s for %s: got %v, want no refusal", id, owner, err)
	}
	return release
}

func refused(t *testing.T, c *quota.Counter, owner string, id events.SessionID, limit int) {
	t.Helper()
	_, err := c.Reserve(t.Context(), owner, id)
	full, ok := errors.AsType[*api.LimitError](err)
	if !ok || full.Limit != limit || full.What != api.OpenSessions {
		t.Errorf("reserve %s for %s: got %v, want a refusal at %d", id, owner, err, limit)
	}
}

// owned is a session of an owner at a sequence.
func owned(id events.SessionID, owner string, seq events.Seq, status projector.Status) *projector.State {
	s := projector.New(id)
	s.Owner, s.Seq, s.Status = owner, seq, status
	return s
}

// TestNoLimit neither refuses nor records anything.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	c := quota.New(nil, quota.Limits{})
	for range 3 {
		reserve(t, c, "alice", "s")()
	}
	c.Record(owned("s", "alice", 1, projector.StatusOpen))
	if err := c.CheckBranch(t.Context(), owned("s", "alice", 1, projector.StatusOpen)); c != nil || err != nil {
		t.Errorf("got %v, %v, want no counter", c, err)
	}
}

// TestReserve counts creations and open sessions of one owner, and not those without an owner.
func TestReserve(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := quota.New(b, quota.Limits{Sessions: 2})
	first := reserve(t, c, "alice", "a1")
	reserve(t, c, "alice", "a2")
	refused(t, c, "alice", "a3", 2)
	reserve(t, c, "alice", "a1")() // a repeat of a creation that is counted
	reserve(t, c, "bob", "b1")
	for _, id := range []events.SessionID{"n1", "n2", "n3"} {
		reserve(t, c, "", id)
	}
	first() // the creation failed: nothing was recorded
	reserve(t, c, "alice", "a3")()

	c.Record(owned("a1", "alice", 1, projector.StatusOpen))
	refused(t, c, "alice", "a3", 2)
	c.Record(owned("a1", "alice", 5, projector.StatusClosed))
	release := reserve(t, c, "alice", "a3")
	c.Record(owned("a1", "alice", 4, projector.StatusOpen)) // behind: it opens nothing again
	release()
	reserve(t, c, "alice", "a3")
}

// TestExistingSession refuses no id that exists: its creation makes no session.
func TestExistingSession(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	create(t, b, "there", "carol")
	c := quota.New(b, quota.Limits{Sessions: 1})
	reserve(t, c, "alice", "a1")
	reserve(t, c, "alice", "there")()
	refused(t, c, "alice", "a2", 1)
}

// TestSessionsWithoutRows counts, in a process that starts, the sessions that no projector has written a row of.
func TestSessionsWithoutRows(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	create(t, b, "a1", "alice")
	refused(t, quota.New(b, quota.Limits{Sessions: 1}), "alice", "a2", 1)
	reserve(t, quota.New(b, quota.Limits{Sessions: 2}), "alice", "a2")
	reserve(t, quota.New(b, quota.Limits{Sessions: 1}), "bob", "b1")
}

// TestCheckBranch counts the waiting and scheduled turns that will make sessions too.
func TestCheckBranch(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := quota.New(b, quota.Limits{Sessions: 3})
	s := owned("a1", "alice", 1, projector.StatusOpen)
	c.Record(s)
	s.Queue = []projector.QueuedTurn{{ID: "t1", Busy: events.BusyBranch}, {ID: "t2"}}
	runtest.WantError(t, "the third session", c.CheckBranch(t.Context(), s), nil)
	s.Scheduled = []projector.ScheduledTurn{{ID: "t3", Busy: events.BusyBranch}}
	if err := c.CheckBranch(t.Context(), s); !errors.As(err, new(*api.LimitError)) {
		t.Errorf("the fourth session: got %v, want a refusal", err)
	}
}

// create appends the first commit of a session.
func create(t *testing.T, b *bus.Bus, id events.SessionID, owner string) {
	t.Helper()
	c := &events.Commit{
		ID: "c-" + events.CommitID(id), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"},
		Events: []events.Event{events.Of("", &events.SessionOpened{Owner: owner})},
	}
	_, err := b.Log().Append(t.Context(), c, 0)
	runtest.NoError(t, err)
}
