package workers

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// requested puts a turn behind those that wait; where they are as many as
// may be, it ends there and then, and the history says why. Hosts refuse at
// the door, but count only now and then.
func (r *run) requested(id events.TurnID, input events.TurnInput) []events.Event {
	list := []events.Event{events.Of(id, &events.TurnRequested{Input: input})}
	if len(r.state.Queue) < r.w.cfg.MaxQueued {
		return list
	}
	full := &api.LimitError{What: "queued turns", Limit: r.w.cfg.MaxQueued}
	return append(list, events.Of(id, &events.TurnCompleted{End: events.EndFailed, Issue: issueOf("limit", api.CodeQueueFull, full)}))
}
