package mcp

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// patient are people who answer once answer is closed, or not at all. asked has an element for each question.
type patient struct {
	people

	asked  chan struct{}
	answer chan struct{}
}

func (p patient) Ask(ctx context.Context, _, _ string, _ json.RawMessage) (events.ToolApprovalGiven, error) {
	p.asked <- struct{}{}
	select {
	case <-p.answer:
		return events.ToolApprovalGiven{Granted: true}, nil
	case <-ctx.Done():
		return events.ToolApprovalGiven{}, context.Cause(ctx)
	}
}

// TestQuestionOutlivesItsCall has a server ask while two calls of a session run. People are asked in the second one, which ends
// before they answer: they are asked in the first one, and the server gets their answer.
func TestQuestionOutlivesItsCall(t *testing.T) {
	t.Parallel()
	s := &Source{log: zap.NewNop(), warned: rate.NewLimiter(1, 1), asking: make(chan struct{}, questionsAtOnce)}
	run := newServerRun(t)
	s.calls.begin(run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := func(p patient) (end func()) {
		started, ended, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() { // ends with end
			defer close(over)
			_, _ = s.calls.do(ctx, run, &activeCall{session: "s", caller: p, server: "srv", warn: s.warn}, func(context.Context, string) (*wire.Outcome, error) {
				close(started)
				<-ended
				return nil, nil //nolint:nilnil // the outcome does not matter
			})
		}()
		<-started
		return func() { close(ended); <-over }
	}
	first, second := patient{asked: make(chan struct{}, 1), answer: make(chan struct{})}, patient{asked: make(chan struct{}, 1), answer: make(chan struct{})}
	endFirst, endSecond := start(first), start(second)
	answers := make(chan *mcp.ElicitResult, 1)
	go func() { // ends with the answer
		answer, err := s.ask(ctx, &mcp.ElicitParams{Message: "Which one?"})
		if err != nil {
			t.Errorf("ask: %v", err)
		}
		answers <- answer
	}()
	<-second.asked
	endSecond()
	<-first.asked
	close(first.answer)
	if answer := <-answers; answer == nil || answer.Action != accept {
		t.Errorf("got %+v, want the answer", answer)
	}
	endFirst()
}
