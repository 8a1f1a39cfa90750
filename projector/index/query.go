package index

import (
	"bytes"
	"strings"

	"github.com/lash-go/lash/events"
)

// Query is what a search looks for. Everything that is set must be found.
type Query struct {
	Texts   []string          `query:"text"` // each occurs in a text, without regard to case
	Tool    string            `query:"tool"`
	Actor   string            `query:"actor"` // kind and id, such as client:alice, or the id
	Outcome string            `query:"outcome"`
	Since   events.Millis     `query:"since_ms"` // 0: from the beginning
	Until   events.Millis     `query:"until_ms"` // 0: to the end
	Labels  map[string]string `query:"label"`    // of the session; an empty value is any
}

// IsZero reports whether the query has no condition.
func (q *Query) IsZero() bool {
	return len(q.Texts) == 0 && q.Tool == "" && q.Actor == "" && q.Outcome == "" && q.Since == 0 && q.Until == 0 && len(q.Labels) == 0
}

// Plan is a query in the form in which rows are tested.
type Plan struct {
	q     Query
	texts [][]byte   // parts of the decoded words
	names [][][]byte // one of each list
}

// NewPlan prepares a query.
func NewPlan(q Query) *Plan {
	p := &Plan{q: q}
	for _, text := range q.Texts {
		p.texts = append(p.texts, needles(text)...)
	}
	if q.Tool != "" {
		p.names = append(p.names, exactly(toolMark, q.Tool))
	}
	if q.Outcome != "" {
		p.names = append(p.names, exactly(outcomeMark, q.Outcome))
	}
	if q.Actor != "" {
		list := exactly(actorMark, q.Actor)
		for _, kind := range []events.ActorKind{events.ActorClient, events.ActorNode, events.ActorPlugin, events.ActorSystem} {
			list = append(list, exactly(actorMark, string(kind)+":"+q.Actor)...)
		}
		p.names = append(p.names, list)
	}
	return p
}

func exactly(mark, name string) [][]byte {
	return [][]byte{[]byte("\n" + mark + name + "\n")}
}

// needles are the parts of the decoded words that a row has if a text occurs in the session: words inside the text are
// whole, the first and the last one may be parts of others.
func needles(text string) (list [][]byte) {
	var found []string
	words(text, func(w string) { found = append(found, w) })
	lower := Lower(text)
	for i, w := range found {
		needle := w
		if i > 0 || !strings.HasPrefix(lower, w) {
			needle = "\n" + needle
		}
		if whole := len(w) < WordBytes-4; whole && (i < len(found)-1 || !strings.HasSuffix(lower, w)) { // a word of the limit may go on
			needle += "\n"
		}
		list = append(list, []byte(needle))
	}
	return list
}

// May reports whether the session of a row may match. buf is memory for the words, which May returns for the next row.
func (p *Plan) May(r *Row, buf []byte) (bool, []byte) {
	if !p.inTime(r.First, r.At) || !HasLabels(r.Labels, p.q.Labels) {
		return false, buf
	}
	if len(p.texts) == 0 && len(p.names) == 0 {
		return true, buf
	}
	decoded, err := decode(buf[:0], r.Words)
	if err != nil {
		return true, buf // a damaged row hides nothing
	}
	for _, list := range p.names {
		found := false
		for _, name := range list {
			found = found || bytes.Contains(decoded, name)
		}
		if !found {
			return false, decoded
		}
	}
	if r.Partial {
		return true, decoded
	}
	for _, needle := range p.texts {
		if !bytes.Contains(decoded, needle) {
			return false, decoded
		}
	}
	return true, decoded
}

// inTime reports whether a session may have commits at a time of the query.
func (p *Plan) inTime(first, last events.Millis) bool {
	return p.q.Since <= last && (p.q.Until == 0 || p.q.Until >= first)
}

// HasLabels reports whether labels have all wanted ones. A wanted empty value is any.
func HasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, ok := labels[key]; !ok || value != "" && have != value {
			return false
		}
	}
	return true
}

// ActorIs reports whether an actor, such as client:alice, is the wanted one: the whole, or its id.
func ActorIs(actor, wanted string) bool {
	_, id, _ := strings.Cut(actor, ":")
	return actor == wanted || id == wanted
}
