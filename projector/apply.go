package projector

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// ErrOutOfOrder is a commit that does not follow the state's sequence, or belongs to another session.
var ErrOutOfOrder = errors.New("commit out of order")

// Apply folds the next commit. Events that do not fit the state (a second
// result of a call, an input injected twice) change nothing: the first counts.
// A first commit that names a base needs that: see [State.Needs]. Errors: [ErrOutOfOrder],
// and [*MissingBaseError], after which the state is as before.
func (s *State) Apply(e events.Entry) error {
	if s.ahead || e.Seq != s.Seq+1 || e.Commit.Session != s.Session {
		return fmt.Errorf("apply sequence %d of %s to %s at %d: %w", e.Seq, e.Commit.Session, s.Session, s.Seq, ErrOutOfOrder)
	}
	if ref := s.Needs(e.Commit); !ref.IsZero() {
		return &MissingBaseError{Session: s.Session, Ref: ref}
	}
	s.Seq = e.Seq
	s.UpdatedAt = e.Commit.At
	s.noteRequest(e.Commit)
	for i := range e.Commit.Events {
		s.applyEvent(&e.Commit.Events[i], e.Commit.At)
	}
	s.countOpening()
	s.assert()
	return nil
}

// assert panics on a broken invariant, in builds with the tag of that name. A
// leaf that names no node is a history's fault, not the fold's, and can be healed.
func (s *State) assert() {
	if !invariants || len(s.Missing()) > 0 {
		return
	}
	if _, orphaned, err := s.Orphaned(); err != nil || orphaned {
		return
	}
	if err := s.Check(); err != nil {
		panic(fmt.Sprintf("projector: session %s at %d: %v", s.Session, s.Seq, err))
	}
}

// countOpening counts the commits of a creation that has more than one.
func (s *State) countOpening() {
	if s.Opening > 0 && s.Seq > 1 {
		s.Opening--
	}
	if s.Status == StatusOpening && s.Opening == 0 {
		s.Status = StatusOpen
	}
}

// Ahead folds an event of the commit that the caller is about to append at
// the state's sequence. All events of that commit share one time. The state
// is then ahead of the log, until [State.Landed]; where the append conflicts
// it must be dropped for a [State.Clone] made before.
// The commit is a node's: it has no idempotency key.
func (s *State) Ahead(ev *events.Event, at events.Millis) {
	if !s.ahead {
		s.ahead = true
		s.Seq++
		s.UpdatedAt = at
	}
	s.applyEvent(ev, at)
}

// Landed says that the commit folded ahead is in the log.
func (s *State) Landed() {
	if s.ahead {
		s.ahead = false
		s.countOpening()
	}
}

