package httpapi

import (
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// searchedJSON is a page of the sessions that a search found.
type searchedJSON struct {
	Sessions []foundSessionJSON `json:"sessions" jsonschema:"the newest first; a page with none may have a next one"`
	Unread   int                `json:"unread,omitempty" jsonschema:"number of sessions of this page that could not be read, or not in the time of a page"`
	Next     string             `json:"next,omitempty" jsonschema:"cursor of the next page; omitted: this is the last page"`
}

// foundSessionJSON is a session with turns that match.
type foundSessionJSON struct {
	ID        events.SessionID  `json:"id"`
	Labels    map[string]string `json:"labels,omitempty"`
	Model     string            `json:"model,omitempty"`
	UpdatedAt events.Millis     `json:"updated_at_ms" jsonschema:"as the index has it, which lags by up to five seconds"`
	Matches   []matchJSON       `json:"matches" jsonschema:"in the order of the history"`
}

// matchJSON is a turn that matches, with an event that shows it.
type matchJSON struct {
	Turn  events.TurnID `json:"turn,omitempty" jsonschema:"omitted: the event is of no turn"`
	Seq   events.Seq    `json:"seq" jsonschema:"sequence of the event's commit"`
	Pos   int           `json:"pos" jsonschema:"place of the event in its commit, from 0"`
	At    events.Millis `json:"at_ms"`
	Kind  events.Kind   `json:"kind"`
	Actor string        `json:"actor"`
	Text  string        `json:"text,omitempty" jsonschema:"the text around what was searched, on one line"`
}

func (c *httpRequest) searchQuery() (q api.SearchQuery, err error) {
	values := c.URL.Query()
	q.Texts, q.Tool, q.Actor, q.Outcome, q.Cursor = values[textParam], values.Get("tool"), values.Get("actor"), values.Get("outcome"), values.Get("cursor")
	if q.Labels, err = c.labels(); err != nil {
		return q, err
	}
	if q.Limit, err = c.count("limit", api.MaxSearchPage); err != nil {
		return q, err
	}
	if q.Matches, err = c.count("matches", api.MaxSearchMatches); err != nil {
		return q, err
	}
	return q, c.times(map[string]*events.Millis{"since_ms": &q.Since, "until_ms": &q.Until})
}

func searched(page api.SearchPage) searchedJSON {
	out := searchedJSON{Sessions: make([]foundSessionJSON, len(page.Sessions)), Unread: page.Unread, Next: page.Next}
	for i := range page.Sessions {
		s := &page.Sessions[i]
		out.Sessions[i] = foundSessionJSON{ID: s.ID, Labels: s.Labels, Model: s.Model, UpdatedAt: s.UpdatedAt, Matches: make([]matchJSON, len(s.Matches))}
		for j := range s.Matches {
			out.Sessions[i].Matches[j] = matchJSON(s.Matches[j])
		}
	}
	return out
}

// textParam is the name of the parameter that has a searched text.
const textParam = "text"

// searchParams are the parameters of a search.
func searchParams() []param {
	list := func(name, description string, most int) param {
		return param{name: name, schema: object{"type": "array", "items": object{"type": "string"}}, description: description + "; at most " + strconv.Itoa(most) + " times"}
	}
	upTo := func(name, description string, most, otherwise int) param {
		return param{name: name, schema: object{"type": "integer", "minimum": 1, "maximum": most, "default": otherwise}, description: description}
	}
	return []param{
		list(textParam, "a text that occurs in the turn, without regard to case, of 1 to "+strconv.Itoa(api.MaxSearchTextBytes)+" bytes", api.MaxSearchTexts),
		text("tool", "name of a tool that the turn called"),
		text("actor", "actor of a request, an answer or another commit of the turn: client:alice, or alice"),
		text("outcome", "outcome of the turn, or of a call in it: finished, cancelled, failure, lost, granted, refused and so on"),
		number("since_ms", "events at or after this time, in milliseconds since 1970"),
		number("until_ms", "events before or at this time, in milliseconds since 1970"),
		list(labelParam, "NAME=VALUE, a label of the sessions; NAME= for any value", api.MaxQueryLabels),
		upTo("matches", "number of turns of a session", api.MaxSearchMatches, api.DefaultSearchMatches),
		upTo("limit", "number of sessions", api.MaxSearchPage, api.DefaultSearchPage), cursorParam,
	}
}
