package turn

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// MaxAccepted limits the injected inputs that one checkpoint takes.
const MaxAccepted = 64

// ErrStale is an input that the state does not need. The caller folds again. A superseded worker gets this error.
var ErrStale = errors.New("input does not fit the state")

// Output has the events that follow from an input.
type Output struct {
	Events []events.Event // events of one commit
	Linger bool           // the commit may wait for the next one, see the package documentation
}

// Step computes the output of an input. It does not change the state. Errors: [ErrStale], [projector.ErrPartial], and one
// for a type of input that it does not know.
func Step(s *projector.State, in Input) (Output, error) {
	m := &machine{s: s, t: s.Turn(), usedIDs: make(map[events.NodeID]bool)}
	if claim, ok := in.(Claim); ok {
		return m.claim(claim)
	}
	if m.t == nil {
		return Output{}, fmt.Errorf("%w: no turn runs", ErrStale)
	}
	m.id = m.t.ID
	switch in := in.(type) {
	case Reply:
		return m.reply(in)
	case Failure:
		return m.failure(&in)
	case Interrupted:
		return m.interrupted(&in.ModelInterrupted)
	case Switch:
		return m.frameSwitch(in)
	case Broken:
		return m.broken(in)
	case Results:
		return m.results(in)
	case Hooks:
		return m.hooks(in)
	case Answer:
		return m.applyAnswer(in)
	case Resolved:
		return m.resolved(in)
	case StartCalls:
		return m.startCallsNow()
	case Facts:
		m.emitAll(in.Extra)
		return m.done()
	case Stop:
		return m.stop()
	}
	return Output{}, fmt.Errorf("step turn %s: unknown input %T", m.id, in) // not ErrStale, which callers drop
}

type machine struct {
	s         *projector.State
	t         *projector.Turn
	id        events.TurnID
	usedIDs   map[events.NodeID]bool // ids used in this step
	out       Output
	mustFlush bool // the commit must not linger
	errs      error
}

func (m *machine) emit(p events.Payload) { m.emitFor(m.id, p) }

func (m *machine) emitFor(id events.TurnID, p events.Payload) {
	m.out.Events = append(m.out.Events, events.Of(id, p))
}

func (m *machine) emitAll(list []events.Payload) {
	for _, p := range list {
		m.emit(p)
	}
}

func (m *machine) done() (Output, error) {
	m.out.Linger = m.out.Linger && !m.mustFlush
	return m.out, m.errs
}

// free returns an unused message id if the default is in use, otherwise an empty one.
func (m *machine) free(preferred events.MessageID) events.MessageID {
	if id := m.unique(events.NodeID(preferred)); events.MessageID(id) != preferred {
		return events.MessageID(id)
	}
	return ""
}

// unique returns an unused node id, also among the ids of this step.
func (m *machine) unique(preferred events.NodeID) events.NodeID {
	id, err := m.s.FreeID(preferred, m.usedIDs)
	m.errs = errors.Join(m.errs, err)
	m.usedIDs[id] = true
	return id
}
