package work

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// batch is the commit that a run prepares. The machine's state has its events folded ahead; durable is the state without
// them.
type batch struct {
	// ahead: the batch has the reply to a prompt that contained events of the batch, which the log did not have yet. After a
	// conflict the reply counts only where the prompt is still the same.
	ahead     bool
	events    []events.Event
	inputs    []turn.Input // the events follow from these inputs, which are stepped again after a conflict
	startedAt events.Millis
	bytes     int
	durable   *projector.State
	until     time.Time // when the batch is appended, if it lingers
}

// flushBytes is the size at which a lingering batch is appended.
const flushBytes = 512 << 10

// Durable is the state that the log has: without the events of the batch.
func (m *Machine) Durable() *projector.State {
	if len(m.batch.events) > 0 {
		return m.batch.durable
	}
	return m.State
}

// Input makes an input of the state machine of turns the next one.
func (m *Machine) Input(in turn.Input) { m.queue = append(m.queue, queued{in: in}) }

// Append appends events that follow from no input. After a conflict the state decides again.
func (m *Machine) Append(list []events.Event) { m.queue = append(m.queue, queued{list: list}) }

// GiveUp ends the running turn, or the next one, with a reason.
func (m *Machine) GiveUp(why events.Issue) error {
	list, err := turn.GiveUp(m.State, why)
	if errors.Is(err, turn.ErrStale) {
		return nil
	}
	m.Append(list)
	return err
}

// nextOfBatch makes events of the inputs, and appends the batch. found is false where the state decides.
func (m *Machine) nextOfBatch() (rd Ready, found bool) {
	switch {
	case m.superseded:
		return Ready{Do: Drop}, true
	case m.reread:
		return Ready{Do: Reread, Inputs: m.again}, true
	case len(m.again) > 0:
		return m.stepAgain()
	}
	m.cancelLost()
	if m.flushing && len(m.batch.events) > 0 {
		return m.append(), true
	}
	m.flushing = false
	for len(m.queue) > 0 {
		q := m.queue[0]
		m.queue = m.queue[1:]
		if q.in == nil {
			return m.add(q), true
		}
		if !isClaim(q.in) { // which has its own
			q.in = q.in.WithExtra(m.cfg.Extra) // one commit has the input and the plugin states that changed
		}
		if rd, found := m.step(q); found {
			return rd, true
		}
	}
	return m.answer()
}

// decide steps an input that the state needs.
func (m *Machine) decide(in turn.Input) Ready {
	rd, _ := m.step(queued{in: in})
	return rd
}

// step makes events of an input. It drops an input that the state does not need any more.
func (m *Machine) step(q queued) (rd Ready, found bool) {
	out, err := turn.Step(m.State, q.in)
	if err != nil {
		m.dropped = append(m.dropped, q.in)
		return Ready{Do: Fail, Err: err}, !errors.Is(err, turn.ErrStale)
	}
	if isClaim(q.in) && m.State.Turn() == nil {
		m.turns++
	}
	q.list, q.linger = out.Events, out.Linger
	return m.add(q), true
}

func (m *Machine) add(q queued) Ready {
	m.adding = &q
	rd := Ready{Do: Add, Events: q.list}
	if _, stops := q.in.(turn.Stop); stops {
		rd.Ran = m.ran
	}
	return rd
}

// Fold folds an event ahead and puts it in the batch. bytes is the size of its bodies. The batch's time is not before one that a
// server reported as passed: the process knows the servers' time only to some milliseconds.
func (m *Machine) Fold(ev *events.Event, bytes int) {
	if len(m.batch.events) == 0 {
		m.batch.durable = m.State.Clone()
		m.batch.startedAt = m.State.Next(max(m.facts.Millis, m.facts.Due))
	}
	m.batch.bytes += bytes
	m.State.ApplyUncommitted(ev, m.batch.startedAt)
	m.batch.events = append(m.batch.events, *ev)
}

// Added tells that the events of Add are folded. The batch is appended, unless it may linger.
func (m *Machine) Added() {
	q := m.adding
	m.adding = nil
	if q.in != nil {
		m.batch.inputs = append(m.batch.inputs, q.in)
	}
	m.batch.ahead = m.batch.ahead || q.ahead
	switch {
	case !q.linger || m.cfg.Linger == 0 || m.batch.bytes >= flushBytes:
		m.flushing = true
	case m.batch.until.IsZero():
		m.batch.until = m.facts.Now.Add(m.cfg.Linger)
	}
	if len(m.batch.events) == 0 {
		m.batch = batch{}
	}
}

// append appends the batch. The run's turn is claimed before: another worker may read the claim and send a request
// before the append's response is here. Such requests name only a claim that is in the log, so a failed append does no harm.
func (m *Machine) append() Ready {
	m.before = m.claimed
	for i := range m.batch.events {
		if p, ok := m.batch.events[i].Payload.(*events.TurnStarted); ok {
			m.claimed = Attempt{m.batch.events[i].Turn, p.Attempt}
		}
	}
	rd := m.request(Append)
	rd.Events, rd.At = m.batch.events, m.batch.startedAt
	return rd
}

// Signed is the commit as the log has it. It returns a copy of the state, for others.
func (m *Machine) Signed(c *events.Commit) (*projector.State, error) {
	err := m.State.Committed(c)
	m.State.SetIncarnation(m.batch.durable.Incarnation()) // of the log that has the commit
	return m.State.Clone(), err
}

