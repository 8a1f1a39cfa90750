package servicetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

// searched are the sessions that a query finds on all its pages, by id.
func (b *bench) searched(q api.SearchQuery) []string {
	b.t.Helper()
	return b.onAllPages("search", func(cursor string) (ids []string, next string, err error) {
		q.Cursor = cursor
		page, err := b.Search(b.ctx, q)
		for _, s := range page.Sessions {
			ids = append(ids, string(s.ID))
		}
		return ids, page.Next, err
	})
}

var searchCases = []testCase{
	{"search", func(b *bench) {
		for id, labels := range map[events.SessionID]map[string]string{"s1": {"team": "blue"}, "s2": {"team": "red"}, "s3": nil} {
			_, err := b.Create(b.ctx, api.CreateRequest{ID: id, Labels: labels})
			b.must("create", err, nil)
		}
		b.run("s1", "Where is my <b>Refund</b> 77?")
		b.run("s2", "call plain")
		b.run("s3", "is a refund late?")
		_, err := b.Run(b.ctx, "s1", asks("t2", "something else"))
		b.must("run", err, nil)
		from, to := b.state("s1").CreatedAt, b.state("s1").UpdatedAt
		for _, text := range []struct {
			said string
			want []string
		}{{"refund</b> 77", []string{"s1"}}, {"plain", []string{"s2"}}, {"something else", []string{"s1"}}, {"late?", []string{"s3"}}} { // until the index and the directory have the last commits
			listed(b, text.said, text.want, func() []string {
				return b.searched(api.SearchQuery{Query: index.Query{Texts: []string{text.said}, Outcome: "finished"}})
			})
		}
		for name, tt := range map[string]struct {
			q    index.Query
			want string
		}{
			"text": {index.Query{Texts: []string{"REFUND"}}, "s1 s3"}, "both": {index.Query{Texts: []string{"refund", "where"}}, "s1"},
			"phrase": {index.Query{Texts: []string{"refund late"}}, "s3"}, "turns_apart": {index.Query{Texts: []string{"refund", "something"}}, ""},
			"part": {index.Query{Texts: []string{"efun"}}, "s1 s3"}, "signs": {index.Query{Texts: []string{"</b>"}}, "s1"}, "absent": {index.Query{Texts: []string{"refunds"}}, ""},
			"tool": {index.Query{Tool: "plain"}, "s2"}, "tool_part": {index.Query{Tool: "plai"}, ""}, "outcome": {index.Query{Outcome: "finished"}, "s1 s2 s3"}, "no_outcome": {index.Query{Outcome: "lost"}, ""},
			"label": {index.Query{Labels: map[string]string{"team": "blue"}}, "s1"}, "any_label": {index.Query{Labels: map[string]string{"team": ""}}, "s1 s2"},
			"since": {index.Query{Since: from, Texts: []string{"refund</b> 77", "where"}}, "s1"}, "since_all": {index.Query{Since: from}, "s1 s2 s3"}, "until": {index.Query{Until: from - 3_600_000}, ""},
			"later": {index.Query{Since: to + 3_600_000}, ""}, "actor": {index.Query{Actor: "nobody-is-called-so"}, ""},
		} {
			for limit := range 3 {
				equal(b, fmt.Sprint(name, limit), strings.Join(b.searched(api.SearchQuery{Page: api.Page{Limit: limit}, Query: tt.q}), " "), tt.want)
			}
		}
		page, err := b.Search(b.ctx, api.SearchQuery{Query: index.Query{Texts: []string{"refund"}, Labels: map[string]string{"team": "blue"}}})
		b.must("search", err, nil)
		found := page.Sessions[0]
		m := found.Matches[0]
		equal(b, "match", []any{found.ID, found.Labels, len(found.Matches), m.Turn, m.Kind, m.Text, m.Pos}, []any{events.SessionID("s1"), map[string]string{"team": "blue"}, 1, events.TurnID("t1"), events.KindTurnRequested, "Where is my <b>Refund</b> 77?", 0})
	}},
	{"search_refused", func(b *bench) {
		other, err := api.Position{List: "sessions", At: 1, ID: "x"}.Cursor()
		b.must("cursor", err, nil)
		text, many := index.Query{Texts: []string{"x"}}, map[string]string{}
		for i := range api.MaxQueryLabels + 1 {
			many[fmt.Sprint("l", i)] = ""
		}
		for field, q := range map[string]api.SearchQuery{
			"text": {}, "text ": {Query: index.Query{Texts: []string{"x", ""}}}, "text  ": {Query: index.Query{Texts: []string{strings.Repeat("x", api.MaxSearchTextBytes+1)}}},
			"text   ": {Query: index.Query{Texts: slices.Repeat([]string{"x"}, api.MaxSearchTexts+1)}}, "text    ": {Query: index.Query{Texts: []string{"\xff"}}},
			"tool": {Query: index.Query{Tool: strings.Repeat("x", events.MaxIDBytes+1)}}, "actor": {Query: index.Query{Actor: "\xff"}}, "outcome": {Query: index.Query{Outcome: "\xff"}},
			"label": {Query: index.Query{Labels: many}}, "label ": {Query: index.Query{Labels: map[string]string{"": "x"}}}, "since": {Query: index.Query{Since: -1}}, "until": {Query: index.Query{Until: -1}},
			"limit": {Query: text, Page: api.Page{Limit: -1}}, "limit ": {Query: text, Page: api.Page{Limit: api.MaxSearchPage + 1}}, "matches": {Query: text, Matches: -1}, "matches ": {Query: text, Matches: api.MaxSearchMatches + 1},
			"cursor": {Query: text, Page: api.Page{Cursor: other}}, "cursor ": {Query: text, Page: api.Page{Cursor: "?"}},
		} {
			_, err := b.Search(b.ctx, q)
			equal(b, field, strings.TrimSuffix(as[*events.FieldError](b, field, err).Field, "_ms"), strings.TrimSpace(field))
			equal(b, field+" is invalid", errors.Is(err, events.ErrInvalid) || errors.Is(err, api.ErrRequest), true)
		}
	}},
}
