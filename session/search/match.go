package search

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

// unit is a turn, or a commit outside of turns, with what is not found in it yet.
type unit struct {
	texts                map[string]bool
	tool, actor, outcome bool
	at                   Match // the event that is shown
	begun                bool
}

// matching finds the turns of a session that match.
type matching struct {
	q     *index.Query
	lower []string // of the texts of the query
	turns map[events.TurnID]*unit
	list  []Match
}

// matchesIn reads a history and lists the first turns that match.
func matchesIn(ctx context.Context, log events.Log, id events.SessionID, q *index.Query, most int) ([]Match, error) {
	m := &matching{q: q, turns: make(map[events.TurnID]*unit)}
	for _, text := range q.Texts {
		m.lower = append(m.lower, index.Lower(text))
	}
	for entry, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return nil, err
		}
		if entry.Commit.At < q.Since || q.Until != 0 && entry.Commit.At > q.Until {
			continue
		}
		m.commit(entry)
		if len(m.list) >= most {
			break
		}
	}
	return m.list, nil
}

func (m *matching) commit(entry events.Entry) {
	var outside *unit
	for i := range entry.Commit.Events {
		ev := &entry.Commit.Events[i]
		u := outside
		if ev.Turn != "" {
			u = m.turns[ev.Turn]
		}
		if u == nil {
			u = m.unit()
			if ev.Turn != "" {
				m.turns[ev.Turn] = u
			} else {
				outside = u
			}
		}
		m.event(u, entry, i)
	}
}

func (m *matching) unit() *unit {
	u := &unit{texts: make(map[string]bool), tool: m.q.Tool == "", actor: m.q.Actor == "", outcome: m.q.Outcome == ""}
	for _, text := range m.lower {
		u.texts[text] = true
	}
	return u
}

// complete reports whether everything is found.
func (u *unit) complete() bool { return len(u.texts) == 0 && u.tool && u.actor && u.outcome }

func (m *matching) event(u *unit, entry events.Entry, pos int) {
	if u.begun && u.complete() {
		return // it is in the list
	}
	ev := &entry.Commit.Events[pos]
	f := index.Of(ev)
	news, text := !u.begun && u.complete(), ""
	if !u.tool && slices.Contains(f.Tools, m.q.Tool) {
		u.tool, news = true, true
	}
	if !u.outcome && slices.Contains(f.Outcomes, m.q.Outcome) {
		u.outcome, news = true, true
	}
	if !u.actor && m.byActor(entry, ev) {
		u.actor, news = true, true
	}
	for _, s := range f.Texts {
		if len(u.texts) == 0 {
			break
		}
		lower := index.Lower(s)
		for wanted := range u.texts {
			if at := strings.Index(lower, wanted); at >= 0 {
				delete(u.texts, wanted)
				if text == "" {
					text = snippet(lower, s, at, len(wanted))
				}
				news = true
			}
		}
	}
	if news && (u.at.Seq == 0 || text != "" && !u.begun) {
		u.begun = text != ""
		u.at = Match{api.Match{Turn: ev.Turn, Seq: entry.Seq, Pos: pos, At: entry.Commit.At, Kind: ev.Kind, Actor: entry.Commit.Actor.String(), Text: text}, ev}
	}
	if u.complete() {
		u.begun = true
		m.list = append(m.list, u.at)
	}
}

func (m *matching) byActor(entry events.Entry, ev *events.Event) bool {
	if index.ActorIs(entry.Commit.Actor.String(), m.q.Actor) {
		return true
	}
	p, ok := ev.Payload.(*events.ToolApprovalGiven)
	return ok && index.ActorIs(p.By, m.q.Actor)
}

// snippetBytes is how much of a text is shown before and after a match.
const snippetBytes = 60

// snippet is a text around a match, on one line. The place is in the text in lower case, which has another length where
// characters do; then the lower case is shown.
func snippet(lower, text string, at, length int) string {
	if len(lower) != len(text) {
		text = lower
	}
	from, to := max(0, at-snippetBytes), min(len(text), at+length+snippetBytes)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	out := strings.Join(strings.Fields(text[from:to]), " ")
	if from > 0 {
		out = "..." + out
	}
	if to < len(text) {
		out += "..."
	}
	return out
}
