package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
)

// as is the context of a request by a caller that reaches only its own sessions, with the right that it needs.
func as(ctx context.Context, name string, needs api.Right, id events.SessionID) context.Context {
	c := api.Caller{Name: name, Reach: api.Reach{Scope: api.ScopeAdmin, Own: true}}
	return api.WithRequestMeta(api.WithCaller(ctx, c, needs, id), api.RequestMeta{Actor: name})
}

// owned creates a session of the caller alice.
func (b *bundle) owned(id events.SessionID) {
	b.T.Helper()
	_, err := b.Host.Create(as(b.T.Context(), "alice", api.RightWrite, ""), api.CreateRequest{ID: id})
	runtest.NoError(b.T, err)
}

func (b *bundle) grant(h *session.Host, id events.SessionID, to string, rights ...events.SessionRight) {
	b.T.Helper()
	runtest.NoError(b.T, h.Grant(as(b.T.Context(), "alice", api.RightGrant, id), id, api.GrantRequest{To: to, Rights: rights}))
}

// TestGrantGuardsAppends revokes a grant through one host and writes through another host with an older state: the
// append is refused. With a new grant that the second host has not read yet, the append succeeds.
func TestGrantGuardsAppends(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owned("hers")
	other := b.another(0)
	write := func(n int) error {
		_, err := b.Host.Submit(as(t.Context(), "bob", api.RightWrite, "hers"), "hers", ask(events.TurnID(fmt.Sprint("t", n)), "go"))
		return err
	}
	for n := range 3 {
		runtest.WantError(t, "without a grant", write(n), events.ErrNoSession)
		b.grant(other, "hers", "bob", events.GrantWrite)
		runtest.WantError(t, "with a grant that another host made", write(10+n), nil)
		b.grant(other, "hers", "bob")
		runtest.WantError(t, "after it was taken back", write(20+n), events.ErrNoSession)
	}
}

