package projector

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
)

// ErrOutOfOrder is a commit of another session, or one that does not follow the state's sequence.
var ErrOutOfOrder = errors.New("commit out of order")

// Apply folds the next commit. Events that do not fit the state, for example a second result of a call, change
// nothing. A first commit may need a base, see [State.NeedsBase]. Errors: [ErrOutOfOrder],
// [*MissingBaseError], and those of [events.Entry.Hash]; then the state is unchanged.
func (s *State) Apply(e events.Entry) error {
	if s.ahead || e.Seq != s.Seq+1 || e.Commit.Session != s.Session {
		return fmt.Errorf("apply sequence %d of %s to %s at %d: %w", e.Seq, e.Commit.Session, s.Session, s.Seq, ErrOutOfOrder)
	}
	if ref := s.NeedsBase(e.Commit); !ref.IsZero() {
		return &MissingBaseError{Session: s.Session, Ref: ref}
	}
	var leaf proof.Hash
	var size int
	if !s.unproven {
		var err error
		if leaf, size, err = e.Hash(); err != nil {
			return fmt.Errorf("apply sequence %d of %s: %w", e.Seq, s.Session, err)
		}
	}
	s.Seq, s.last = e.Seq, e.Commit.ID
	s.UpdatedAt = e.Commit.At
	s.recordRequest(e.Commit)
	for i := range e.Commit.Events {
		s.applyEvent(&e.Commit.Events[i], e.Commit.At)
	}
	s.endCommit(leaf, size)
	return nil
}

// endCommit ends the fold of a commit, whose leaf and size a state without a proof does not need.
func (s *State) endCommit(leaf proof.Hash, size int) {
	if !s.unproven {
		s.Proof.Commit(s.Seq, leaf)
		s.Stored += int64(size)
	}
	s.countOpening()
	s.assert()
}

// assert panics on a violated invariant in builds with the tag invariants. A leaf without node comes from the
// history, not from the fold, and [State.Path] replaces it.
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

// countOpening counts the commits of a creation with several commits.
func (s *State) countOpening() {
	if s.Opening > 0 && s.Seq > 1 {
		s.Opening--
	}
	if s.Status == StatusOpening && s.Opening == 0 {
		s.Status = StatusOpen
	}
}

// ApplyUncommitted folds one event of a commit. Its callers decided the event and did not append it yet, or fold a commit
// of the log event by event, to see the state between two events. All events of that commit have the same time. Until
// [State.Committed] or [State.CommittedUnproven] the state is ahead of the log, and Apply refuses commits. After a
// conflict the caller drops the state and uses a [State.Clone] from before. The fold does not record the commit's
// idempotency key: commits of nodes have none, and readers need none.
func (s *State) ApplyUncommitted(ev *events.Event, at events.Millis) {
	if !s.ahead {
		s.ahead, s.last = true, ""
		s.Seq++
		s.UpdatedAt = at
	}
	s.applyEvent(ev, at)
}

// Next is the time of the session's next commit: now, or the time of its last one where a process with another clock wrote
// that, so that the times of a history never go back.
func (s *State) Next(now events.Millis) events.Millis { return max(now, s.UpdatedAt) }

// Committed ends the ahead state: the log has the commit with the events that were folded ahead. Another event of the
// commit is its head, which was signed after that, and is folded now. Errors: those of [events.HashOf].
func (s *State) Committed(c *events.Commit) error {
	if !s.ahead {
		return nil
	}
	var leaf proof.Hash
	var size int
	if !s.unproven {
		var err error
		if leaf, size, err = events.HashOf(c); err != nil {
			return err
		}
	}
	if last := &c.Events[len(c.Events)-1]; last.Kind == events.KindAuditHeadSigned {
		s.applyEvent(last, c.At)
	}
	s.ahead, s.last = false, c.ID
	s.endCommit(leaf, size)
	return nil
}

// CommittedUnproven is Committed for a caller that has folded all events of a commit and needs no proof. The state is like
// one of [NewUnproven] then.
func (s *State) CommittedUnproven() {
	if s.ahead {
		s.ahead, s.unproven = false, true
		s.endCommit(proof.Hash{}, 0)
	}
}

