package remote

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lash-go/lash/session/plugin/wire"
)

// maxWithdrawn limits the questions that an instance withdraws at once. Further ones replace the oldest.
const maxWithdrawn = 256

// withdrawal is a question that no tool waits for.
type withdrawal struct {
	question wire.Question
	at       time.Time
}

// withdraw lists a question in the next signs of life, unless a node has cancelled its call: the turn ends, then.
func (c *calls) withdraw(q wire.Question, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byID[q.CallID]; known == nil || known.stopped {
		return
	}
	c.withdrawn = append(c.withdrawn, withdrawal{q, now})
	c.withdrawn = c.withdrawn[max(0, len(c.withdrawn)-maxWithdrawn):]
}

// keepQuestionsLocked drops withdrawn questions that keep does not want.
func (c *calls) keepQuestionsLocked(keep func(withdrawal) bool) {
	c.withdrawn = slices.DeleteFunc(c.withdrawn, func(w withdrawal) bool { return !keep(w) })
}

// waitsAgain takes a question back from those that are withdrawn.
func (c *calls) waitsAgain(q wire.Question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepQuestionsLocked(func(w withdrawal) bool { return w.question != q })
}

// hasWithdrawn reports whether the next sign of life names a question.
func (c *calls) hasWithdrawn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.withdrawn) > 0
}

// signed is the JSON of a sign of life, with as many withdrawn questions as fit. The next sign has the ones after them.
func (c *calls) signed(sign wire.Sign) ([]byte, error) {
	data, err := json.Marshal(&sign)
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.withdrawn {
		next := c.withdrawn[0]
		sign.Withdrawn = append(sign.Withdrawn, next.question)
		more, failed := json.Marshal(&sign)
		if failed != nil || len(more) > wire.MaxSignBytes && len(sign.Withdrawn) > 1 {
			break
		}
		if c.withdrawn = append(c.withdrawn[1:], next); len(more) > wire.MaxSignBytes { // it is too long for any sign
			break
		}
		data = more
	}
	return data, err
}
