package sim

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// facts are the contents of the histories, and the responses that clients received.
type facts struct {
	ids []events.SessionID
	of  map[events.SessionID]*history
	ran map[events.EffectID]int // number of runs of each call, by session and effect
}

// history is the content of one session's history.
type history struct {
	id        events.SessionID
	verifier  *projector.Verifier
	waiting   []request
	running   events.TurnID
	requested map[events.TurnID]bool
	ends      map[events.TurnID][]events.TurnEnd
	cancelled map[events.TurnID]bool
	recorded  map[events.EffectID]events.Seq // commits of the effects' outcomes
	claimed   map[events.WorkerID]events.Seq
	approvals map[events.EffectID]bool
	resolved  map[events.EffectID]bool

	accepted       []events.TurnID // acknowledged to clients
	scheduled      map[events.TurnID]bool
	cancelAccepted []events.TurnID
}

// request is a turn that waits to start in this session.
type request struct {
	id          events.TurnID
	interrupts  bool
	followsOn   bool
	branchesOff bool
}

func newFacts() *facts {
	return &facts{of: make(map[events.SessionID]*history), ran: make(map[events.EffectID]int)}
}

func (f *facts) add(id events.SessionID) {
	f.ids = append(f.ids, id)
	f.of[id] = &history{
		id: id, verifier: projector.NewVerifier(id), requested: make(map[events.TurnID]bool), ends: make(map[events.TurnID][]events.TurnEnd),
		cancelled: make(map[events.TurnID]bool), recorded: make(map[events.EffectID]events.Seq), claimed: make(map[events.WorkerID]events.Seq),
		approvals: make(map[events.EffectID]bool), resolved: make(map[events.EffectID]bool), scheduled: make(map[events.TurnID]bool),
	}
}

// check verifies the new commits of the histories.
func (w *world) check(t *rapid.T) {
	for _, id := range w.facts.ids {
		h := w.facts.of[id]
		seq := h.verifier.State().Seq
		if last, err := w.truth.Last(w.ctx, id); err != nil || last == seq {
			continue
		}
		for entry, err := range w.truth.Read(w.ctx, id, seq+1) {
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range h.verifier.Apply(entry) {
				t.Fatalf("session %s: %+v", id, wrong)
			}
			for _, wrong := range h.verifier.Check() {
				t.Fatalf("session %s: %+v", id, wrong)
			}
			for i := range entry.Commit.Events {
				h.recordTurn(t, entry.Seq, &entry.Commit.Events[i])
				h.recordEffect(t, entry.Seq, &entry.Commit.Events[i])
			}
			w.recordTasks(h, entry)
		}
	}
}

// recordTurn records the turn events of a commit, and checks them.
func (h *history) recordTurn(t *rapid.T, seq events.Seq, ev *events.Event) {
	switch p := ev.Payload.(type) {
	case *events.TurnScheduled:
		h.scheduled[ev.Turn] = true
	case *events.TurnRequested:
		if h.requested[ev.Turn] {
			t.Fatalf("turn %s of %s at %d is requested twice", ev.Turn, h.id, seq)
		}
		h.requested[ev.Turn] = true
		delete(h.scheduled, ev.Turn)
		h.waiting = append(h.waiting, request{
			id: ev.Turn, interrupts: p.Busy == events.BusyInterrupt, followsOn: p.Switches > 0, branchesOff: p.Busy == events.BusyBranch,
		})
	case *events.TurnStarted:
		h.claimed[p.Worker] = seq
		if p.Attempt == 1 {
			h.starts(t, seq, ev.Turn)
		} else if h.running != ev.Turn {
			t.Fatalf("turn %s of %s at %d is taken over, and %q runs", ev.Turn, h.id, seq, h.running)
		}
	case *events.TurnCancelRequested:
		if h.cancelled[ev.Turn] {
			t.Fatalf("turn %s of %s at %d is cancelled twice", ev.Turn, h.id, seq)
		}
		h.cancelled[ev.Turn] = true
	case *events.TurnCompleted:
		h.over(t, seq, ev.Turn, p.End)
	case *events.TurnDiverted:
		h.over(t, seq, ev.Turn, p.End)
	}
}

