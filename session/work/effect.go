package work

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// Launch tells that an effect runs. A model call builds on the events of the batch.
func (m *Machine) Launch(e *Effect) {
	e.ahead = e.Prompt != "" && len(m.batch.events) > 0
	m.Inflight[e.ID] = e
}

// Result is the result of an effect; nil: it has nothing to record. Results of calls that come before the next step are
// recorded in one event. The result of an effect that was discarded, or of an earlier turn, is dropped.
func (m *Machine) Result(e *Effect, in turn.Input) {
	if m.Inflight[e.ID] != e {
		return
	}
	delete(m.Inflight, e.ID)
	if t := m.State.Turn(); in == nil || t == nil || t.ID != e.Turn {
		return
	}
	if more, ok := in.(turn.Results); ok && len(m.queue) > 0 {
		last := &m.queue[len(m.queue)-1]
		if results, ok := last.in.(turn.Results); ok && results.Iteration == more.Iteration {
			last.in = joined(results, more)
			return
		}
	}
	m.queue = append(m.queue, queued{in: in, ahead: e.ahead})
}

// joined has both results, in the order of the calls in the reply.
func joined(results, more turn.Results) turn.Results {
	results.Results = append(results.Results, more.Results...)
	results.Pending = append(results.Pending, more.Pending...)
	results.Extra = append(results.Extra, more.Extra...)
	if results.Stopped == nil {
		results.Stopped = more.Stopped
	}
	slices.SortFunc(results.Results, func(a, b events.ToolResult) int { return int(a.Call - b.Call) })
	slices.Sort(results.Pending)
	return results
}

// Record records events of an effect, which waits for them: the answer follows when the log has them. An error is the
// answer at once.
func (m *Machine) Record(e *Effect, list []events.Payload) error {
	if err := m.checkEffect(e); err != nil {
		return err
	}
	m.recording = e
	m.Input(turn.Facts{Extra: list})
	return nil
}

// answer answers the effect that recorded events. It must not continue if another worker took the turn over while the response
// to the append was under way.
func (m *Machine) answer() (rd Ready, found bool) {
	switch {
	case m.recording == nil:
		return Ready{}, false
	case m.isAged():
		return m.request(Read), true
	}
	rd = Ready{Do: Answer, Err: m.checkEffect(m.recording)}
	m.recording = nil
	return rd, true
}

// checkEffect returns [turn.ErrStale] if the effect was discarded (the turn may have started it again), or if its
// turn has ended or belongs to another worker.
func (m *Machine) checkEffect(e *Effect) error {
	if t := m.State.Turn(); m.Inflight[e.ID] != e || t == nil || t.ID != e.Turn || !m.IsOurs(t) {
		return fmt.Errorf("effect %s: %w", e.ID, turn.ErrStale)
	}
	return nil
}

// cancelEffects cancels the effects that run, and drops their results. why is the cause that effects see. nil: the turn ends, and a
// call in another process is cancelled. Else the turn goes on elsewhere, and such a call continues.
func (m *Machine) cancelEffects(why error) {
	for id, e := range m.Inflight {
		e.Cancel(why)
		delete(m.Inflight, id)
	}
}

// Drop drops a turn that another worker has taken over, with its effects: why is the cause of their end. The run continues as if its
// wake had just arrived.
func (m *Machine) Drop(why error) {
	m.RollBack()
	m.cancelEffects(why)
	m.recording, m.ran = nil, nil
	m.reread, m.stepped, m.superseded, m.claimed = false, false, false, Attempt{}
}
