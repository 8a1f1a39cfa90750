package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/transcript"
)

// Options of a view.
type Options struct {
	Live   bool   // show replies while they stream
	Full   bool   // shorten nothing, and show reasoning
	Starts string // how to start a node
	More   string // where what is shortened is whole. Defaults to the commands of a chat
}

// Limits of the shown part of a call, of its result and of a question.
const (
	argsBytes     = 160
	resultBytes   = 600
	resultLines   = 6
	questionBytes = 4000
)

// View shows a session. It is pure, and not safe for concurrent use.
type View struct {
	opts   Options
	s      *projector.State
	live   live
	retry  api.RetryStatus     // of the running model call
	fails  *events.ModelFailed // since the last reply
	model  string              // of the last reply
	pruned events.TurnID       // last turn that was told to have a prompt that is not whole
	calls  []events.EffectID   // numbered from 1
	out    []Line

	agents  []api.PendingApproval // questions of the session's agents
	lacks   lack                  // what the session needs and does not have
	running shownOutput           // output of a call
}

// NewView starts with a state of the session. The view owns and changes that state.
func NewView(s *projector.State, opts Options) *View { return &View{opts: opts, s: s} }

// Seq is the sequence of the last commit seen.
func (v *View) Seq() events.Seq { return v.s.Seq }

// Seen returns the lines of an observation. Errors: [projector.ErrOutOfOrder].
func (v *View) Seen(o api.Observed) ([]Line, error) {
	v.out = nil
	if o.Delta != nil && !o.Delta.Retry.IsZero() {
		v.retried(o.Delta.Retry)
	}
	switch {
	case o.Commit != nil:
		v.retry = api.RetryStatus{}
		if o.Seq != v.s.Seq+1 {
			return nil, fmt.Errorf("commit %d after %d: %w", o.Seq, v.s.Seq, projector.ErrOutOfOrder)
		}
		for i := range o.Commit.Events {
			ev := &o.Commit.Events[i]
			v.event(o.Commit, ev)
			v.s.ApplyUncommitted(ev, o.Commit.At)
		}
		v.s.CommittedUnproven()
	case o.Delta != nil && v.opts.Live:
		v.delta(o.Delta)
	case o.Gap != nil && v.opts.Live:
		v.gap(o.Gap)
	}
	return v.out, nil
}

// more names the command that shows the whole of a shortened text, which is by default another.
func (v *View) more(otherwise string) string { return cmp.Or(v.opts.More, otherwise) }

func (v *View) emit(list ...Line) { v.out = append(v.out, list...) }

// Turn is the running turn, or the next one; empty where there is none.
func (v *View) Turn() events.TurnID {
	switch {
	case v.s.Turn() != nil:
		return v.s.Turn().ID
	case len(v.s.Queue) > 0:
		return v.s.Queue[0].ID
	}
	return ""
}

// Ended is the record of an ended turn; nil where it has not ended.
func (v *View) Ended(id events.TurnID) (*projector.TurnRecord, error) { return v.s.Record(id) }

// Question is the oldest call of the session that waits for an approval, else one of an agent, or nil.
func (v *View) Question() *api.PendingApproval {
	if list := v.s.UnansweredApprovals(); len(list) > 0 {
		return &api.PendingApproval{Session: v.s.Session, Approval: list[0]}
	}
	if len(v.agents) > 0 {
		return &v.agents[0]
	}
	return nil
}

// hasAgents reports whether agents work for the session, whose questions its observations do not have.
func (v *View) hasAgents() bool {
	return slices.ContainsFunc(v.s.Tasks, func(t projector.Task) bool {
		return t.Of == events.TaskSubagent && t.State == events.TaskRunning
	})
}

// Asked takes the questions that are open, of the session and its agents, and returns lines about those of agents that are new, or
// that are answered.
func (v *View) Asked(list []api.PendingApproval) []Line {
	v.out = nil
	before := v.agents
	v.agents = slices.DeleteFunc(slices.Clone(list), func(a api.PendingApproval) bool { return a.Session == v.s.Session })
	without := func(in []api.PendingApproval, a *api.PendingApproval) bool {
		return !slices.ContainsFunc(in, func(b api.PendingApproval) bool { return a.Session == b.Session && a.Effect == b.Effect })
	}
	for i := range before {
		if a := &before[i]; without(v.agents, a) {
			v.emit(noted(Note, "agent %s waits no more for an answer about %s", a.Session, a.Tool))
		}
	}
	for i := range v.agents {
		if a := &v.agents[i]; without(before, a) {
			v.asked(&a.Approval, a.Session)
		}
	}
	return v.out
}

// Model is the model of the session.
func (v *View) Model() string {
	switch {
	case v.s.Config.Model != "":
		return v.s.Config.Model
	case v.model != "":
		return v.model + ", as the node chose for its last reply"
	}
	return "as the node chooses (its --model)"
}

// Call is the call with a number.
func (v *View) Call(n int) (events.EffectID, bool) {
	if n < 1 || n > len(v.calls) {
		return "", false
	}
	return v.calls[n-1], true
}

// number numbers calls in the order in which they were shown.
func (v *View) number(effect events.EffectID) int {
	if at := slices.Index(v.calls, effect); at >= 0 {
		return at + 1
	}
	v.calls = append(v.calls, effect)
	return len(v.calls)
}

// needsNode reports whether the session waits for something that a node does.
func (v *View) needsNode() bool {
	t := v.s.Turn()
	asks := t != nil && !t.Cancelled && v.Question() != nil
	return (t != nil || len(v.s.Queue) > 0) && !asks
}

// Status is what the session waits for, on one line; empty where it waits for a prompt.
func (v *View) Status() string {
	t := v.s.Turn()
	switch {
	case t == nil && len(v.s.Queue) == 0:
		return ""
	case v.lacks == lacksServers && v.needsNode():
		return silentServers
	case v.lacks == lacksNode && v.needsNode():
		return "waiting for a node that goes on with the turn: " + v.opts.Starts
	case t == nil:
		return "waiting for a node to take the turn"
	case t.Cancelled:
		return "waiting for the turn to stop"
	case v.Question() != nil && v.Question().Session != v.s.Session:
		return fmt.Sprintf("waiting for an approval of %s, for agent %s", transcript.VisibleLine(v.Question().Tool), v.Question().Session)
	case v.Question() != nil:
		return "waiting for an approval of " + transcript.VisibleLine(v.Question().Tool)
	case !t.Replied && !v.retry.IsZero():
		return "waiting for the model, " + tryOf(v.retry)
	case !t.Replied:
		return "waiting for the model"
	}
	var names []string
	for i := range t.Calls {
		if !t.Calls[i].Done {
			names = append(names, transcript.VisibleLine(t.Calls[i].Tool))
		}
	}
	if len(names) == 0 {
		return "waiting for the node"
	}
	return "waiting for " + strings.Join(names, ", ")
}