// starts checks that a turn starts alone, and in the order of the log.
func (h *history) starts(t *rapid.T, seq events.Seq, id events.TurnID) {
	i := slices.IndexFunc(h.waiting, func(r request) bool { return r.id == id })
	if h.running != "" || i < 0 {
		t.Fatalf("turn %s of %s at %d starts while %q runs, or was not requested", id, h.id, seq, h.running)
	}
	r := h.waiting[i]
	for _, before := range h.waiting[:i] {
		switch {
		case before.branchesOff, r.followsOn && !before.followsOn, r.interrupts && !before.interrupts && !before.followsOn:
		default:
			t.Fatalf("turn %s of %s at %d starts before %s", id, h.id, seq, before.id)
		}
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	h.running = id
}

func (h *history) over(t *rapid.T, seq events.Seq, id events.TurnID, end events.TurnEnd) {
	if len(h.ends[id]) > 0 || !h.requested[id] && !h.scheduled[id] {
		t.Fatalf("turn %s of %s at %d ends as %s, had ended: %v", id, h.id, seq, end, h.ends[id])
	}
	delete(h.scheduled, id)
	h.ends[id] = append(h.ends[id], end)
	if h.running == id {
		h.running = ""
	}
	h.waiting = slices.DeleteFunc(h.waiting, func(r request) bool { return r.id == id })
}

// recordEffect records the effect events of a commit. Each effect has one outcome, and each approval request one answer.
func (h *history) recordEffect(t *rapid.T, seq events.Seq, ev *events.Event) {
	record := func(effect events.EffectID) {
		if at, before := h.recorded[effect]; before {
			t.Fatalf("%s of %s is recorded at %d, and was at %d", effect, h.id, seq, at)
		}
		h.recorded[effect] = seq
	}
	switch p := ev.Payload.(type) {
	case *events.ToolCalled:
		for _, c := range p.Calls {
			effect := turn.ToolEffect(ev.Turn, p.Iteration, c)
			if running := h.verifier.State().Turn(); running.Calls[c].Tool == toolGuarded && !h.approvals[effect] {
				t.Fatalf("%s of %s begins at %d, and nothing approves it", effect, h.id, seq)
			}
		}
	case *events.ModelReplied:
		record(turn.ModelEffect(ev.Turn, p.Iteration))
	case *events.ToolReturned:
		for _, r := range p.Results {
			effect := turn.ToolEffect(ev.Turn, p.Iteration, r.Call)
			record(effect)
			if granted, known := h.approvals[effect]; known && granted != (r.Outcome != events.OutcomeFailure) && r.Outcome != events.OutcomeCancelled {
				t.Fatalf("%s of %s at %d returns %q, the answer was %t", effect, h.id, seq, r.Text, granted)
			}
		}
	case *events.ToolLost:
		for _, c := range p.Calls {
			record(turn.ToolEffect(ev.Turn, p.Iteration, c))
		}
	case *events.ToolNestedReturned:
		record(p.Effect)
	case *events.HookRan:
		record(turn.HookEffect(turn.Needs{Turn: ev.Turn, Hooks: p.Point, At: p.At, Iteration: p.Iteration}))
	case *events.ToolApprovalGiven:
		if _, before := h.approvals[p.Effect]; before {
			t.Fatalf("%s of %s at %d is answered twice", p.Effect, h.id, seq)
		}
		h.approvals[p.Effect] = p.Granted
	case *events.ToolResolved:
		if h.resolved[p.Effect] {
			t.Fatalf("%s of %s at %d is resolved twice", p.Effect, h.id, seq)
		}
		h.resolved[p.Effect] = true
	}
}

// startEffect checks the start of an effect. Its outcome must not be recorded in the commits that its node knows: those
// that it has folded, and those before its claim, because a claim is a decision on the whole history. A superseded
// worker that does not know of the takeover may start the effect again.
func (w *world) startEffect(node events.WorkerID, id events.SessionID, effect events.EffectID, knownSeq events.Seq) {
	w.check(w.t)
	h := w.facts.of[id]
	knownSeq = max(knownSeq, h.claimed[node])
	if at, recorded := h.recorded[effect]; recorded && at <= knownSeq {
		w.t.Fatalf("%s begins %s of %s, which is recorded at %d; it knows the history up to %d", node, effect, id, at, knownSeq)
	}
}

// startCall checks the start of a call: it is approved where the plugin requires that, and a call that must run once has
// not started before.
func (w *world) startCall(id events.SessionID, tool string, effect events.EffectID) {
	w.check(w.t)
	name := events.EffectID(id) + "/" + effect
	w.facts.ran[name]++
	w.t.Logf("call %s runs", name)
	if tool == toolGuarded && !w.facts.of[id].approvals[effect] {
		w.t.Fatalf("call %s runs, and nothing approves it", name)
	}
	if !repeatable(tool) && w.facts.ran[name] > 1 {
		w.t.Fatalf("call %s, which must run once, ran again", name)
	}
}

// addAccepted records a response to a client: the turn is accepted.
func (h *history) addAccepted(id events.TurnID) { h.accepted = append(h.accepted, id) }

// checkCancel checks a response to a client: the turn is cancelled, or had ended before.
func (h *history) checkCancel(w *world, id events.TurnID, won bool) {
	w.check(w.t)
	if !won {
		h.cancelAccepted = append(h.cancelAccepted, id)
		return
	}
	if len(h.ends[id]) == 0 && !slices.ContainsFunc(h.waiting, func(r request) bool { return r.id == id && r.branchesOff }) {
		w.t.Fatalf("a client was told that turn %s of %s has ended", id, h.id)
	}
}

// checkApproval checks a response to a client: its answer counts.
func (h *history) checkApproval(w *world, a events.ToolApprovalGiven) {
	w.check(w.t)
	if granted, known := h.approvals[a.Effect]; !known || granted != a.Granted {
		w.t.Fatalf("answer to %s of %s: got %t %t, a client was told %t", a.Effect, h.id, granted, known, a.Granted)
	}
}

// checkResult checks a response to a client: its result counts.
func (h *history) checkResult(w *world, effect events.EffectID) {
	w.check(w.t)
	if !h.resolved[effect] {
		w.t.Fatalf("a client was told that %s of %s is resolved", effect, h.id)
	}
}