func (s *State) applyEvent(ev *events.Event, at events.Millis) {
	s.Events++
	if progress[ev.Kind] {
		s.progressed(ev.Turn)
	}
	switch p := ev.Payload.(type) {
	case *events.SessionOpened:
		s.applyOpened(p, at)
	case *events.SessionConfigured:
		s.Config, s.ConfigSeq = p.Config, s.Seq
	case *events.SessionClosed:
		s.Status = StatusClosed
		s.overlaid(&events.SessionOverlaid{})
	case *events.SessionGranted:
		s.applyGranted(p)
	case *events.SessionOverlaid:
		s.overlaid(p)
	case *events.SessionExtended:
		if !p.Saved {
			s.Extensions = append(slices.Clip(s.Extensions), p.Extension)
		}
	case *events.SessionExtensionsSet:
		s.Extensions, s.Replaced = p.Extensions, s.Seq
	case *events.BodyStored:
		// for those who look for the body: the fold has none of it
	case *events.GraphAppended:
		s.appendNodes(p, ev.Turn, at)
	case *events.GraphBranched:
		s.branch(p.Leaf)
	case *events.FrameOpened:
		s.applyFrame(p, ev.Turn, at)
	case *events.TurnRequested:
		s.applyRequested(ev.Turn, p, at)
	case *events.TurnScheduled:
		s.applyScheduled(ev.Turn, p, at)
	case *events.TurnReleased:
		s.progressed(ev.Turn)
	case *events.ToolResultScheduled:
		s.applyTimed(ev.Turn, p)
	case *events.TurnStarted:
		s.applyStarted(ev.Turn, p, at)
	case *events.TurnCancelRequested:
		s.applyCancel(ev.Turn, p)
	case *events.TurnCompleted:
		s.applyCompleted(ev.Turn, p, at)
	case *events.TurnAnnounced:
		s.applyAnnounced(ev.Turn, p)
	case *events.TurnTold:
		s.Untold = slices.DeleteFunc(slices.Clone(s.Untold), func(u UntoldTurn) bool { return u.Turn == ev.Turn })
	case *events.TurnDiverted:
		s.applyDiverted(ev.Turn, p, at)
	case *events.ModelReplied:
		s.applyReplied(ev.Turn, p, at)
	case *events.ModelFailed:
		s.applyFailed(ev.Turn, p)
	case *events.ModelInterrupted:
		s.applyInterrupted(ev.Turn, p)
	case *events.ToolStateApplied:
		s.applyCatalog(p)
	case *events.ToolSourcesApplied:
		s.ToolSources = p.Sources
	case *events.ToolCalled:
		s.applyCalled(ev.Turn, p)
	case *events.ToolReturned:
		s.applyReturned(ev.Turn, p, at)
	case *events.ToolLost:
		s.applyLost(ev.Turn, p, at)
	case *events.InputInjected:
		s.applyInjected(p)
	case *events.InputAccepted:
		s.applyAccepted(ev.Turn, p, at)
	case *events.InputCancelled:
		s.applyInputCancelled(p)
	case *events.SessionFirstInputTaken:
		s.First = events.Message{}
	case *events.FrameConfigured:
		s.applyFrameConfigured(p)
	case *events.FrameStateSaved:
		s.onFrame(func(f *Frame) { f.State, f.Blob = p.State, p.Blob })
	case *events.TurnPrepared:
		s.applyPrepared(ev.Turn, p)
	case *events.TurnCheckpointed:
		s.applyCheckpointed(ev.Turn, p)
	case *events.HookRan:
		s.applyHookRan(ev.Turn, p)
	case *events.PluginStateSaved:
		s.applyPluginState(p)
	case *events.ModelCompleted:
		s.applyDirect(ev.Turn, p)
	case *events.UsageCharged:
		s.applyCharged(p)
	case *events.ToolApprovalAsked:
		s.applyAsked(ev.Turn, p)
	case *events.ToolApprovalGiven:
		s.applyAnswered(ev.Turn, p)
	case *events.ToolPended:
		s.applyPended(ev.Turn, p)
	case *events.ToolResolved:
		s.applyResolved(ev.Turn, p)
	case *events.ToolNestedCalled:
		s.applyNested(ev.Turn, NestedCall{Effect: p.Effect, Tool: p.Tool, Digest: p.Digest})
	case *events.ToolNestedReturned:
		s.applyNested(ev.Turn, NestedCall{Effect: p.Effect, Tool: p.Tool, Digest: p.Digest, Done: true, Result: p.Result})
	default:
		s.applyBackground(ev, at)
	}
	s.seal()
}

// applyBackground is the part of applyEvent about tasks and monitors.
func (s *State) applyBackground(ev *events.Event, at events.Millis) {
	switch p := ev.Payload.(type) {
	case *events.TaskRegistered:
		s.applyTaskRegistered(p, at)
	case *events.TaskStarted:
		s.applyTaskStarted(p, at)
	case *events.TaskStateChanged:
		s.applyTaskState(p, at)
	case *events.TaskProgressed:
		s.applyTaskProgressed(p, at)
	case *events.TaskCancelRequested:
		s.applyTaskCancel(p, at)
	case *events.TaskEnded:
		s.applyTaskEnded(p, at)
	case *events.TaskHidden:
		s.applyTaskHidden(p, at)
	case *events.TaskPassedOn:
		s.applyTaskPassedOn(p)
	case *events.TaskRemoved:
		s.applyTaskRemoved(p)
	case *events.TaskTransferred:
		s.applyTaskTransferred(p, at)
	case *events.TaskLeaving:
		for _, id := range p.Tasks {
			s.changeTask(id, at, func(t *Task) { t.Leaves = p.To })
		}
	case *events.TaskStayed:
		s.changeTask(p.Task, at, func(t *Task) { t.Leaves = "" })
	case *events.MonitorRegistered:
		s.applyMonitorRegistered(p)
	case *events.MonitorArmed:
		s.applyMonitorArmed(p)
	case *events.MonitorStarted:
		s.applyMonitorStarted(p)
	case *events.MonitorReported:
		s.applyMonitorReported(p)
	case *events.MonitorEnded:
		s.applyMonitorEnded(p)
	case *events.MonitorUpdatesTaken:
		s.applyUpdatesTaken(p)
	}
}

