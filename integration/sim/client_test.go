package sim

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// policies are the policies for a turn that meets an unfinished turn.
var policies = []events.WhenBusy{
	events.BusyEnqueue, events.BusyEnqueue, events.BusyInject, events.BusyReject, events.BusyInterrupt, events.BusyBranch,
}

// anyHost is the host that serves a client: in a process of its own, or in a node.
func (w *world) anyHost() *host {
	if n := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(w.t, "host")]; !n.frozen && rapid.Bool().Draw(w.t, "node's") {
		return n.host
	}
	return w.clientHost
}

func (w *world) anySession() events.SessionID {
	return pick(w, w.facts.ids, "session")
}

func (w *world) anyTurn() events.TurnID {
	return turnID(rapid.IntRange(0, turns-1).Draw(w.t, "turn"))
}

func (w *world) firstSession() events.SessionID {
	return sessionID(rapid.IntRange(0, sessions-1).Draw(w.t, "session"))
}

func inputOf(id events.TurnID) events.TurnInput {
	return events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: string(id)}}}
}

// submit is a client that submits a turn, possibly for the second time.
func (w *world) submit(*rapid.T) {
	id, name, busy := w.firstSession(), w.anyTurn(), rapid.SampledFrom(policies).Draw(w.t, "busy")
	w.anyHost().submit(id, name, busy)
}

func (h *host) submit(id events.SessionID, name events.TurnID, busy events.WhenBusy) {
	hints, err := h.request(id, name, busy)
	h.respond(hints, err, func() { h.w.facts.of[id].addAccepted(name) })
}

// request appends the request of a turn. For a turn in the history it only publishes a wake.
func (h *host) request(id events.SessionID, name events.TurnID, busy events.WhenBusy) (hints []func(), err error) {
	attached, ended := false, false
	hints, err = h.decide(id, func(s *projector.State) ([]events.Event, error) {
		place, err := s.FindTurn(name)
		attached, ended = place.Known() && place.Scheduled == nil, place.Ended != nil
		if err != nil || attached {
			return nil, err
		}
		return turn.Request(s, name, events.TurnRequested{Input: inputOf(name), Busy: busy}), nil
	})
	if err == nil && attached && !ended {
		hints = h.wake(h.states[id])
	}
	return hints, err
}

func isScheduled(s *projector.State, name events.TurnID) bool {
	for i := range s.Scheduled {
		if s.Scheduled[i].ID == name {
			return true
		}
	}
	return false
}

// schedule is a client that submits a turn with a start time.
func (w *world) schedule(*rapid.T) {
	id, name, h := w.firstSession(), w.anyTurn(), w.anyHost()
	p := &events.TurnScheduled{Input: inputOf(name), At: w.now + w.anyWait(), Busy: rapid.SampledFrom(policies).Draw(w.t, "busy")}
	hints, err := h.decide(id, func(s *projector.State) ([]events.Event, error) {
		if place, err := s.FindTurn(name); place.Known() || err != nil {
			return nil, err
		}
		return []events.Event{events.Of(name, p)}, nil
	})
	h.respond(hints, err, func() { w.facts.of[id].addAccepted(name) })
}

func (w *world) anyWait() events.Millis {
	return rapid.SampledFrom([]events.Millis{1, 300, 4000, 30_000}).Draw(w.t, "wait")
}

// cancel is a client that cancels a turn.
func (w *world) cancel(*rapid.T) {
	w.ids++
	id, name, request, h := w.anySession(), w.anyTurn(), fmt.Sprintf("r%d", w.ids), w.anyHost()
	won := false
	hints, err := h.decide(id, func(s *projector.State) (list []events.Event, err error) {
		list, won, err = cancelling(s, name, request)
		return list, err
	})
	if err == nil && len(hints) == 0 {
		hints = h.wake(h.states[id]) // the host that appended the request may have died before its wake
	}
	h.respond(hints, err, func() { w.facts.of[id].checkCancel(w, name, won) })
}

