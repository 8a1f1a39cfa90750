package turn

import (
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Owes is what a state asks of the outside world. At most one of Stop, Hooks,
// Model and Calls is set; Waits beside Calls or Stop, or alone.
type Owes struct {
	Turn      events.TurnID // empty: nothing runs
	Iteration int64
	Stop      bool             // a cancel was requested: stop what runs, then [Stop]
	Hooks     events.HookPoint // the plugins' decisions at a point
	At        events.CheckpointKind
	Model     bool   // one model call
	Calls     []Call // tool calls that can run now
	Waits     bool   // calls wait for somebody outside: an approval, a pending result
}

// Parked reports whether no worker has anything to do for the calls: none
// holds the turn, or will for long. Unless Stop is set, only somebody outside can help.
func (o Owes) Parked() bool { return o.Waits && len(o.Calls) == 0 }

// Call is one tool call owed.
type Call struct {
	Index    int64 // position among the reply's calls
	Effect   events.EffectID
	ID       events.CallID // the model's
	Tool     string
	Args     []byte
	Blob     events.BlobRef            // of the arguments, where they are above the inline cap
	Resolved *events.ToolResult        // it was pending, and this is what it came to
	Answer   *events.ToolApprovalGiven // what was said when it was asked for
}

// Parked reports whether the running turn only waits for somebody outside, so that no worker has it.
func Parked(s *projector.State) bool {
	o := Owed(s)
	return o.Parked() && !o.Stop
}

// Owed lists what the state owes.
func Owed(s *projector.State) Owes {
	t := s.Turn()
	if t == nil {
		return Owes{}
	}
	o := owed(s, t)
	if t.Cancelled && o.At != events.AtEnd {
		return Owes{Turn: t.ID, Iteration: t.Iteration, Stop: true, Waits: o.Parked()}
	}
	return o
}

// owed is [Owed] of a turn that nobody cancelled.
func owed(s *projector.State, t *projector.Turn) Owes {
	o := Owes{Turn: t.ID, Iteration: t.Iteration}
	switch {
	case t.Checkpoint == events.AtEnd:
		o.Hooks, o.At = events.PointAfterTurn, t.Checkpoint
	case !t.Prepared && t.Owes(events.PointBeforeTurn):
		o.Hooks = events.PointBeforeTurn
	case t.Checkpoint != "":
		o.Hooks, o.At = events.PointCheckpoint, t.Checkpoint
	case !t.Replied:
		o.Model = true
	case !t.Gated && t.Owes(events.PointBeforeTool):
		o.Hooks = events.PointBeforeTool
	default:
		o.calls(s, t)
	}
	return o
}

// calls are those without a result that do not wait: the parallel ones first, then the serial ones one by one.
func (o *Owes) calls(s *projector.State, t *projector.Turn) {
	var serial []Call
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Done {
			continue
		}
		call := Call{
			Index: int64(i), Effect: ToolEffect(t.ID, t.Iteration, int64(i)),
			ID: c.ID, Tool: c.Tool, Args: c.Args, Blob: c.Blob,
		}
		if r := t.Resolution(call.Effect); r != nil {
			call.Resolved = &r.Result
		}
		if a := t.Approval(call.Effect); a != nil && a.Answered {
			call.Answer = &a.Answer
		}
		entry, ok := s.Catalog.Tool(c.Tool)
		switch {
		case t.Asking(call.Effect), c.Pended && call.Resolved == nil:
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

// ModelEffect names the model call of an iteration.
func ModelEffect(turn events.TurnID, iteration int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/model")
}

// ToolEffect names one tool call of an iteration.
func ToolEffect(turn events.TurnID, iteration, call int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/" + strconv.FormatInt(call, 10))
}

// HookEffect names what the plugins are asked at a point.
func HookEffect(o Owes) events.EffectID {
	id := string(o.Turn) + "/" + strconv.FormatInt(o.Iteration, 10) + "/" + string(o.Hooks)
	if o.At != "" {
		id += "/" + string(o.At)
	}
	return events.EffectID(id)
}
