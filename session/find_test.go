package session_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// project writes a session's row of the directory from its current state.
func (b *bundle) project(id events.SessionID) {
	b.T.Helper()
	runtest.NoError(b.T, follow.NewProjector(b.Bus, nil).Project(b.T.Context(), id))
}

// found reads all pages of a caller, and checks every cursor: it contains only ids that the page before it showed.
func (b *bundle) found(name string, own bool, limit int) (list []string) {
	b.T.Helper()
	ctx := api.WithCaller(b.T.Context(), api.Caller{Name: name, Reach: api.Reach{Scope: api.ScopeRead, Own: own}}, api.RightRead, "")
	for q := (api.SessionQuery{Page: api.Page{Limit: limit}}); ; {
		page, err := b.Host.Sessions(ctx, q)
		runtest.NoError(b.T, err)
		for _, s := range page.Sessions {
			list = append(list, string(s.ID))
		}
		if page.Next == "" {
			slices.Sort(list)
			return list
		}
		if len(page.Sessions) != limit {
			b.T.Errorf("page of %s: got %d sessions and a next page, want %d", name, len(page.Sessions), limit)
		}
		last := page.Sessions[len(page.Sessions)-1]
		want, err := api.Position{List: "sessions", At: int64(last.CreatedAt), ID: string(last.ID)}.Cursor()
		if data, _ := base64.RawURLEncoding.DecodeString(page.Next); err != nil || page.Next != want {
			b.T.Errorf("cursor of %s after %s: got %q, %v", name, last.ID, data, err)
		}
		q.Cursor = page.Next
	}
}

// TestSessionsOfCaller combines the grants at the time of the directory's rows, the current grants and the page
// sizes. A caller that is bounded to its own sessions finds exactly those that both grants let it read. Another
// caller finds all.
func TestSessionsOfCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.project(sid)
	rights := [][]events.SessionRight{nil, {"read"}, {"write"}, {"approve", "read"}}
	all, want := []string{string(sid)}, []string{}
	for i, then := range rights {
		for j, now := range rights {
			id := events.SessionID(fmt.Sprintf("s%d%d", i, j))
			b.owned(id)
			if then != nil {
				b.grant(b.Host, id, "bob", then...)
			}
			b.project(id)
			if !slices.Equal(then, now) {
				b.grant(b.Host, id, "bob", now...)
			}
			all = append(all, string(id))
			if slices.Contains(then, "read") && slices.Contains(now, "read") {
				want = append(want, string(id))
			}
		}
	}
	slices.Sort(all)
	for _, limit := range []int{1, 2, 3, 16, 100} {
		for name, tt := range map[string]struct {
			own  bool
			want []string
		}{"carol": {false, all}, "alice": {true, slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == string(sid) })}, "bob": {true, want}, "dave": {true, nil}} {
			if got := b.found(name, tt.own, limit); strings.Join(got, " ") != strings.Join(tt.want, " ") {
				t.Errorf("%s in pages of %d: got %v, want %v", name, limit, got, tt.want)
			}
		}
	}
}
