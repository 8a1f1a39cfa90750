package turn

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Needs are the effects that a state needs. At most one of Stop, Hooks, Model and Calls is set. Waits can be set
// together with Calls or Stop, or alone.
type Needs struct {
	Turn      events.TurnID // empty without a running turn
	Iteration int64
	Stop      bool             // a cancel was requested: stop the effects, then [Stop]
	Hooks     events.HookPoint // point whose hooks must run
	At        events.CheckpointKind
	Model     bool   // one model call
	Calls     []Call // tool calls that can run now
	Waits     bool   // calls wait for an approval or a pending result
}

// OnlyWaits reports whether all calls wait for an approval or a result from outside. With Stop set, a worker has work
// all the same.
func (n Needs) OnlyWaits() bool { return n.Waits && len(n.Calls) == 0 }

// Parked reports whether the turn only waits for approvals or results from outside, so that no worker has it.
func (n Needs) Parked() bool { return n.OnlyWaits() && !n.Stop }

// Call is one tool call to run.
type Call struct {
	Index    int64 // index among the reply's calls
	Effect   events.EffectID
	ID       events.CallID // from the model's reply
	Tool     string
	Args     []byte
	Blob     events.BlobRef            // replaces Args above the inline limit
	Holder   string                    // instance of a plugin that has the call; empty if the worker runs it
	Term     string                    // of the program that is Holder; empty where none is known
	Resolved *events.ToolResult        // the result, if the call was pending
	Answer   *events.ToolApprovalGiven // the answer to its approval request
	Places   []byte                    // as the rules judged them, see [events.ToolApprovalAsked]
}

// Parked is [Needs.Parked] of the needs of a state.
func Parked(s *projector.State) bool { return Next(s).Parked() }

// Next computes the effects that the state needs.
func Next(s *projector.State) Needs {
	t := s.Turn()
	if t == nil {
		return Needs{}
	}
	n := nextEffects(s, t)
	if t.Cancelled && n.At != events.AtEnd {
		return Needs{Turn: t.ID, Iteration: t.Iteration, Stop: true, Waits: n.OnlyWaits()}
	}
	return n
}

// nextEffects is [Next] for a turn without a cancel.
func nextEffects(s *projector.State, t *projector.Turn) Needs {
	o := Needs{Turn: t.ID, Iteration: t.Iteration}
	switch {
	case t.Checkpoint == events.AtEnd:
		o.Hooks, o.At = events.PointAfterTurn, t.Checkpoint
	case !t.Prepared && t.HasHooks(events.PointBeforeTurn):
		o.Hooks = events.PointBeforeTurn
	case t.Checkpoint != "":
		o.Hooks, o.At = events.PointCheckpoint, t.Checkpoint
	case !t.Replied && !t.Primed && t.HasHooks(events.PointBeforeModel):
		o.Hooks = events.PointBeforeModel
	case !t.Replied:
		o.Model = true
	case !t.Gated && t.HasHooks(events.PointBeforeTool):
		o.Hooks = events.PointBeforeTool
	default:
		o.calls(s, t)
	}
	return o
}

// calls adds the calls that can run: parallel ones first, then serial ones one by one.
func (o *Needs) calls(s *projector.State, t *projector.Turn) {
	var serial []Call
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Done {
			continue
		}
		call := Call{
			Index: int64(i), Effect: ToolEffect(t.ID, t.Iteration, int64(i)),
			ID: c.ID, Tool: c.Tool, Args: c.Args, Blob: c.Blob, Holder: c.Holder, Term: c.Term, Places: c.Places,
		}
		if r := t.Resolution(call.Effect); r != nil {
			call.Resolved = &r.Result
		}
		if a := t.Approval(call.Effect); a != nil && a.Answered {
			call.Answer = &a.Answer
		}
		entry, ok := s.Catalog.Tool(c.Tool)
		switch {
		case t.WaitsForApproval(call.Effect), c.Pended && call.Resolved == nil:
			o.Waits = true
		case ok && entry.Serial:
			serial = append(serial, call)
		default:
			o.Calls = append(o.Calls, call)
		}
	}
	if len(o.Calls) == 0 && len(serial) > 0 {
		o.Calls = serial[:1]
	}
}
