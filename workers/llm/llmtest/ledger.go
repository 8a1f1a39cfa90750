package llmtest

import (
	"errors"
	"fmt"
	"slices"
)

// callLedger is the rule all dialects share: ids are unique, and all calls of a
// message are answered, each once, before anything else is said.
type callLedger struct {
	limit int // bytes of an id
	seen  []string
	open  []string
}

func (l *callLedger) call(id string) error {
	if id == "" || len(id) > l.limit || slices.Contains(l.seen, id) {
		return fmt.Errorf("call id %q: empty, too long or used before", id)
	}
	l.seen = append(l.seen, id)
	l.open = append(l.open, id)
	return nil
}

// answer wants results in call order, which is stricter than the APIs are and
// what adapters owe.
func (l *callLedger) answer(id string) error {
	if len(l.open) == 0 || l.open[0] != id {
		return fmt.Errorf("result for %q, want one for the first of %q", id, l.open)
	}
	l.open = l.open[1:]
	return nil
}

func (l *callLedger) settled() error {
	if len(l.open) > 0 {
		return errors.New("calls without results")
	}
	return nil
}
