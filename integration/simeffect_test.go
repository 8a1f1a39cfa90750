package integration

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// noteRecorded keeps where histories have what effects came to, and who claimed turns.
func (w *world) noteRecorded(id events.SessionID, entry events.Entry) {
	record := func(effect events.EffectID) {
		name := simEffect(id, effect)
		if at, before := w.recorded[name]; before {
			w.t.Fatalf("%s is recorded at %d, and was at %d", name, entry.Seq, at)
		}
		w.recorded[name] = entry.Seq
	}
	for i := range entry.Commit.Events {
		ev := &entry.Commit.Events[i]
		switch p := ev.Payload.(type) {
		case *events.TurnStarted:
			w.claimed[string(id)+"/"+string(p.Worker)] = entry.Seq
		case *events.ModelReplied:
			record(turn.ModelEffect(ev.Turn, p.Iteration))
		case *events.ToolReturned:
			for _, r := range p.Results {
				record(turn.ToolEffect(ev.Turn, p.Iteration, r.Call))
			}
		case *events.ToolLost:
			for _, c := range p.Calls {
				record(turn.ToolEffect(ev.Turn, p.Iteration, c))
			}
		case *events.HookRan:
			record(turn.HookEffect(turn.Owes{Turn: ev.Turn, Hooks: p.Point, At: p.At, Iteration: p.Iteration}))
		}
	}
}

// begins wants an effect that begins not to be recorded where its node can
// know: in what it has folded, or before its claim, as a claim is a decision on
// the whole history. Who was superseded and did not hear of it may begin one again.
func (w *world) begins(node events.WorkerID, r *simRun, effect events.EffectID) {
	w.check(w.t)
	name := simEffect(r.job.session, effect)
	knows := max(r.state.Seq, w.claimed[string(r.job.session)+"/"+string(node)])
	if at, recorded := w.recorded[name]; recorded && at <= knows {
		w.t.Fatalf("%s begins %s, which is recorded at %d; it knows the history up to %d", node, name, at, knows)
	}
}
