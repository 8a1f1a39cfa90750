package plugincheck

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/session/plugin/wire"
)

// givesUp has the tool ask people and give up. Signs of life name the question until its call is recorded: otherwise the turn waits for
// people, although no tool does.
func (s *setting) givesUp(ctx context.Context) error {
	q := wire.Question{CallID: wire.CallID{Session: "s", Call: "gives-up"}, ID: "unanswered"}
	var asked []wire.Callback
	in := wire.Call{CallID: q.CallID, Tool: "give_up", Args: jsonOf(object{"id": q.ID, "question": "Which one?", "millis": 300})}
	a, err := s.call(ctx, &in, func(p *wire.Progress) {
		if p.Callback != nil {
			asked = append(asked, *p.Callback)
		}
	})
	switch {
	case err != nil:
		return err
	case a.outcome == nil || a.outcome.Text != "gave up":
		return fmt.Errorf("got %s, want the text %q", a, "gave up")
	case len(asked) == 0 || asked[0].ID != q.ID || asked[0].Method != "POST" || asked[0].Path != wire.AskPath || !sameJSON(asked[0].Body, jsonOf(object{"question": "Which one?"})):
		return fmt.Errorf("the callbacks are %s, want the question", jsonOf(asked))
	}
	if err := s.until(ctx, func() error {
		if n := s.withdrawals(q, 0); n < 2 {
			return fmt.Errorf("%d signs of life name the question as withdrawn, want it in each", n)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.tell(wire.VerbRecorded, q.CallID); err != nil {
		return err
	}
	return s.until(ctx, func() error {
		n := len(s.signsOf(s.instance()))
		if err := s.signsAfter(ctx, n+2); err != nil { // the first one may be older than the message
			return err
		}
		if s.withdrawals(q, n+1) > 0 {
			return errors.New("signs of life name the question as withdrawn, although its call is recorded")
		}
		return nil
	})
}

// withdrawals is the number of signs of life of the main program that name a question as withdrawn, without the first ones.
func (s *setting) withdrawals(q wire.Question, first int) (n int) {
	list := s.signsOf(s.instance())
	for i := first; i < len(list); i++ {
		if slices.Contains(list[i].Withdrawn, q) {
			n++
		}
	}
	return n
}
