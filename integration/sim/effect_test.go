package sim

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/session/work"
)

// The tools and their properties.
const (
	toolAgain   = "again"   // may run again
	toolFar     = "far"     // runs as a task; may run again
	toolFarOnce = "faronce" // runs as a task, once
	toolGuarded = "guarded" // the plugin requires an approval; must run once
	toolNests   = "nests"   // makes two calls, the first of which must run once
	toolOnce    = "once"    // must run once
	toolOutside = "outside" // waits for a result from outside, or for a timed result
	toolPure    = "pure"
)

// catalog has the tools of every node, by name.
var catalog = []events.ToolEntry{
	{Name: toolAgain, Effects: events.EffectsIdempotent},
	{Name: toolFar, Effects: events.EffectsIdempotent},
	{Name: toolFarOnce},
	{Name: toolGuarded},
	{Name: toolNests, Effects: events.EffectsIdempotent},
	{Name: toolOnce},
	{Name: toolOutside, Effects: events.EffectsIdempotent},
	{Name: toolPure, Effects: events.EffectsNone},
}

// scripts are the tool calls of a turn's replies. The reply after the last one is the answer.
var scripts = [][][]string{
	{{toolAgain, toolGuarded, toolOnce}, {toolGuarded, toolPure}},
	{{toolNests, toolPure}, {toolOnce}},
	{},
	{{toolFar, toolFarOnce}, {toolGuarded, toolFarOnce}},
	{{toolOutside, toolAgain}, {toolNests, toolGuarded}},
	{{toolOnce}, {toolOutside, toolGuarded, toolPure}},
}

// effect is an effect of a node. It may outlive its run; then nothing of it is recorded.
type effect struct {
	*work.Effect
	r         *run
	host      *host
	needs     turn.Needs
	call      turn.Call
	at        *projector.State // state at its start
	cancelled bool
	over      bool
	started   bool
	todo      []func() // wakes and notifications of its appends as a host
	fact      *fact
	inner     int
	in        turn.Input // its outcome
}

// fact is a record that an effect requests.
type fact struct {
	effect  *effect
	list    []events.Payload
	done    bool
	refused bool
}

// startEffects starts the needed effects that do not run yet.
func (r *run) startEffects(needs turn.Needs) error {
	switch {
	case needs.Hooks != "":
		r.launch(turn.HookEffect(needs), "", &effect{needs: needs})
	case needs.Model:
		p, err := r.m.State.Prompt()
		if err != nil {
			return err
		}
		r.launch(turn.ModelEffect(needs.Turn, needs.Iteration), p.Ref.Digest, &effect{needs: needs})
	}
	for _, c := range needs.Calls {
		if r.m.Inflight[c.Effect] == nil {
			r.launch(c.Effect, "", &effect{needs: needs, call: c})
		}
	}
	return nil
}

func (r *run) launch(id events.EffectID, prompt string, e *effect) {
	r.w.startEffect(r.n.id, r.session, id, r.m.Durable().Seq)
	r.w.t.Logf("%s starts %s of %s", r.n.id, id, r.session)
	e.r, e.host, e.at = r, r.n.host, r.m.State.Clone()
	e.Effect = &work.Effect{Turn: e.needs.Turn, ID: id, Prompt: prompt, Cancel: func(error) { e.cancelled = true }}
	r.m.Launch(e.Effect)
	r.n.effects = append(r.n.effects, e)
}

// step executes the effect's next step. A cancelled effect ends, or ignores the cancel.
func (e *effect) step() {
	if e.cancelled && len(e.todo) == 0 && (e.fact != nil || e.r.w.settling || rapid.Bool().Draw(e.r.w.t, "ends")) {
		e.over = true
		return
	}
	switch {
	case len(e.todo) > 0:
		do := e.todo[0]
		e.todo = e.todo[1:]
		do()
	case e.in == nil:
		e.does()
	default:
		e.completes(e.in)
	}
}

// completes delivers the effect's outcome.
func (e *effect) completes(in turn.Input) {
	e.in, e.over = in, true
	e.r.completions = append(e.r.completions, e)
}

