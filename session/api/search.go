package api

import (
	"fmt"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
)

// Limits of a search.
const (
	DefaultSearchPage    = 20  // sessions of a page
	MaxSearchPage        = 100 // likewise
	DefaultSearchMatches = 3   // turns of a session
	MaxSearchMatches     = 20  // likewise
	MaxSearchTexts       = 8
	MaxSearchTextBytes   = 256
)

// SearchQuery selects turns of all sessions; outside of turns, commits. Everything that is set must be found in one of
// them, except the labels, which are the session's.
type SearchQuery struct {
	Page // of sessions: up to [MaxSearchPage]. Defaults to [DefaultSearchPage]
	index.Query
	Matches int `query:"matches"` // turns of a session, the first ones, up to [MaxSearchMatches]. Defaults to [DefaultSearchMatches]
}

// Check returns the query with its defaults. It refuses one without a condition, and values out of range.
func (q SearchQuery) Check() (SearchQuery, error) {
	switch {
	case q.Limit < 0 || q.Limit > MaxSearchPage:
		return q, invalidQuery("limit", fmt.Sprintf("is %d, want 1 to %d", q.Limit, MaxSearchPage))
	case q.Matches < 0 || q.Matches > MaxSearchMatches:
		return q, invalidQuery("matches", fmt.Sprintf("is %d, want 1 to %d", q.Matches, MaxSearchMatches))
	case q.IsZero():
		return q, invalidQuery("text", "is missing, and so is every other condition")
	case len(q.Texts) > MaxSearchTexts:
		return q, invalidQuery("text", fmt.Sprintf("occurs %d times, limit is %d", len(q.Texts), MaxSearchTexts))
	case q.Since < 0:
		return q, invalidQuery("since", "is negative")
	case q.Until < 0:
		return q, invalidQuery("until", "is negative")
	}
	for _, text := range q.Texts {
		if text == "" {
			return q, invalidQuery("text", "is empty: it occurs everywhere")
		}
		if err := checkSearched("text", text, MaxSearchTextBytes); err != nil {
			return q, err
		}
	}
	for _, f := range []struct{ name, value string }{{"tool", q.Tool}, {"actor", q.Actor}, {"outcome", q.Outcome}} {
		if err := checkSearched(f.name, f.value, events.MaxIDBytes); err != nil {
			return q, err
		}
	}
	if err := checkLabels(q.Labels); err != nil {
		return q, err
	}
	if q.Limit == 0 {
		q.Limit = DefaultSearchPage
	}
	if q.Matches == 0 {
		q.Matches = DefaultSearchMatches
	}
	return q, nil
}

func checkSearched(field, value string, most int) error {
	switch {
	case len(value) > most:
		return invalidQuery(field, fmt.Sprintf("has %d bytes, limit is %d", len(value), most))
	case !utf8.ValidString(value):
		return invalidQuery(field, "is not valid UTF-8")
	}
	return nil
}

// FoundSession is a session with turns that match.
type FoundSession struct {
	ID        events.SessionID  `json:"id"`
	Labels    map[string]string `json:"labels,omitempty"`
	Model     string            `json:"model,omitempty"`
	UpdatedAt events.Millis     `json:"updated_at_ms" jsonschema:"as the index has it, which lags by up to five seconds"`
	Matches   []Match           `json:"matches" jsonschema:"in the order of the history"`
}

// Match is a turn that matches, with an event that shows it: the first one with a text of the query.
type Match struct {
	Turn  events.TurnID `json:"turn,omitempty" jsonschema:"omitted: the event is of no turn"`
	Seq   events.Seq    `json:"seq" jsonschema:"sequence of the event's commit"`
	Pos   int           `json:"pos" jsonschema:"place of the event in its commit, from 0"`
	At    events.Millis `json:"at_ms"`
	Kind  events.Kind   `json:"kind"`
	Actor string        `json:"actor"`
	Text  string        `json:"text,omitempty" jsonschema:"the text around what was searched, on one line"` // empty: the query has no text, or this event shows another condition
}

// SearchPage is a part of the found sessions. It may be empty and have a next one.
type SearchPage struct {
	Sessions []FoundSession `json:"sessions" jsonschema:"the newest first; a page with none may have a next one"`
	Unread   int            `json:"unread,omitempty" jsonschema:"number of sessions of this page that could not be read, or not in the time of a page"` // 0 for a caller that reaches some sessions only
	Next     string         `json:"next,omitempty" jsonschema:"cursor of the next page; omitted: this is the last page"`
}
