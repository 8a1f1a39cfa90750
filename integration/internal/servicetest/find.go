package servicetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// listed waits until look, which reads the directory, returns want. The directory is behind the histories.
func listed(b *bench, what string, want []string, look func() []string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got := look()
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
}

// sessions are the ids that a query gives on all its pages, by id.
func (b *bench) sessions(q api.SessionQuery) []string {
	b.t.Helper()
	return b.onAllPages("sessions", func(cursor string) (ids []string, next string, err error) {
		q.Cursor = cursor
		page, err := b.Sessions(b.ctx, q)
		for _, s := range page.Sessions {
			ids = append(ids, string(s.ID))
		}
		return ids, page.Next, err
	})
}

// onAllPages are the ids of all pages of a list, sorted.
func (b *bench) onAllPages(what string, page func(cursor string) (ids []string, next string, err error)) []string {
	b.t.Helper()
	list := []string{}
	for cursor := ""; ; {
		ids, next, err := page(cursor)
		b.must(what, err, nil)
		if list = append(list, ids...); next == "" {
			slices.Sort(list)
			return list
		}
		cursor = next
	}
}

var findCases = []testCase{
	{"sessions", func(b *bench) {
		for id, labels := range map[events.SessionID]map[string]string{
			"s1": {"team": "blue", "n": "1"}, "s2": {"team": "blue"}, "s3": {"team": "red", "n": ""}, "s4": nil,
		} {
			_, err := b.Create(b.ctx, api.CreateRequest{ID: id, Labels: labels})
			b.must("create", err, nil)
		}
		_, err := b.Create(b.ctx, api.CreateRequest{ID: "s5", Parent: "s1"})
		b.must("create", err, nil)
		b.must("close", b.CloseSession(b.ctx, "s2", "done"), nil)
		from, to := b.state("s1").CreatedAt, b.state("s2").UpdatedAt
		closed := api.SessionQuery{Status: projector.StatusClosed}
		listed(b, "all", []string{"s1", "s2", "s3", "s4", "s5"}, func() []string { return b.sessions(api.SessionQuery{}) })
		listed(b, "closed", []string{"s2"}, func() []string { return b.sessions(closed) })
		for name, tt := range map[string]struct {
			q    api.SessionQuery
			want string
		}{
			"open": {api.SessionQuery{Status: projector.StatusOpen}, "s1 s3 s4 s5"}, "erased": {api.SessionQuery{Status: projector.StatusErased}, ""},
			"label":  {api.SessionQuery{Labels: map[string]string{"team": "blue"}}, "s1 s2"},
			"labels": {api.SessionQuery{Labels: map[string]string{"team": "blue", "n": "1"}}, "s1"},
			"empty":  {api.SessionQuery{Labels: map[string]string{"n": ""}}, "s3"},
			"both":   {api.SessionQuery{Labels: map[string]string{"team": "blue"}, Status: projector.StatusOpen}, "s1"},
			"parent": {api.SessionQuery{Parent: "s1"}, "s5"}, "owner": {api.SessionQuery{Owner: "else"}, ""},
			"created":    {api.SessionQuery{CreatedFrom: 1, CreatedTo: from + 3_600_000}, "s1 s2 s3 s4 s5"},
			"before":     {api.SessionQuery{CreatedTo: 1}, ""},
			"never":      {api.SessionQuery{CreatedFrom: to + 3_600_000}, ""},
			"updated":    {api.SessionQuery{UpdatedFrom: to, UpdatedTo: to + 1, Status: projector.StatusClosed}, "s2"},
			"not_before": {api.SessionQuery{UpdatedTo: to, Status: projector.StatusClosed}, ""},
		} {
			for limit := range 3 {
				tt.q.Limit = limit
				equal(b, fmt.Sprint(name, limit), strings.Join(b.sessions(tt.q), " "), tt.want)
			}
		}
		page, err := b.Sessions(b.ctx, closed)
		b.must("closed", err, nil)
		got, s := page.Sessions[0], b.state("s2")
		equal(b, "summary", got, api.SessionSummary{ID: "s2", Seq: s.Seq, Status: "closed", Labels: s.Labels, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Owner: s.Owner})
	}},
	{"sessions_pages", func(b *bench) {
		want := []string{}
		for i := range 7 {
			want = append(want, fmt.Sprintf("s%d", i))
			_, err := b.Create(b.ctx, api.CreateRequest{ID: events.SessionID(want[i])})
			b.must("create", err, nil)
		}
		listed(b, "all", want, func() []string { return b.sessions(api.SessionQuery{}) })
		var q api.SessionQuery
		var got []string
		var last api.SessionSummary
		for q.Limit = 2; ; { // a new session, and an updated one, between two pages
			page, err := b.Sessions(b.ctx, q)
			b.must("page", err, nil)
			for _, s := range page.Sessions {
				if last.ID != "" && (s.CreatedAt > last.CreatedAt || s.CreatedAt == last.CreatedAt && s.ID > last.ID) {
					b.t.Errorf("order: %s at %d comes after %s at %d", s.ID, s.CreatedAt, last.ID, last.CreatedAt)
				}
				got, last = append(got, string(s.ID)), s
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			newest := b.state("s6").CreatedAt
			for at := newest; at <= newest; { // until the clock has advanced
				at = b.state(b.open()).CreatedAt
			}
			b.must("close", b.CloseSession(b.ctx, events.SessionID(want[len(got)%7]), "x"), nil)
		}
		slices.Sort(got)
		equal(b, "sessions over the pages", got, want)
	}},
	{"find_refused", func(b *bench) {
		id := b.open()
		page, err := b.Turns(b.ctx, id, api.Page{})
		b.must("turns", err, nil)
		equal(b, "turns", len(page.Turns), 0)
		other, err := api.Position{List: "else", At: 1, ID: "x"}.Cursor()
		b.must("cursor", err, nil)
		pages := map[string]api.Page{
			"limit": {Limit: -1}, "limit ": {Limit: api.MaxPage + 1}, "cursor": {Cursor: "?"}, "cursor ": {Cursor: other},
			"cursor  ": {Cursor: strings.Repeat("A", 4096)}, "cursor   ": {Cursor: "AAAA"},
		}
		for field, p := range pages {
			_, err := b.Sessions(b.ctx, api.SessionQuery{Page: p})
			equal(b, "sessions", as[*events.FieldError](b, field, err).Field, strings.TrimSpace(field))
			_, err = b.Turns(b.ctx, id, p)
			equal(b, "turns", as[*events.FieldError](b, field, err).Field, strings.TrimSpace(field))
			_, err = b.PendingApprovals(b.ctx, p)
			equal(b, "approvals", as[*events.FieldError](b, field, err).Field, strings.TrimSpace(field))
		}
		many := map[string]string{}
		for i := range api.MaxQueryLabels + 1 {
			many[fmt.Sprint("l", i)] = ""
		}
		for field, q := range map[string]api.SessionQuery{
			"status": {Status: "else"}, "parent": {Parent: "a.b"}, "owner": {Owner: "a b"}, "label": {Labels: many},
			"label ": {Labels: map[string]string{"": "x"}}, "label  ": {Labels: map[string]string{"x": strings.Repeat("x", 2000)}}, "created_from": {CreatedFrom: -1},
		} {
			_, err := b.Sessions(b.ctx, q)
			equal(b, "sessions", as[*events.FieldError](b, field, err).Field, strings.TrimSpace(field))
		}
		_, err = b.Turns(b.ctx, "nobody", api.Page{})
		b.must("turns of nothing", err, events.ErrNoSession)
		_, err = b.ViewAt(b.ctx, "nobody", 1)
		b.must("view of nothing", err, events.ErrNoSession)
		_, err = b.ViewAt(b.ctx, id, 0)
		equal(b, "view at", as[*events.FieldError](b, "sequence", err).Field, "at")
	}},
	{"turns", func(b *bench) {
		id := b.open()
		b.run(id, "x")
		b.submit(id, "t2", "hang")
		b.await(id, "running turn", func(s *projector.State) bool { return s.Turn() != nil })
		b.submit(id, "t3", "y")
		_, err := b.SubmitAt(b.ctx, id, time.Now().Add(time.Hour), asks("t4", "z"))
		b.must("submit", err, nil)
		var got []string
		for p := (api.Page{Limit: 1}); ; {
			page, err := b.Turns(b.ctx, id, p)
			b.must("turns", err, nil)
			for _, t := range page.Turns {
				got = append(got, fmt.Sprintf("%s %s %s", t.ID, t.Status, t.End))
				equal(b, "model calls of "+string(t.ID), t.ModelCalls, map[events.TurnID]int64{"t1": 1}[t.ID])
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		equal(b, "turns", got, []string{"t4 scheduled ", "t3 waiting ", "t2 running ", "t1 ended finished"})
		for _, turn := range []events.TurnID{"t4", "t3", "t2"} {
			_, _, err := b.Cancel(b.ctx, id, turn, api.CancelRequest{})
			b.must("cancel", err, nil)
		}
		_, err = b.Await(b.ctx, id, "t2")
		b.must("await", err, nil)
	}},
	{"pending_approvals", func(b *bench) {
		idle := b.open()
		var ids []events.SessionID
		for range 3 {
			id := b.open()
			b.submit(id, "t1", "call gated")
			ids = append(ids, id)
		}
		all := func(limit int) []string {
			list := []string{}
			for p := (api.Page{Limit: limit}); ; {
				page, err := b.PendingApprovals(b.ctx, p)
				b.must("approvals", err, nil)
				for _, a := range page.Approvals {
					list = append(list, fmt.Sprint(a.Session, a.Effect, a.Tool, a.Question))
				}
				if p.Cursor = page.Next; p.Cursor == "" {
					slices.Sort(list)
					return list
				}
			}
		}
		want := func(ids []events.SessionID) []string {
			list := []string{}
			for _, id := range ids {
				list = append(list, fmt.Sprint(id, events.EffectID("t1/0/0"), "gated", "really?"))
			}
			slices.Sort(list)
			return list
		}
		listed(b, "approvals", want(ids), func() []string { return all(0) })
		equal(b, "approvals one by one", all(1), want(ids))
		b.must("approve", b.Approve(b.ctx, ids[0], events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true}), nil)
		equal(b, "approvals after an answer, whatever the directory says", all(2), want(ids[1:]))
		for _, id := range ids[1:] {
			b.must("deny", b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: "t1/0/0"}), nil)
		}
		for _, id := range ids {
			_, err := b.Await(b.ctx, id, "t1")
			b.must("await", err, nil)
		}
		b.must("close", b.CloseSession(b.ctx, idle, "x"), nil)
	}},
	{"view_at", func(b *bench) {
		id := b.open("a")
		at := []events.Seq{b.state(id).Seq}
		for _, s := range []string{"b", "c"} {
			_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says(s)})
			b.must("append", err, nil)
			at = append(at, b.state(id).Seq)
		}
		for i, seq := range at {
			v, err := b.ViewAt(b.ctx, id, seq)
			b.must("view", err, nil)
			equal(b, "sequence", v.Seq, seq)
			equal(b, "messages", len(v.Messages), i+1)
		}
		_, err := b.ViewAt(b.ctx, id, at[2]+1)
		equal(b, "view after the end", as[*events.FieldError](b, "sequence", err).Field, "at")
	}},
}
