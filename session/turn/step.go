package turn

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// maxAccepted limits the injected inputs that one checkpoint takes.
const maxAccepted = 64

// ErrStale is an input that the state does not need. The caller folds again. A superseded worker gets this error.
var ErrStale = errors.New("input does not fit the state")

// Input is an event outside of the machine: one of the types of this package with the method input.
type Input interface{ input() }

// Claim starts the next turn, or takes over the running one.
type Claim struct {
	Worker  events.WorkerID
	Tools   []events.ToolEntry // tools that the worker offers, sorted by name
	Points  []events.HookPoint // points at which the session's plugins have hooks
	Problem events.Issue       // why the input cannot run; zero if it can
	Refused events.Issue       // why a plugin refuses it; zero if none does
	Extra   []events.Payload   // additional events
}

// Reply is the result of the model call.
type Reply struct {
	events.ModelReplied
	Correct string // message to the model, if the protocol does not accept the reply as the turn's answer
	Extra   []events.Payload
}

// Failure is a model call that failed after all attempts.
type Failure struct {
	events.ModelFailed
	Cut         *events.ModelInterrupted // the partial reply, if any
	Unavailable bool                     // the node cannot reach the model's provider
}

// Interrupted is a model call that was interrupted because its turn was cancelled.
type Interrupted struct{ events.ModelInterrupted }

// Switch continues in another frame in place of a model call.
type Switch struct {
	Iteration int64
	events.FrameSwitch
}

// Broken is a failed pipeline around the turn: the turn has no result.
type Broken struct {
	Iteration int64
	Issue     events.Issue
}

// Results are the results of finished calls, ascending.
type Results struct {
	Iteration int64
	Results   []events.ToolResult
	Pending   []int64          // calls that now wait for a result from outside, ascending
	Extra     []events.Payload // additional events of the same commit
	Stopped   *events.Issue    // the turn cannot continue: calls without a result are cancelled
}

// Hooks are the decisions of the plugins at a point.
type Hooks struct {
	Ran      events.HookRan
	Prepared *events.TurnPrepared       // before the turn: the prompt, if it differs from the frame's
	Messages []events.Message           // messages to append
	Results  []events.ToolResult        // before the calls: results of calls that do not run, ascending
	Asks     []events.ToolApprovalAsked // before the calls: approval requests
	Abort    *events.Issue
	Stopped  *events.Issue // the turn cannot continue
	Extra    []events.Payload
}

// Answer is the answer to an approval request.
type Answer struct{ events.ToolApprovalGiven }

// Resolved is the result of a pending call.
type Resolved struct{ events.ToolResolved }

// StartCalls precedes the start of calls: it records the calls that are not repeatable.
type StartCalls struct{}

// Facts are additional events of a running effect.
type Facts struct{ Extra []events.Payload }

// Stop ends a cancelled turn after its effects have stopped.
type Stop struct{}

func (Claim) input()       {}
func (Reply) input()       {}
func (Failure) input()     {}
func (Interrupted) input() {}
func (Switch) input()      {}
func (Broken) input()      {}
func (Results) input()     {}
func (Hooks) input()       {}
func (Answer) input()      {}
func (Resolved) input()    {}
func (StartCalls) input()  {}
func (Facts) input()       {}
func (Stop) input()        {}

// Output has the events that follow from an input.
type Output struct {
	Events []events.Event // events of one commit
	Linger bool           // the commit may wait for the next one, see the package documentation
}

// Step computes the output of an input. It does not change the state. Errors: [ErrStale], [projector.ErrPartial].
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
	return Output{}, fmt.Errorf("%w: unknown input %T", ErrStale, in)
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
