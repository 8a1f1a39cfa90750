package llm

import (
	"cmp"
	"strings"

	"github.com/lash-go/lash/events"
)

// missing are the pieces of a whole reply that were not received before it: the calls after as many as were, and what its texts
// add. It completes calls that have no arguments.
func (a *assembly) missing(whole []Piece) (list []Piece) {
	said := map[events.PartKind]string{}
	var calls []*assembled
	for _, part := range a.parts {
		if part.part.Kind == events.PartToolCall {
			calls = append(calls, part)
		} else {
			said[part.part.Kind] += part.said.String()
		}
	}
	for _, p := range whole {
		switch {
		case p.Kind == events.PartToolCall && len(calls) > 0:
			if part := calls[0]; part.said.Len() == 0 && p.Text != "" {
				part.whole, part.part.Tool = p.Text, cmp.Or(part.part.Tool, p.Tool)
			}
			calls = calls[1:]
		case p.Kind == events.PartToolCall, p.Kind != "" && said[p.Kind] == "":
			p.Begin = true
			list = append(list, p)
		case p.Kind != "" && p.Text != "":
			list = append(list, Piece{Kind: p.Kind, Text: a.added(p.Text, said[p.Kind])})
		}
	}
	return list
}

// added is what a whole text adds to what was said. Some endpoints send whole replies in place of pieces, each with all text until
// then, or with the next text alone. After pieces a whole text is a repetition: it adds its rest where it begins with them.
func (a *assembly) added(whole, said string) string {
	rest, grown := strings.CutPrefix(whole, said)
	switch {
	case grown && !a.texts:
		return rest
	case a.streamed:
		return ""
	}
	a.texts = true
	return whole
}