func (s *State) applyOpened(p *events.SessionOpened, at events.Millis) {
	s.Status, s.Opening = StatusOpening, p.Commits
	s.Config, s.ConfigSeq = p.Config, s.Seq
	s.Parent, s.Forked, s.Labels, s.Relation = p.Parent, p.Forked, p.Labels, p.Relation
	s.Options, s.First, s.Access, s.Subagent, s.Source = p.Options, p.First, p.Access, p.Subagent, p.Usage
	s.Owner = p.Owner
	s.CreatedAt = at
	s.Frames = []Frame{{ID: InitialFrame(s.Session), Reason: "initial", Opened: at}}
	if !p.Base.IsZero() {
		s.applyBase(p.Base)
	}
}

func (s *State) applyFrame(p *events.FrameOpened, turn events.TurnID, at events.Millis) {
	if p.Frame == s.Frame().ID {
		return
	}
	s.Frames = append(s.Frames, Frame{
		ID: p.Frame, Reason: p.Reason, Keep: p.Keep, Seeds: int64(len(p.Nodes)), Opened: at, Options: s.Frame().Options,
	})
	s.appendNodes(&events.GraphAppended{Nodes: p.Nodes}, turn, at)
}

func (s *State) applyCatalog(p *events.ToolStateApplied) {
	s.Catalog = Catalog{Generation: p.Generation, Tools: p.Tools, Digest: digestOf(p.Tools)}
}

func (s *State) overlaid(p *events.SessionOverlaid) {
	if !p.IsZero() || !s.Overlay.IsZero() {
		s.Overlay = Overlay{SessionOverlaid: *p, Seq: s.Seq}
	}
}

func (s *State) applyInjected(p *events.InputInjected) {
	for i := range s.Inputs {
		if s.Inputs[i].ID == p.Input {
			return
		}
	}
	s.Inputs = append(s.Inputs, Input{ID: p.Input, Role: p.Role, Parts: p.Parts, Boundary: p.Boundary, Caller: p.Caller})
}

// InputNode is the id of the node, and of the message, that an input becomes (host specification 3.11).
func InputNode(id events.InputID) events.NodeID { return events.NodeID("m_ingress_" + id) }

func (s *State) applyAccepted(turn events.TurnID, p *events.InputAccepted, at events.Millis) {
	for _, id := range p.Inputs {
		in, ok := s.settleInput(id, true)
		if !ok {
			continue
		}
		s.appendMessage(events.Message{ID: events.MessageID(InputNode(in.ID)), Role: in.Role, Parts: in.Parts}, turn, at)
		if t := s.Turn(); t != nil && t.ID == turn {
			t.AnyResult = false
			t.Callers = with(t.Callers, in.Caller)
		} else {
			s.joinQueued(turn, in.Caller)
		}
	}
}

// joinQueued is for inputs that a turn takes in the commit that starts it.
func (s *State) joinQueued(id events.TurnID, caller string) {
	if i := slices.IndexFunc(s.Queue, func(q QueuedTurn) bool { return q.ID == id }); i >= 0 && caller != "" {
		s.Queue = slices.Clone(s.Queue)
		s.Queue[i].Callers = with(s.Queue[i].Callers, caller)
	}
}

func (s *State) applyInputCancelled(p *events.InputCancelled) {
	for _, id := range p.Inputs {
		s.settleInput(id, false)
	}
}

func (s *State) settleInput(id events.InputID, accepted bool) (Input, bool) {
	for i, in := range s.Inputs {
		if in.ID == id {
			s.Inputs = append(s.Inputs[:i:i], s.Inputs[i+1:]...)
			s.body.settled = append(s.body.settled, SettledInput{ID: id, Digest: in.Digest(), Accepted: accepted})
			s.wakeSettled(id)
			return in, true
		}
	}
	return Input{}, false
}

// Digest identifies the input's content, for idempotency.
func (in Input) Digest() string {
	in.ID, in.Caller = "", ""
	return digestOf(in)
}
