package workers

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// requested puts a turn behind those that wait, as its policy says; where they
// are as many as may be, it ends there and then, and the history says why.
// Hosts refuse at the door, but count only now and then.
func (r *run) requested(id events.TurnID, cmd *session.Command) []events.Event {
	if len(r.state.Queue) < r.w.cfg.MaxQueued {
		return turn.Request(r.state, id, cmd.Input, cmd.Busy)
	}
	full := &api.LimitError{What: "queued turns", Limit: r.w.cfg.MaxQueued}
	list := []events.Event{events.Of(id, &events.TurnRequested{Input: cmd.Input})}
	return append(list, events.Of(id, &events.TurnCompleted{End: events.EndFailed, Issue: issueOf("limit", api.CodeQueueFull, full)}))
}
