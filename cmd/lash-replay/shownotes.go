package main

import (
	"strings"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// headNote is what the head of a reply says about its model call.
func (v *shownSession) headNote(n *projector.Node) string {
	call := v.callOf(n)
	if call == nil {
		return ""
	}
	p := v.model[messageKey{n.Turn, n.Message.ID}]
	return joined(call.Model, duration(call.Millis), tries(call.Attempts), usageSummary(p.Cost()), call.Cost.String())
}

// resultNote is what the head of a result says about its call.
func (v *shownSession) resultNote(n *projector.Node, index int) string {
	r := v.result(n, index)
	if r == nil {
		return ""
	}
	return joined(duration(r.Millis), tries(r.Attempts), quotedWord(r.Class), quotedWord(r.Code))
}

// endNote is what the end of a turn says about its cost.
func (v *shownSession) endNote(r *projector.TurnRecord) string {
	if !v.prices.known() {
		return ""
	}
	if v.costs == nil {
		v.costs = make(map[events.TurnID]micros)
		for key, p := range v.model {
			sum, counted := v.costs[key.turn]
			c := v.prices.of(p.Provider, p.Model, p.Cost())
			v.costs[key.turn] = micros{sum.N + c.N, c.Known && (sum.Known || !counted)}
		}
	}
	return v.costs[r.ID].String()
}

// matchingLines are the lines of a text that --grep selects.
func (v *shownSession) matchingLines(text string) string {
	var list []string
	for line := range strings.SplitSeq(text, "\n") {
		if v.grep.MatchString(line) {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

// duration formats milliseconds; empty for 0, which is not recorded.
func duration(millis int64) string {
	if millis == 0 {
		return ""
	}
	return (time.Duration(millis) * time.Millisecond).String()
}

// tries is the number of attempts; empty for one.
func tries(n int64) string {
	if n <= 1 {
		return ""
	}
	return program.Number(n, "attempt")
}

func quotedWord(s string) string {
	if s == "" {
		return ""
	}
	return quoted(s)
}