// TestRevokedWhileWriting revokes a grant while its caller writes through two hosts: the history has no write of the
// caller after the revocation.
func TestRevokedWhileWriting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.another(0)
	for round := range 5 {
		id := events.SessionID(fmt.Sprint("s", round))
		b.owned(id)
		b.grant(b.Host, id, "bob", events.GrantWrite)
		var writers sync.WaitGroup
		wrote := make(chan struct{}, 1000)
		for n, h := range []*session.Host{b.Host, other} {
			writers.Go(func() {
				for i := 0; ; i++ {
					frame := api.FrameRequest{Frame: events.FrameID(fmt.Sprintf("f-%d-%d", n, i))}
					_, err := h.OpenFrame(as(t.Context(), "bob", api.RightWrite, id), id, frame)
					if errors.Is(err, events.ErrNoSession) {
						return
					}
					if err != nil {
						t.Errorf("open frame: %v", err)
						return
					}
					select {
					case wrote <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 5 + round {
			<-wrote
		}
		b.grant(b.Host, id, "bob")
		writers.Wait()
		revoked := false
		for entry, err := range b.Bus.Log().Read(t.Context(), id, 3) {
			runtest.NoError(t, err)
			if revoked && entry.Commit.Actor.ID == "bob" {
				t.Errorf("got a commit of bob's at %d, after the grant was taken back", entry.Seq)
			}
			revoked = revoked || entry.Commit.Events[0].Kind == events.KindSessionGranted
		}
	}
}

// TestGrantsAreBounded makes the largest number of grants, and one more.
func TestGrantsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owned("hers")
	for n := range check.MaxGrants {
		b.grant(b.Host, "hers", fmt.Sprint("c", n), events.GrantRead)
	}
	more := func(to string, rights ...events.SessionRight) error {
		return b.Host.Grant(as(t.Context(), "alice", api.RightGrant, "hers"), "hers", api.GrantRequest{To: to, Rights: rights})
	}
	limit, ok := errors.AsType[*api.LimitError](more("more", events.GrantRead))
	if !ok || limit.Limit != check.MaxGrants {
		t.Errorf("got %+v, want the limit", limit)
	}
	if err := errors.Join(more("c0", events.GrantApprove), more("c1"), more("more", events.GrantRead)); err != nil {
		t.Errorf("another grant to one that has one, and one in place of one: %v", err)
	}
	for _, req := range []api.GrantRequest{{To: ""}, {To: "a.b"}, {To: "alice"}, {To: "x", Rights: []events.SessionRight{"command"}}, {To: "x", Rights: []events.SessionRight{"read", "read"}}} {
		if err := more(req.To, req.Rights...); !errors.As(err, new(*events.FieldError)) {
			t.Errorf("%+v: got %v, want the field", req, err)
		}
	}
	s, err := b.Host.State(t.Context(), "hers")
	if err != nil || len(s.Grants) != check.MaxGrants || !slices.IsSortedFunc(s.Grants, func(a, b projector.Grant) int { return strings.Compare(a.To, b.To) }) {
		t.Errorf("got %d grants, %v", len(s.Grants), err)
	}
}

// TestContentOfOthersIsFree sends content that needs the right to configure from code that an operation calls, and
// from callers in the same process: it is allowed.
func TestContentOfOthersIsFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	alice := api.WithCaller(t.Context(), api.Caller{Name: "alice", Reach: api.Reach{Scope: "read,write"}}, api.RightWrite, "")
	called, _ := api.TakeRequestMeta(api.WithRequestMeta(alice, api.RequestMeta{Actor: "alice"}))
	for n, ctx := range []context.Context{called, t.Context(), api.WithRequestMeta(t.Context(), api.RequestMeta{Actor: "alice"})} {
		_, err := b.Host.Create(ctx, api.CreateRequest{ID: events.SessionID(fmt.Sprint("s", n)), Options: map[string]string{"x": "{}"}})
		runtest.WantError(t, fmt.Sprintf("caller %d", n), err, nil)
	}
	_, err := b.Host.Create(alice, api.CreateRequest{Options: map[string]string{"x": "{}"}})
	runtest.WantError(t, "of the caller itself", err, api.ErrForbidden)
}

// TestCopyBelongsToItsContent copies a session of another owner below the caller's own session, with only the right
// to write: the copy belongs to the other owner, and the caller cannot read it.
func TestCopyBelongsToItsContent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owned("hers")
	b.grant(b.Host, "hers", "bob", events.GrantWrite)
	bob := as(t.Context(), "bob", api.RightWrite, "")
	_, err := b.Host.Create(bob, api.CreateRequest{ID: "his"})
	runtest.NoError(t, err)
	for id, parent := range map[events.SessionID]events.SessionID{"copy": "", "child": "his"} {
		if _, err := b.Host.Create(bob, api.CreateRequest{ID: id, Start: api.StartExisting, From: "hers", Parent: parent}); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		_, err = b.Host.State(as(t.Context(), "bob", api.RightRead, id), id)
		runtest.WantError(t, fmt.Sprintf("%s: bob reads", id), err, api.ErrForbidden)
		if s, err := b.Host.State(as(t.Context(), "alice", api.RightRead, id), id); err != nil || s.Owner != "alice" {
			t.Errorf("%s: alice reads: got %v, want her session", id, err)
		}
	}
}

// TestIDsOfNodes creates, as a remote caller, sessions with ids that nodes derive. They are refused: a node would
// later give such a session, for example a branch, another caller's turn.
func TestIDsOfNodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owned("hers")
	for _, id := range []events.SessionID{
		session.BranchOf("hers", "t1"), events.SessionID(events.DerivedID("agent-", "k")), events.SessionID(events.DerivedID("p-", "hers", "t1/0/0", "1")),
	} {
		var field *events.FieldError
		_, err := b.Host.Create(as(t.Context(), "bob", api.RightWrite, ""), api.CreateRequest{ID: id})
		if !errors.As(err, &field) || field.Field != "id" {
			t.Errorf("%s: got %v, want the id refused", id, err)
		}
		_, err = b.Host.State(t.Context(), id)
		runtest.WantError(t, string(id), err, events.ErrNoSession)
		if _, err := b.Host.Create(t.Context(), api.CreateRequest{ID: id}); err != nil { // a node's own
			t.Errorf("%s: %v", id, err)
		}
	}
}
