package callback

import (
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
)

// closeWait limits the time in which a withdrawn question is closed. The next sign of life repeats it.
const closeWait = 10 * time.Second

// withdrawnReason is the reason in the history of an answer in place of people's.
const withdrawnReason = "the question was withdrawn: the tool no longer waits for an answer"

// CloseQuestion denies a question of a plugin in the plugin's name, and reports whether the history has an answer: not yet, where the
// question is not recorded yet. A question of another plugin, and one that people have answered, stay as they are.
func (a *API) CloseQuestion(ctx context.Context, name string, q wire.Question) (done bool, err error) {
	if err := errors.Join(events.CheckToken("session", string(q.Session)), events.CheckToken("id", q.ID)); err != nil {
		return true, err
	}
	ctx, cancel := context.WithTimeout(api.WithoutCaller(ctx), closeWait)
	defer cancel()
	s, err := a.service.State(ctx, q.Session)
	if errors.Is(err, events.ErrNoSession) {
		return true, nil
	}
	if err != nil || s.Turn() == nil { // without a turn there is no question
		return err == nil, err
	}
	answer := events.ToolApprovalGiven{Effect: events.QuestionEffect(q.Call, q.ID), By: wire.CallerOf(name), Reason: withdrawnReason}
	asked := s.Turn().Approval(answer.Effect)
	switch {
	case asked == nil:
		return false, nil
	case asked.Plugin != name || asked.Answered:
		return true, nil
	}
	err = a.service.Approve(ctx, q.Session, answer)
	if errors.Is(err, api.ErrDifferent) || errors.Is(err, api.ErrNotAsked) { // people were faster, or the turn has ended
		err = nil
	}
	return err == nil, err
}
