package turn

import (
	"strconv"
	"strings"

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

// Call is one tool call to run.
type Call struct {
	Index    int64 // index among the reply's calls
	Effect   events.EffectID
	ID       events.CallID // from the model's reply
	Tool     string
	Args     []byte
	Blob     events.BlobRef            // replaces Args above the inline limit
	Holder   string                    // instance of a plugin that has the call; empty if the worker runs it
	Resolved *events.ToolResult        // the result, if the call was pending
	Answer   *events.ToolApprovalGiven // the answer to its approval request
}

// Parked reports whether the running turn only waits for approvals or results from outside, so that no worker has it.
func Parked(s *projector.State) bool {
	n := Next(s)
	return n.OnlyWaits() && !n.Stop
}

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
			ID: c.ID, Tool: c.Tool, Args: c.Args, Blob: c.Blob, Holder: c.Holder,
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

// ModelEffect is the effect id of an iteration's model call.
func ModelEffect(turn events.TurnID, iteration int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/model")
}

// ToolEffect is the effect id of a tool call.
func ToolEffect(turn events.TurnID, iteration, call int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/" + strconv.FormatInt(call, 10))
}

// ParseToolEffect is the inverse of [ToolEffect]. ok is false for any other id, as that of a nested call.
func ParseToolEffect(id events.EffectID) (turn events.TurnID, iteration, call int64, ok bool) {
	turn = OfEffect(id)
	first, second, _ := strings.Cut(strings.TrimPrefix(string(id), string(turn)+"/"), "/")
	iteration, err := strconv.ParseInt(first, 10, 64)
	if err == nil {
		call, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil || turn == "" || iteration < 0 || call < 0 || ToolEffect(turn, iteration, call) != id {
		return "", 0, 0, false
	}
	return turn, iteration, call, true
}

// OfEffect is the turn of an effect. The ids of all effects of a turn begin with its id.
func OfEffect(id events.EffectID) events.TurnID {
	turn, _, _ := strings.Cut(string(id), "/")
	return events.TurnID(turn)
}

// HookEffect is the effect id of the hooks at a point.
func HookEffect(o Needs) events.EffectID {
	id := string(o.Turn) + "/" + strconv.FormatInt(o.Iteration, 10) + "/" + string(o.Hooks)
	if o.At != "" {
		id += "/" + string(o.At)
	}
	return events.EffectID(id)
}
