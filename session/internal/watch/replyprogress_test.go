package watch

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

func TestReplyProgressJudge(t *testing.T) {
	t.Parallel()
	commits := [][]events.Event{
		{events.Of("", &events.SessionOpened{})},
		{events.Of("t0", &events.TurnRequested{}), events.Of("t0", &events.TurnStarted{Attempt: 1, Worker: "w"})},
		{events.Of("t0", &events.TurnCompleted{End: events.EndCancelled})},
		{events.Of("t1", &events.TurnRequested{}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w"})},
		{events.Of("t1", &events.ModelReplied{Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Tool: "x"}}})},
	}
	heard, folded := replyProgress{}, projector.New("s1")
	for i, list := range commits {
		entry := events.Entry{Seq: events.Seq(i + 1), Commit: &events.Commit{Session: "s1", Events: list}}
		heard.commit(entry)
		runtest.NoError(t, folded.Apply(entry))
	}
	joined := replyProgressOf(folded)
	at := api.Delta{Turn: "t1", Iteration: 1, Call: 5, Attempt: 2, N: 3} // delivered
	heard.delivered(&at)
	joined.delivered(&at)
	for _, c := range []struct {
		name string
		d    api.Delta
		want verdict
	}{
		{"next", api.Delta{Turn: "t1", Iteration: 1, Call: 5, Attempt: 2, N: 4}, deltaNext},
		{"same", at, deltaOld},
		{"hole", api.Delta{Turn: "t1", Iteration: 1, Call: 5, Attempt: 2, N: 5}, deltaGap},
		{"older-attempt", api.Delta{Turn: "t1", Iteration: 1, Call: 5, Attempt: 1, N: 9}, deltaOld},
		{"newer-attempt", api.Delta{Turn: "t1", Iteration: 1, Call: 5, Attempt: 3}, deltaNext},
		{"newer-attempt-later", api.Delta{Turn: "t1", Iteration: 1, Call: 5, Attempt: 3, N: 1}, deltaGap},
		{"older-call", api.Delta{Turn: "t1", Iteration: 1, Call: 4, Attempt: 3, N: 4}, deltaOld},
		{"newer-call", api.Delta{Turn: "t1", Iteration: 1, Call: 6, Attempt: 1}, deltaNext},
		{"recorded-reply", api.Delta{Turn: "t1", Iteration: 0, Call: 9, Attempt: 1}, deltaOld},
		{"reply-not-heard", api.Delta{Turn: "t1", Iteration: 2, Call: 9, Attempt: 1}, deltaAhead},
		{"turn-not-heard", api.Delta{Turn: "t2", Call: 9, Attempt: 1}, deltaAhead},
	} {
		for who, s := range map[string]*replyProgress{"heard": &heard, "joined": &joined} {
			if got := s.judge(&c.d); got != c.want {
				t.Errorf("%s %s: got %d, want %d", who, c.name, got, c.want)
			}
		}
	}
	runtest.Equal(t, "straggler of the turn before", heard.judge(&api.Delta{Turn: "t0", Call: 1, Attempt: 1}), deltaOld)
}