func (e *effect) does() {
	switch {
	case e.needs.Hooks != "":
		e.completes(e.gate())
	case e.needs.Model:
		e.completes(e.reply())
	case e.call.Resolved != nil:
		result := *e.call.Resolved
		result.Call = e.call.Index
		e.completes(turn.Results{Iteration: e.needs.Iteration, Results: []events.ToolResult{result}})
	case e.call.Answer != nil && !e.call.Answer.Granted:
		e.returns(events.ToolResult{Outcome: events.OutcomeFailure, Text: "[failed] not approved"})
	case e.call.Tool == toolNests:
		e.nests()
	case e.call.Tool == toolOutside:
		e.pends(e.waitsForTime)
	case e.call.Tool == toolFar, e.call.Tool == toolFarOnce:
		e.pends(e.registersTask)
	case !e.started:
		e.started = true
		e.r.w.startCall(e.r.session, e.call.Tool, e.ID)
	default:
		e.returns(events.ToolResult{Text: "done"})
	}
}

func (e *effect) returns(result events.ToolResult) {
	result.Call = e.call.Index
	e.completes(turn.Results{Iteration: e.needs.Iteration, Results: []events.ToolResult{result}})
}

// pends makes the call wait, after its awaited object is in the history.
func (e *effect) pends(how func() ([]func(), error)) {
	if e.started {
		e.completes(turn.Results{Iteration: e.needs.Iteration, Pending: []int64{e.call.Index}})
		return
	}
	hints, err := how()
	e.todo, e.started = hints, err == nil // after an error it is tried again
}

// waitsForTime sets a timed result for the call. A client may send a result earlier.
func (e *effect) waitsForTime() ([]func(), error) {
	w := e.r.w
	p := &events.ToolResultScheduled{Effect: e.ID, At: w.now + w.anyWait(), Result: events.ToolResult{Text: "in time"}}
	return e.host.decide(e.r.session, func(s *projector.State) ([]events.Event, error) {
		t := s.Turn()
		if t == nil || t.Cancelled || !turn.Resolvable(t, e.ID) || t.TimedResult(e.ID) != nil {
			return nil, nil
		}
		return []events.Event{events.Of(t.ID, p)}, nil
	})
}

// gate is the plugin's decision before a model call, to whose prompt it contributes, or before the calls of a reply: it requires an
// approval for some.
func (e *effect) gate() turn.Input {
	in := turn.Hooks{Ran: events.HookRan{Point: e.needs.Hooks, At: e.needs.At, Iteration: e.needs.Iteration}}
	if e.needs.Hooks == events.PointBeforeModel {
		in.Ran.Decisions = []events.Decision{{Plugin: "p", Kind: events.DirectiveContribute, Contributions: []events.Contribution{
			{Slot: events.SlotIntro, Content: fmt.Sprintf("Call %d of worker %s.", e.needs.Iteration, e.r.n.id)},
		}}}
		return in
	}
	for i, c := range e.at.Turn().Calls {
		if c.Tool == toolGuarded {
			effect := turn.ToolEffect(e.needs.Turn, e.needs.Iteration, int64(i))
			ask := events.ToolApprovalAsked{Effect: effect, Tool: c.Tool, Args: c.Args, Plugin: "p", Question: "really?"}
			if rapid.Bool().Draw(e.r.w.t, "until") {
				ask.Until = e.r.w.now + e.r.w.anyWait()
			}
			in.Asks = append(in.Asks, ask)
		}
	}
	return in
}

// reply is the model's reply at an iteration.
func (e *effect) reply() turn.Input {
	p, err := e.at.Prompt()
	if err != nil {
		e.r.w.t.Fatal(err)
	}
	m := events.ModelReplied{
		Iteration: e.needs.Iteration, Prompt: p.Ref, Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Text: "done"}},
	}
	script := scripts[(e.r.w.script+len(e.needs.Turn)+int(e.needs.Turn[len(e.needs.Turn)-1]))%len(scripts)]
	if int(e.needs.Iteration) < len(script) {
		m.Stop = events.StopToolUse
		for i, tool := range script[e.needs.Iteration] {
			m.Parts = append(m.Parts, events.Part{Kind: events.PartToolCall, Call: events.CallID(fmt.Sprintf("c%d", i)), Tool: tool, Args: []byte("{}")})
		}
	}
	return turn.Reply{ModelReplied: m}
}
