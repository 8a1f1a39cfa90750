package turn

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// MaxAccepted is how many injected inputs one checkpoint takes (host specification 3.11).
const MaxAccepted = 64

// ErrStale is an input that does not answer anything that the state owes.
// Whoever brought it refolds; a superseded worker finds out here.
var ErrStale = errors.New("input does not fit the state")

// Input is what happened outside: one of [Claim], [Reply], [Failure], [Interrupted], [Switch],
// [Broken], [Results], [Hooks], [Answer], [Resolved], [Begin], [Facts], [Stop].
type Input interface{ input() }

// Claim takes the next turn, or takes over the running one.
type Claim struct {
	Worker  events.WorkerID
	Tools   []events.ToolEntry // what the worker offers, sorted by name
	Points  []events.HookPoint // where the session's plugins want to be asked
	Problem events.Issue       // why the input cannot be run; zero when it can
	Refused events.Issue       // why a plugin refuses it; zero when none does
	Beside  []events.Payload
}

// Reply is a model's answer to the call owed.
type Reply struct {
	events.ModelReplied
	Correct string // what the protocol tells the model instead of accepting the reply as the turn's answer
	Beside  []events.Payload
}

// Failure is a model call that failed for good.
type Failure struct {
	events.ModelFailed
	Cut         *events.ModelInterrupted // what had come of a reply; nil: nothing
	Unavailable bool                     // the model's provider cannot be had
}

// Interrupted is a model call that was cut off because its turn was cancelled.
type Interrupted struct{ events.ModelInterrupted }

// Switch is a protocol that goes on in another frame instead of asking the model.
type Switch struct {
	Iteration int64
	events.FrameSwitch
}

// Broken is a pipeline that failed around the turn: nothing that the turn came to counts.
type Broken struct {
	Iteration int64
	Issue     events.Issue
}

// Results are the calls that finished, ascending.
type Results struct {
	Iteration int64
	Results   []events.ToolResult
	Pending   []int64          // calls that wait for somebody outside from now on, ascending
	Beside    []events.Payload // facts that land with them
	Stopped   *events.Issue    // the turn cannot go on: what has no result yet is cancelled
}

// Hooks is what the plugins decided at the point owed.
type Hooks struct {
	Ran      events.HookRan
	Prepared *events.TurnPrepared       // before the turn: the prompt, where it is not the frame's alone
	Messages []events.Message           // to append
	Results  []events.ToolResult        // before the calls: those that do not run, ascending
	Asks     []events.ToolApprovalAsked // before the calls: those that wait for an approval
	Abort    *events.Issue
	Stopped  *events.Issue // the turn cannot go on
	Beside   []events.Payload
}

// Answer is somebody's word on a call that waits for an approval.
type Answer struct{ events.ToolApprovalGiven }

// Resolved is what a pending call came to.
type Resolved struct{ events.ToolResolved }

// Begin is a worker that is about to start the calls owed: those that must not
// run twice are recorded before.
type Begin struct{}

// Facts are what a running effect records on its way.
type Facts struct{ Beside []events.Payload }

// Stop ends a turn whose cancel was requested, once its effects have been stopped.
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
func (Begin) input()       {}
func (Facts) input()       {}
func (Stop) input()        {}

// Output is what follows from an input.
type Output struct {
	Events []events.Event // of one commit
	Linger bool           // the commit may wait a moment for the next one, see the package comment
}

// Step decides. It changes nothing. Errors: [ErrStale], [projector.ErrPartial].
func Step(s *projector.State, in Input) (Output, error) {
	m := &machine{s: s, t: s.Turn(), taken: make(map[events.NodeID]bool)}
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
		return m.answer(in)
	case Resolved:
		return m.resolved(in)
	case Begin:
		return m.beginOwed()
	case Facts:
		m.beside(in.Beside)
		return m.done()
	case Stop:
		return m.stop()
	}
	return Output{}, fmt.Errorf("%w: unknown input %T", ErrStale, in)
}

type machine struct {
	s     *projector.State
	t     *projector.Turn
	id    events.TurnID
	taken map[events.NodeID]bool // ids given out in this step
	out   Output
	firm  bool // something in the commit must not wait
	errs  error
}

func (m *machine) emit(p events.Payload) { m.emitFor(m.id, p) }

func (m *machine) emitFor(id events.TurnID, p events.Payload) {
	m.out.Events = append(m.out.Events, events.Of(id, p))
}

func (m *machine) beside(list []events.Payload) {
	for _, p := range list {
		m.emit(p)
	}
}

func (m *machine) done() (Output, error) {
	m.out.Linger = m.out.Linger && !m.firm
	return m.out, m.errs
}

// free is the override that makes a message id unique; empty when the default is free.
func (m *machine) free(wish events.MessageID) events.MessageID {
	if id := m.unique(events.NodeID(wish)); events.MessageID(id) != wish {
		return events.MessageID(id)
	}
	return ""
}

// unique is a node id that nothing has, nor will have after this step.
func (m *machine) unique(wish events.NodeID) events.NodeID {
	id, err := m.s.FreeID(wish, m.taken)
	m.errs = errors.Join(m.errs, err)
	m.taken[id] = true
	return id
}