func (s *State) applyEvent(ev *events.Event, at events.Millis) {
	s.Events++
	if !s.unproven {
		for _, ref := range events.Refs(ev.Payload) {
			s.Stored += ref.Size
		}
	}
	s.Proof.Apply(ev, s.Seq)
	if ev.Absent() && s.Redacted == 0 {
		s.Redacted = s.Seq
	}
	if events.IsProgress(ev.Kind) {
		s.progressed(ev.Turn)
	}
	switch p := ev.Payload.(type) {
	case *events.SessionOpened:
		s.applyOpened(p, at)
	case *events.SessionConfigured:
		if p.Announced {
			s.Unnotified = append(slices.Clip(s.Unnotified), Notice{Change: &ConfigNotice{Seq: s.Seq, Previous: s.Config, Current: p.Config}})
		}
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
	case *events.BodyStored, *events.AuditHeadSigned:
		// the body is not part of the state; the proof has the head
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
		// events.IsProgress has its kind
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
		s.notified(NoticeKey{Turn: ev.Turn})
	case *events.SessionTold:
		s.notified(NoticeKey{Configured: p.Of})
	case *events.TurnDiverted:
		s.applyDiverted(ev.Turn, p, at)
	case *events.ModelReplied:
		s.applyReplied(ev.Turn, p, at)
	case *events.ModelFailed:
		s.applyFailed(ev.Turn, p, at)
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
		s.applyCheckpointed(ev.Turn, p, at)
	case *events.HookRan:
		s.applyHookRan(ev.Turn, p, at)
	case *events.PluginStateSaved:
		s.applyPluginState(p)
	case *events.ModelCompleted:
		s.applyDirect(ev.Turn, p)
	case *events.UsageCharged:
		s.applyCharged(p)
	case *events.ToolApprovalAsked:
		s.applyAsked(ev.Turn, p)
	case *events.ToolApprovalGiven:
		s.applyAnswered(ev.Turn, p, at)
	case *events.ToolPended:
		s.applyPended(ev.Turn, p)
	case *events.ToolResolved:
		s.applyResolved(ev.Turn, p, at)
	case *events.ToolNestedCalled:
		s.applyNested(ev.Turn, NestedCall{Effect: p.Effect, Tool: p.Tool, Digest: p.Digest})
	case *events.ToolNestedReturned:
		s.applyNested(ev.Turn, NestedCall{Effect: p.Effect, Tool: p.Tool, Digest: p.Digest, Done: true, Result: p.Result})
	default:
		s.applyBackground(ev, at)
	}
	s.seal()
}

// applyBackground is the part of applyEvent for tasks and monitors.
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
	tools := p.Tools
	if p.Continues && p.Generation == s.Catalog.Generation { // the part before is redacted otherwise
		tools = slices.Concat(s.Catalog.Tools, tools)
	}
	s.Catalog = Catalog{Generation: p.Generation, Tools: tools, Digest: encodedDigest(tools)}
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

// InputNode is the id of the node and of the message that an input makes.
func InputNode(id events.InputID) events.NodeID { return events.NodeID("m_ingress_" + id) }

func (s *State) applyAccepted(turn events.TurnID, p *events.InputAccepted, at events.Millis) {
	for _, id := range p.Inputs {
		callers := s.InputCallers(id) // before the monitor loses the input
		in, ok := s.settleInput(id, true)
		if !ok {
			continue
		}
		s.appendMessage(events.Message{ID: events.MessageID(InputNode(in.ID)), Role: in.Role, Parts: in.Parts}, turn, at)
		if t := s.Turn(); t != nil && t.ID == turn {
			t.Callers = withNames(t.Callers, callers...)
		} else {
			s.joinQueued(turn, callers)
		}
	}
}

// InputCallers are the callers on whose behalf a pending input is in the queue: the one that injected it, or those of the
// task of the monitor whose line it is.
func (s *State) InputCallers(id events.InputID) []string {
	for i := range s.Inputs {
		if in := &s.Inputs[i]; in.ID == id && in.Caller != "" {
			return []string{in.Caller}
		}
	}
	for i := range s.Monitors {
		if m := &s.Monitors[i]; m.Wake == id {
			if t, ok := s.Task(events.TaskOf(m.Spec.ID)); ok {
				return t.Callers
			}
		}
	}
	return nil
}

// joinQueued adds the callers of an input that a turn takes in the commit that starts it.
func (s *State) joinQueued(id events.TurnID, callers []string) {
	if i := slices.IndexFunc(s.Queue, func(q QueuedTurn) bool { return q.ID == id }); i >= 0 && len(callers) > 0 {
		s.Queue = slices.Clone(s.Queue)
		s.Queue[i].Callers = withNames(s.Queue[i].Callers, callers...)
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
	return encodedDigest(in)
}
