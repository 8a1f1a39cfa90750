package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/task"
)

// CloseSession ends a session and, in the same commit, its live tasks whose policy
// is not to go on: [events.ClosePolicy]. Those that are to become the parent's do so before it. A second
// close does nothing, nor does that of a session which never was; a turn that
// runs or waits in the queue refuses it with [ErrTurnRunning]; one that waits for
// its time ends as cancelled, in the same commit. That is one commit whatever the session holds: [MostQueued],
// [task.MaxLive], [task.MaxMonitors] and [MaxReasonBytes] see to it.
func (h *Host) CloseSession(ctx context.Context, id events.SessionID, reason string) error {
	if err := checkReason("reason", reason); err != nil {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	ctx, asked := api.TakeAsked(ctx)
	moves := mover{h: h, session: id, stuck: make(map[events.TaskID]bool)}
	try := func() error {
		return h.decideAsked(ctx, id, command{operation.Close.Name, "close", &reason}, asked, func(s *projector.State) ([]events.Event, error) {
			switch {
			case s.Status == projector.StatusClosed:
				return nil, nil
			case !s.Idle():
				return nil, fmt.Errorf("close session %s: %w", id, ErrTurnRunning)
			case moves.due(s): // for the session's own sake, so not before its caller may close it
				return nil, cmp.Or(mayAppend(ctx), errMoveFirst)
			}
			list := append(cancelScheduled(s), task.Close(s, "session closed")...)
			return append(list, events.Of("", &events.SessionClosed{Reason: reason})), open(s)
		})
	}
	err := try()
	for errors.Is(err, errMoveFirst) {
		if err = moves.move(ctx); err == nil {
			err = try()
		}
	}
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil // host specification 2.4
	case err == nil:
		h.stacks.forget(id)
	}
	return err
}

// errMoveFirst is a session that has tasks which are to become its parent's before it closes.
var errMoveFirst = errors.New("tasks are to be moved first")

// mover moves the tasks of a session that closes to its parent, where that takes them.
type mover struct {
	h       *Host
	session events.SessionID
	parent  events.SessionID
	tasks   []events.TaskID
	stuck   map[events.TaskID]bool // that the parent does not take
}

// due reports whether there are tasks to be moved.
func (m *mover) due(s *projector.State) bool {
	m.parent = s.Parent
	m.tasks = slices.DeleteFunc(task.Leaves(s), func(id events.TaskID) bool { return m.stuck[id] })
	return m.parent != "" && s.Status == projector.StatusOpen && len(m.tasks) > 0
}

// move moves them one by one, for the session's own sake: its caller may not reach the parent.
// One that the parent does not take is cancelled with the session.
func (m *mover) move(ctx context.Context) error {
	for _, id := range m.tasks {
		err := m.h.TransferAsyncHandles(api.Apart(ctx), m.session, m.parent, []events.TaskID{id})
		if err == nil {
			continue
		}
		switch _, class := api.Code(err); class {
		case api.ClassNotFound, api.ClassConflict, api.ClassInvalid, api.ClassTooLarge, api.ClassBusy:
			m.stuck[id] = true
		default:
			return err
		}
	}
	return nil
}

// cancelScheduled ends the turns that wait for their time.
func cancelScheduled(s *projector.State) []events.Event {
	var list []events.Event
	for i := range s.Scheduled {
		list = append(list, events.Of(s.Scheduled[i].ID, &events.TurnCompleted{End: events.EndCancelled}))
	}
	return list
}

// CloseOpening closes a session whose creator died before it had appended all
// initial nodes. A creator that goes on after all finds its session closed.
// One that moved since the sequence is left as it is.
func (h *Host) CloseOpening(ctx context.Context, id events.SessionID, at events.Seq, reason string) error {
	return h.decide(ctx, id, "expire", func(s *projector.State) ([]events.Event, error) {
		if s.Status != projector.StatusOpening || s.Seq != at {
			return nil, nil
		}
		return []events.Event{events.Of("", &events.SessionClosed{Reason: reason})}, nil
	})
}
