package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

// says creates a session of alice in which she said a text.
func (b *bundle) says(id events.SessionID, text string) {
	b.T.Helper()
	b.owned(id)
	said := events.Message{ID: "m", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
	if _, err := b.Host.AppendNodes(as(b.T.Context(), "alice", api.RightWrite, id), id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &said}}}); err != nil {
		b.T.Fatal(err)
	}
}

// searched are the sessions that a caller finds on all pages; nil is no caller.
func (b *bundle) searched(c *api.Caller, limit int, text string) (list []string) {
	b.T.Helper()
	ctx := b.T.Context()
	if c != nil {
		ctx = api.WithCaller(ctx, *c, api.RightRead, "")
	}
	q := api.SearchQuery{Query: index.Query{Texts: []string{text}}, Page: api.Page{Limit: limit}}
	for {
		page, err := b.Host.Search(ctx, q)
		runtest.NoError(b.T, err)
		for _, s := range page.Sessions {
			if len(s.Matches) != 1 || !strings.Contains(s.Matches[0].Text, text) {
				b.T.Errorf("%s: got %+v, want %q", s.ID, s.Matches, text)
			}
			list = append(list, string(s.ID))
		}
		if page.Next == "" {
			slices.Sort(list)
			return list
		}
		q.Cursor = page.Next
	}
}

// TestLongSearchOfCaller combines the grants at the time of the rows, the current grants, sessions with and without an index row,
// scopes, bounds and page sizes. A caller finds the text in exactly the sessions that it may read by their current states.
func TestLongSearchOfCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rights := [][]events.SessionRight{nil, {"read"}, {"write"}, {"approve", "read"}}
	var all, bobs []string
	for i, then := range rights {
		for j, now := range rights {
			for indexed := range 2 {
				id := events.SessionID(fmt.Sprintf("s%d%d%d", i, j, indexed))
				b.says(id, "the needle of "+string(id))
				if then != nil {
					b.grant(b.Host, id, "bob", then...)
				}
				b.project(id)
				if indexed == 0 {
					b.unindex(id)
				}
				if !slices.Equal(then, now) {
					b.grant(b.Host, id, "bob", now...)
				}
				all = append(all, string(id))
				if slices.Contains(then, "read") && slices.Contains(now, "read") {
					bobs = append(bobs, string(id))
				}
			}
		}
	}
	slices.Sort(bobs)
	slices.Sort(all)
	own := api.Reach{Scope: api.ScopeRead, Own: true}
	one := func(s *projector.State) bool { return s.Session == "s110" }
	for name, tt := range map[string]struct {
		caller *api.Caller
		want   []string
	}{
		"nobody": {nil, all}, "carol": {&api.Caller{Name: "carol", Reach: api.Reach{Scope: api.ScopeRead}}, all}, "alice": {&api.Caller{Name: "alice", Reach: own}, all},
		"bob": {&api.Caller{Name: "bob", Reach: own}, bobs}, "dave": {&api.Caller{Name: "dave", Reach: own}, nil},
		"bob_without_read": {&api.Caller{Name: "bob", Reach: api.Reach{Scope: "write,approve", Own: true}}, nil},
		"within":           {&api.Caller{Name: "carol", Reach: api.Reach{Scope: api.ScopeRead}, Within: one}, []string{"s110"}},
	} {
		limits := []int{1, 3, 100}
		if !runtest.Long() {
			limits = limits[1:2]
		}
		for _, limit := range limits {
			runtest.EqualLists(t, fmt.Sprintf("%s in pages of %d", name, limit), b.searched(tt.caller, limit, "needle"), tt.want)
		}
	}
}

// unindex removes the index row of a session.
func (b *bundle) unindex(id events.SessionID) {
	b.T.Helper()
	rows, _ := b.Bus.Index()
	_, err := rows.Update(b.T.Context(), id, func(bus.Row) ([]byte, error) { return []byte("damaged"), nil })
	runtest.NoError(b.T, err)
}

// TestSearchFindsWhatIsThere: a redacted text and an erased session are not found, also where an old index row has the words; nor
// is a session that cannot be folded, which a caller of its own sessions does not count either.
func TestSearchFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	alice := &api.Caller{Name: "alice", Reach: api.Reach{Scope: api.ScopeRead, Own: true}}
	rows, _ := b.Bus.Index()
	stored := make(map[events.SessionID][]byte)
	for _, id := range []events.SessionID{"kept", "redacted", "erased"} {
		b.says(id, "the needle of "+string(id))
		runtest.NoError(t, b.Host.CloseSession(t.Context(), id, "over"))
		b.project(id)
		row, err := rows.Get(t.Context(), id)
		runtest.NoError(t, err)
		stored[id] = row.Value
	}
	for _, c := range []*api.Caller{nil, alice} {
		if got, want := b.searched(c, 2, "needle"), []string{"erased", "kept", "redacted"}; !slices.Equal(got, want) {
			t.Errorf("before: got %v, want %v", got, want)
		}
	}
	_, redactErr := b.Host.Redact(t.Context(), "redacted", []string{"graph.appended"}, "asked for")
	_, eraseErr := follow.Erase(t.Context(), b.Bus, "erased", nil, bus.Tombstone{At: 1, By: "ann", Reason: "asked"}, nil)
	runtest.NoError(t, errors.Join(redactErr, eraseErr))
	for _, old := range []bool{false, true} {
		for id, value := range stored {
			if old {
				_, err := rows.Update(t.Context(), id, func(bus.Row) ([]byte, error) { return value, nil })
				runtest.NoError(t, err)
			}
		}
		for _, c := range []*api.Caller{nil, alice} {
			runtest.EqualLists(t, fmt.Sprintf("with old rows %t", old), b.searched(c, 2, "needle"), []string{"kept"})
		}
	}
}

// TestUnreadOfCaller searches beside a session that has lost its commits. A caller of all sessions gets the number of sessions that cannot be
// read, and one of its own sessions does not.
func TestUnreadOfCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []events.SessionID{"kept", "lost"} {
		b.says(id, "the needle")
		b.project(id)
	}
	js, err := jetstream.New(b.Bus.Conn())
	if err == nil {
		err = js.DeleteStream(t.Context(), "lash-s-lost")
	}
	runtest.NoError(t, err)
	q := api.SearchQuery{Query: index.Query{Texts: []string{"needle"}}}
	for own, want := range map[bool]int{false: 1, true: 0} {
		ctx := api.WithCaller(t.Context(), api.Caller{Name: "alice", Reach: api.Reach{Scope: api.ScopeRead, Own: own}}, api.RightRead, "")
		page, err := b.Host.Search(ctx, q)
		if err != nil || page.Unread != want || len(page.Sessions) != 1 {
			t.Errorf("own sessions only %t: got %+v, %v, want one session and %d unread", own, page, err, want)
		}
	}
}
