package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/playback"
)

// claim is a turn.started.
type claim struct {
	turn     events.TurnID
	worker   events.WorkerID
	seq      events.Seq
	at       time.Time
	takeover bool // an attempt after the first
}

// recorded is the commit of an effect's reply, result or loss.
type recorded struct {
	seq  events.Seq
	at   int64           // Unix milliseconds, shortly before the append
	by   events.WorkerID // empty: not a worker
	lost bool
}

// audit compares one history with its recording and the ledgers.
type audit struct {
	plan    *playback.Plan
	claims  []claim
	effects map[events.EffectID]recorded
	refused map[events.EffectID]string // results of calls that did not start, as their instance of the plugin was gone
	once    map[events.EffectID]bool
	found   findings
}

// findings of one session.
type findings struct {
	lost     error // the history differs from the recording
	doubled  []string
	unknown  int // calls with an unknown outcome, as the history records
	repeated int // effects that started again before they were recorded
	stale    int // effects that a superseded worker repeated before it noticed
	refused  int // calls that did not start, as the history records
	outside  int // calls that ran in processes of the plugin
	once     int // of them, those that must not run twice
	claims   []claim
}

func newAudit(plan *playback.Plan) *audit {
	return &audit{
		plan: plan, once: mustNotRepeat(plan),
		effects: make(map[events.EffectID]recorded), refused: make(map[events.EffectID]string),
	}
}

func auditSession(ctx context.Context, b *bus.Bus, c *conversation, ledger []entry) (findings, error) {
	a := newAudit(c.plan)
	v, broken, err := readHistory(ctx, b, c.plan.Session, a.event)
	if err != nil && !errors.Is(err, events.ErrNoSession) {
		return findings{}, err
	}
	for _, violation := range v.Check() {
		broken = append(broken, fmt.Errorf("%+v", violation))
	}
	switch diff, err := playback.Compare(ctx, b, a.expected(), v.State()); {
	case err != nil:
		return findings{}, fmt.Errorf("compare session %s: %w", c.plan.Session, err)
	case diff != nil:
		broken = append(broken, diff)
	}
	if c.err != nil {
		broken = append(broken, c.err)
	}
	a.found.lost = errors.Join(broken...)
	a.countRepeats(ledger)
	a.found.claims, a.found.refused = a.claims, len(a.refused)
	return a.found, nil
}

func (a *audit) event(seq events.Seq, c *events.Commit, e *events.Event) {
	r := recorded{seq: seq, at: int64(c.At), by: events.WorkerID(c.Actor.ID)}
	switch p := e.Payload.(type) {
	case *events.TurnStarted:
		a.claims = append(a.claims, claim{e.Turn, p.Worker, seq, time.UnixMilli(int64(c.At)), p.Attempt > 1})
	case *events.ModelReplied:
		a.record(turn.ModelEffect(e.Turn, p.Iteration), r)
	case *events.ToolReturned:
		for i := range p.Results {
			a.returned(turn.ToolEffect(e.Turn, p.Iteration, p.Results[i].Call), &p.Results[i], r)
		}
	case *events.ToolLost:
		r.lost = true
		for _, call := range p.Calls {
			a.found.unknown++
			a.record(turn.ToolEffect(e.Turn, p.Iteration, call), r)
		}
	}
}

// returned records a result. The instance of a call that must not run twice may be gone: the call is lost, or did not
// start.
func (a *audit) returned(effect events.EffectID, result *events.ToolResult, r recorded) {
	switch {
	case result.Outcome == events.OutcomeLost:
		r.lost = true
		a.found.unknown++
	case result.Class == plugin.ClassUnavailable && a.once[effect]:
		a.refused[effect] = result.Text
	}
	a.record(effect, r)
}

// expected is the plan with the results of calls that did not start.
func (a *audit) expected() *playback.Plan {
	plan, conv := *a.plan, *a.plan.Conv
	conv.Entries = slices.Clone(conv.Entries)
	plan.Conv = &conv
	eachCall(a.plan, func(effect events.EffectID, _ string, call *playback.Call) {
		text, ok := a.refused[effect]
		for i := range a.plan.Conv.Entries {
			if ok && &a.plan.Conv.Entries[i].Result == call.Result {
				conv.Entries[i].Result.Text, conv.Entries[i].Result.Failed = text, true
			}
		}
	})
	return &plan
}

func (a *audit) record(effect events.EffectID, r recorded) {
	if _, twice := a.effects[effect]; twice {
		a.found.doubled = append(a.found.doubled, fmt.Sprintf("%s is recorded twice", effect))
		return
	}
	a.effects[effect] = r
}

// countRepeats finds effects that ran again and must not: a repeated call of a non-idempotent tool, an effect whose
// recorded outcome its worker knew, and a call that an instance of the plugin ran twice, as an instance knows the ids of
// its calls. A call that did not start, as the history says, must not have run. Not counted: a frozen worker wakes up after the takeover of its turn and runs its
// next effect once more. No guard can prevent that, and its append fails.
func (a *audit) countRepeats(ledger []entry) {
	count, own := make(map[events.EffectID]int), make(map[string]int)
	for _, e := range ledger {
		if isInstance(e.Worker) {
			a.found.outside++
			if a.once[e.Effect] {
				a.found.once++
			}
		}
		count[e.Effect]++
		own[string(e.Worker)+" "+string(e.Effect)]++
		if _, refused := a.refused[e.Effect]; refused {
			a.found.doubled = append(a.found.doubled, fmt.Sprintf("%s ran on %s, and is recorded as not started", e.Effect, e.Worker))
		}
		if a.once[e.Effect] && count[e.Effect] > 1 {
			a.found.doubled = append(a.found.doubled, fmt.Sprintf("%s, which must not run twice, ran again on %s", e.Effect, e.Worker))
			continue
		}
		if count[e.Effect] > 1 {
			a.found.repeated++
		}
		if isInstance(e.Worker) && own[string(e.Worker)+" "+string(e.Effect)] > 1 {
			a.found.doubled = append(a.found.doubled, fmt.Sprintf("%s ran twice on the instance %s", e.Effect, e.Worker))
			continue
		}
		r, ok := a.effects[e.Effect]
		switch {
		case !ok || r.lost:
		case a.knew(e, r, own[string(e.Worker)+" "+string(e.Effect)] > 1):
			a.found.doubled = append(a.found.doubled, fmt.Sprintf("%s was recorded at %d and asked for again by %s", e.Effect, r.seq, e.Worker))
		case e.At > r.at:
			a.found.stale++
		}
	}
}

// knew reports whether the worker had seen the recorded outcome before it started the effect: it recorded it itself, or it
// claimed the turn later. ranBefore: the worker started the effect before. Its first start does not count as a
// repetition: a commit has the time of its first input, so a later input of the commit may start after that time.
func (a *audit) knew(e entry, r recorded, ranBefore bool) bool {
	if ranBefore && r.by == e.Worker && e.At > r.at {
		return true
	}
	i := slices.IndexFunc(a.claims, func(c claim) bool {
		return c.worker == e.Worker && c.seq > r.seq && c.turn == turn.OfEffect(e.Effect) && c.at.UnixMilli() <= e.At
	})
	return i >= 0
}

// mustNotRepeat are the calls of a plan whose tools are not idempotent.
func mustNotRepeat(plan *playback.Plan) map[events.EffectID]bool {
	list := make(map[events.EffectID]bool)
	eachCall(plan, func(effect events.EffectID, tool string, _ *playback.Call) { list[effect] = plan.MayLose[tool] })
	return list
}
