package llmtest

import (
	"errors"
	"fmt"
	"slices"
)

// callLedger checks the rule of all dialects: ids are unique, and each call of a message has one result before any
// other message.
type callLedger struct {
	limit int // bytes of an id
	calls []string
	open  []string
}

func (l *callLedger) call(id string) error {
	if id == "" || len(id) > l.limit || slices.Contains(l.calls, id) {
		return fmt.Errorf("call id %q: empty, too long or used before", id)
	}
	l.calls = append(l.calls, id)
	l.open = append(l.open, id)
	return nil
}

// resolve expects results in call order, which is stricter than the APIs.
func (l *callLedger) resolve(id string) error {
	if len(l.open) == 0 || l.open[0] != id {
		return fmt.Errorf("result for %q, want one for the first of %q", id, l.open)
	}
	l.open = l.open[1:]
	return nil
}

func (l *callLedger) checkComplete() error {
	if len(l.open) > 0 {
		return errors.New("calls without results")
	}
	return nil
}
