package workers

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TestAdvanceEnded owes a tool call to a run that has been stopped: it must not begin.
func TestAdvanceEnded(t *testing.T) {
	t.Parallel()
	s := projector.New("s")
	c := &events.Commit{ID: "c", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{
		events.Of("", &events.SessionOpened{}), events.Of("t", &events.TurnRequested{}), events.Of("t", &events.TurnStarted{Attempt: 1, Worker: "w"}),
		events.Of("t", &events.ModelReplied{Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Call: "k", Tool: "once"}}}),
	}}
	if err := s.Apply(events.Entry{Seq: 1, Commit: c}); err != nil {
		t.Fatal(err)
	}
	r := newRun(&Worker{cfg: Config{ID: "w"}}, &bus.Job{Session: "s", ID: "t"})
	r.state, r.g.claimed = s, true
	ctx, stop := context.WithCancelCause(t.Context())
	stop(ErrStopped)
	if done, err := r.advance(ctx); done || !errors.Is(err, ErrStopped) || len(r.flights) != 0 || s.Seq != 1 {
		t.Errorf("got %v, %v, %d flights, want %v and nothing begun", done, err, len(r.flights), ErrStopped)
	}
}