// Appended tells what became of the append, and reports whether the log has the batch, at its expected sequence. After a
// conflict the same inputs are stepped again. Any other error ends the run, or the turn if the log refuses its events.
func (m *Machine) Appended(seq events.Seq, err error) (committed bool, _ error) {
	expected := m.batch.durable.Seq
	if err == nil && seq == expected+1 {
		m.committed()
		return true, nil
	}
	m.claimed = m.before
	if err == nil { // not observed with one server; possible with three, if a leader is lost meanwhile
		err = fmt.Errorf("append to %s: expected sequence %d, committed as %d", m.State.Session, expected+1, seq)
	}
	if !errors.As(err, new(*events.ConflictError)) {
		return false, m.Failed(err)
	}
	m.again, m.ahead, m.reread = m.batch.inputs, m.batch.ahead, true
	m.rollBack()
	return false, nil
}

// committed drops the batch, which the log has now. The state has its events already.
func (m *Machine) committed() {
	for i := range m.batch.events {
		if _, ok := m.batch.events[i].Payload.(*events.TurnReleased); ok {
			m.claimed = Attempt{}
		}
	}
	m.end.confirm(m.asked)
	m.batch, m.flushing, m.unanswered = batch{}, false, false
	for _, e := range m.Inflight {
		e.ahead = false // the events that it builds on are in the log now
	}
}

// isRejected reports whether the log rejects the same events every time.
func isRejected(err error) bool {
	return errors.Is(err, events.ErrTooLarge) || errors.Is(err, events.ErrInvalid) || errors.Is(err, events.ErrInvalidID)
}

// Failed drops the batch, which cannot be stored. The turn ends if the log rejects what follows from an input of the turn: a
// retry would append the same. It returns any other error, which ends the run.
func (m *Machine) Failed(err error) error {
	inputs := m.batch.inputs
	if m.adding != nil && m.adding.in != nil {
		inputs = []turn.Input{m.adding.in}
	}
	m.RollBack()
	t := m.State.Turn()
	if len(inputs) == 0 || !isRejected(err) || !m.IsOurs(t) {
		return err
	}
	if _, ends := inputs[0].(turn.Broken); ends {
		return err
	}
	m.cancelEffects(nil)
	m.Input(turn.Broken{Iteration: t.Iteration, Issue: m.cfg.Broken(err)})
	return nil
}

// RollBack drops the batch, and all inputs that the log does not have.
func (m *Machine) RollBack() {
	m.dropped = slices.Concat(m.dropped, m.batch.inputs, m.again)
	if m.adding != nil {
		m.queue = append(m.queue, *m.adding)
	}
	for _, q := range m.queue {
		if q.in != nil {
			m.dropped = append(m.dropped, q.in)
		}
	}
	m.queue, m.again, m.adding = nil, nil, nil
	m.rollBack()
}

func (m *Machine) rollBack() {
	if len(m.batch.events) > 0 {
		m.State = m.batch.durable
	}
	m.batch, m.flushing = batch{}, false
}

// Discarded lists the inputs that were dropped since the last call.
func (m *Machine) Discarded() []turn.Input {
	list := m.dropped
	m.dropped = nil
	return list
}

// Reread tells that the events of others are folded: the inputs of the batch that conflicted are decided again. Of a claim the
// state decides.
func (m *Machine) Reread() {
	m.reread, m.flushing = false, true
	switch {
	case len(m.again) == 0:
		return
	case isClaim(m.again[0]):
		m.again = nil
	case !m.IsOurs(m.State.Turn()):
		m.dropped, m.again, m.superseded = append(m.dropped, m.again...), nil, true
	}
}

func isClaim(in turn.Input) bool {
	_, claims := in.(turn.Claim)
	return claims
}

// stepAgain decides on the next input of a batch that conflicted. If a prompt was built ahead of the log and is a different one
// now, its reply is discarded: no history could explain it. The state needs the call again.
func (m *Machine) stepAgain() (rd Ready, found bool) {
	m.stepped = true
	for len(m.again) > 0 {
		in := m.again[0]
		m.again = m.again[1:]
		if m.ahead && m.isLost(in) {
			m.dropped = append(m.dropped, in)
		} else if rd, found := m.step(queued{in: in, ahead: m.ahead}); found {
			return rd, true
		}
	}
	return m.nextOfBatch()
}

// cancelLost cancels the model calls that lost their prompt in a conflict, and drops their replies.
func (m *Machine) cancelLost() {
	if !m.stepped {
		return
	}
	m.stepped = false
	for id, e := range m.Inflight {
		if e.ahead && !m.hasPrompt(e.Prompt) {
			e.Cancel(nil)
			delete(m.Inflight, id)
		}
	}
	m.queue = slices.DeleteFunc(m.queue, func(q queued) bool {
		lost := q.ahead && m.isLost(q.in)
		if lost {
			m.dropped = append(m.dropped, q.in)
		}
		return lost
	})
}

// isLost reports whether an input is of a prompt that the state does not have.
func (m *Machine) isLost(in turn.Input) bool {
	digest := in.PromptDigest()
	return digest != "" && !m.hasPrompt(digest)
}

// hasPrompt reports whether the prompt of the state has that digest.
func (m *Machine) hasPrompt(digest string) bool {
	p, err := m.State.Prompt()
	return err == nil && p.Ref.Digest == digest
}
