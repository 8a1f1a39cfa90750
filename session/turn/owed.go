package turn

import (
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Owes is what a state asks of the outside world. At most one of Stop, Model and Calls is set.
type Owes struct {
	Turn      events.TurnID // empty: nothing runs
	Iteration int64
	Stop      bool   // a cancel was requested: stop what runs, then [Stop]
	Model     bool   // one model call
	Calls     []Call // tool calls without a result
}

// Call is one tool call owed.
type Call struct {
	Index  int64 // position among the reply's calls
	Effect events.EffectID
	ID     events.CallID // the model's
	Tool   string
	Args   []byte
	Blob   events.BlobRef // of the arguments, where they are above the inline cap
}

// Owed lists what the state owes.
func Owed(s *projector.State) Owes {
	t := s.Turn()
	if t == nil {
		return Owes{}
	}
	o := Owes{Turn: t.ID, Iteration: t.Iteration}
	switch {
	case t.Cancelled:
		o.Stop = true
	case !t.Replied:
		o.Model = true
	default:
		for i := range t.Calls {
			if c := &t.Calls[i]; !c.Done {
				o.Calls = append(o.Calls, Call{
					Index: int64(i), Effect: ToolEffect(t.ID, t.Iteration, int64(i)),
					ID: c.ID, Tool: c.Tool, Args: c.Args, Blob: c.Blob,
				})
			}
		}
	}
	return o
}

// ModelEffect names the model call of an iteration.
func ModelEffect(turn events.TurnID, iteration int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/model")
}

// ToolEffect names one tool call of an iteration.
func ToolEffect(turn events.TurnID, iteration, call int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/" + strconv.FormatInt(call, 10))
}
