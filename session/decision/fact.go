package decision

import (
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

func isPartial(err error) bool { return errors.Is(err, projector.ErrPartial) }

// isAlwaysInput reports whether an event is an input wherever it stands. Events of unknown kinds are.
func isAlwaysInput(ev *events.Event) bool {
	switch p := ev.Payload.(type) {
	case *events.HookRan: // hooks around a call or a reply are a part of it
		return p.Point == events.PointAfterTool || p.Point == events.PointReply
	case *events.TurnDiverted:
		return p.End == events.EndBranched
	case *events.ToolCalled: // a further attempt is the worker's
		return p.Attempt > 0
	case *events.ToolApprovalAsked: // that of a call inside of a call is a part of the outer one
		_, _, _, ok := turn.ParseToolEffect(p.Effect)
		return !ok
	}
	return ev.Payload == nil || !events.IsDecided(ev.Kind)
}

// isInput reports whether the event that begins a step is an input by itself: one wherever it stands, or an act of a host. Hosts inside of
// nodes append as nodes do, so what decides is the kind.
func (c *comparison) isInput() bool {
	ev := &c.list[c.at]
	if isAlwaysInput(ev) {
		return true
	}
	switch p := ev.Payload.(type) {
	case *events.ToolApprovalGiven, *events.ToolResolved, *events.TurnRequested:
		return false
	case *events.GraphAppended, *events.FrameOpened: // no step of the machine begins with these
		return true
	case *events.GraphBranched, *events.ToolStateApplied:
		next := c.after(c.at)
		return next == nil || c.entry.Commit.Actor.Kind != events.ActorNode || !c.follows(ev, next)
	case *events.TurnCompleted:
		return c.endsOther(ev.Turn, p)
	}
	return c.entry.Commit.Actor.Kind != events.ActorNode
}

// follows reports whether next continues the events of a claim, or of a failed start.
func (c *comparison) follows(ev, next *events.Event) bool {
	if ev.Turn == "" || next.Turn != ev.Turn {
		return false
	}
	_, ends := next.Payload.(*events.TurnCompleted)
	if c.s.Turn() != nil {
		return ends && ev.Kind == events.KindGraphBranched
	}
	switch next.Payload.(type) {
	case *events.ToolStateApplied, *events.InputAccepted, *events.TurnStarted:
		return true
	}
	return ends
}

// endsOther reports whether the event ends a turn that neither runs nor starts next: a host cancels a scheduled turn, or a
// turn cannot continue in another session.
func (c *comparison) endsOther(id events.TurnID, p *events.TurnCompleted) bool {
	if t := c.s.Turn(); t != nil {
		return t.ID != id
	}
	if len(c.s.Queue) == 0 {
		return true
	}
	first := &c.s.Queue[0]
	return first.ID != id || first.Busy == events.BusyBranch && p.End == events.EndFailed
}

// after is the next event after the index i that is no input wherever it stands, or nil.
func (c *comparison) after(i int) *events.Event {
	for i++; i < len(c.list); i++ {
		if !isAlwaysInput(&c.list[i]) {
			return &c.list[i]
		}
	}
	return nil
}