// cancelling decides on a cancel request. won: the turn has ended, or continues in another session.
func cancelling(s *projector.State, name events.TurnID, request string) (list []events.Event, won bool, err error) {
	list = []events.Event{events.Of(name, &events.TurnCancelRequested{Request: request})}
	if t := s.Turn(); t != nil && t.ID == name {
		if t.Cancelled {
			return nil, false, nil
		}
		return list, false, nil
	}
	for i := range s.Queue {
		switch q := &s.Queue[i]; {
		case q.ID != name:
		case q.Busy == events.BusyBranch:
			return nil, true, nil
		case q.Cancelled:
			return nil, false, nil
		default:
			return list, false, nil
		}
	}
	if isScheduled(s, name) {
		return append(list, events.Of(name, &events.TurnCompleted{End: events.EndCancelled})), false, nil
	}
	record, err := s.Record(name)
	if record == nil && err == nil {
		err = errRefused
	}
	return nil, true, err
}

// inject is a client that adds a message outside of turns.
func (w *world) inject(*rapid.T) {
	w.ids++
	id, input, h := w.anySession(), events.InputID(fmt.Sprintf("i%d", w.ids)), w.anyHost()
	p := &events.InputInjected{Input: input, Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: string(input)}}}
	hints, err := h.decide(id, func(s *projector.State) ([]events.Event, error) {
		if len(s.Inputs) > 4 {
			return nil, errRefused
		}
		return []events.Event{events.Of("", p)}, nil
	})
	h.respond(hints, err, func() {})
}

// approvalAnswer is an approval answer that a client prepares.
type approvalAnswer struct {
	session events.SessionID
	answer  events.ToolApprovalGiven
}

// answerApproval is a client that answers an approval request. It answers at once, or it prepares the answer and sends it at
// any later time, possibly twice.
func (w *world) answerApproval(*rapid.T) {
	id := w.anySession()
	var list []approvalAnswer
	if t := w.state(id).Turn(); t != nil {
		for i := range t.Asks {
			list = append(list, approvalAnswer{id, events.ToolApprovalGiven{Effect: t.Asks[i].Effect}})
		}
	}
	one := pick(w, list, "question")
	if len(list) == 0 {
		return
	}
	one.answer.Granted = rapid.IntRange(0, 3).Draw(w.t, "granted") > 0
	h := w.anyHost()
	if w.chance(4, "late") {
		h.later(func() { h.approve(one) })
		return
	}
	h.approve(one)
}

func (h *host) approve(one approvalAnswer) {
	answered := false
	hints, err := h.decide(one.session, func(s *projector.State) ([]events.Event, error) {
		answered = false
		t := s.Turn()
		if t == nil || t.Cancelled || t.Approval(one.answer.Effect) == nil {
			return nil, errRefused
		}
		if a := t.Approval(one.answer.Effect); a.Answered {
			answered = true
			if a.Answer.Granted != one.answer.Granted {
				return nil, errRefused
			}
			return nil, nil
		}
		out, err := turn.Step(s, turn.Answer{ToolApprovalGiven: one.answer})
		return out.Events, err
	})
	if err == nil && answered {
		hints = h.wake(h.states[one.session])
	}
	h.respond(hints, err, func() { h.w.facts.of[one.session].checkApproval(h.w, one.answer) })
}

// resolve is a client that sends the result of a pending call.
func (w *world) resolve(*rapid.T) {
	id := w.anySession()
	var list []events.EffectID
	if t := w.state(id).Turn(); t != nil {
		for i := range t.Calls {
			if effect := turn.ToolEffect(t.ID, t.Iteration, int64(i)); t.Calls[i].Tool == toolOutside && turn.Resolvable(t, effect) {
				list = append(list, effect)
			}
		}
	}
	if effect := pick(w, list, "call"); effect != "" {
		h := w.anyHost()
		hints, err := h.resolve(id, effect, events.ToolResult{Text: "from outside"})
		h.respond(hints, err, func() { w.facts.of[id].checkResult(w, effect) })
	}
}

func (h *host) resolve(id events.SessionID, effect events.EffectID, result events.ToolResult) ([]func(), error) {
	return h.decide(id, func(s *projector.State) ([]events.Event, error) {
		t := s.Turn()
		if t == nil || t.Cancelled || !turn.Resolvable(t, effect) {
			return nil, errRefused
		}
		out, err := turn.Step(s, turn.Resolved{ToolResolved: events.ToolResolved{Effect: effect, Result: result}})
		return out.Events, err
	})
}
