package projector

import (
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

func (s *State) applyFrameConfigured(p *events.FrameConfigured) {
	if !p.All {
		s.onFrame(func(f *Frame) { f.Options = p.Options })
		return
	}
	s.Frames = slices.Clone(s.Frames)
	for i := range s.Frames {
		s.Frames[i].Options = p.Options
	}
}

// onFrame changes the current frame.
func (s *State) onFrame(change func(*Frame)) {
	if n := len(s.Frames); n > 0 {
		s.Frames = slices.Clone(s.Frames)
		change(&s.Frames[n-1])
	}
}

func (s *State) applyPrepared(id events.TurnID, p *events.TurnPrepared) {
	if !p.Kept {
		s.Contributions = p.Contributions
	}
	if t := s.running(id); t != nil {
		t.Viewed, t.Upto, t.View = p.Viewed, p.Upto, p.View
	}
}

func (s *State) applyCheckpointed(id events.TurnID, p *events.TurnCheckpointed, at events.Millis) {
	if t := s.running(id); t != nil {
		t.Checkpoint, t.Ending, t.Since = p.At, p.Ending, at
	}
}

func (s *State) applyHookRan(id events.TurnID, p *events.HookRan, at events.Millis) {
	t := s.running(id)
	if t == nil {
		return
	}
	if p.Point != events.PointAfterTool && p.Point != events.PointReply { // which are parts of other effects
		t.Since = at
	}
	switch p.Point {
	case events.PointBeforeTurn:
		t.Prepared = true
	case events.PointBeforeModel:
		t.prime(p.Decisions)
	case events.PointBeforeTool:
		t.Gated = true
		for i := range p.Decisions {
			d := &p.Decisions[i]
			if d.Call >= int64(len(t.Calls)) {
				continue
			}
			switch c := &t.Calls[d.Call]; d.Kind { //nolint:exhaustive // others change no call
			case events.DirectiveReplaceArgs:
				c.Args, c.Blob = d.Body, events.BlobRef{}
			case events.DirectiveJudgePlaces:
				c.Places = d.Body
			}
		}
	case events.PointAfterTool:
		for i := range p.Decisions {
			t.Queued = append(t.Queued, p.Decisions[i].Messages...)
		}
	case events.PointCheckpoint:
		t.Checkpoint, t.Queued = "", nil
	case events.PointAfterTurn:
		t.Checkpoint = ""
	case events.PointReply: // for watching hosts only
	}
}

// prime changes the prompt of the rest of the turn.
func (t *Turn) prime(list []events.Decision) {
	t.Primed = true
	t.Contributed = slices.DeleteFunc(slices.Clone(t.Contributed), func(c Contributed) bool {
		return slices.ContainsFunc(list, func(d events.Decision) bool { return d.Kind == events.DirectiveContribute && d.Plugin == c.Plugin })
	})
	for i := range list {
		d := &list[i]
		if d.Kind == events.DirectiveSystemPrompt {
			t.System = d.Message
		}
		for _, c := range d.Contributions {
			t.Contributed = append(t.Contributed, Contributed{c, d.Plugin})
		}
	}
}

func (s *State) applyPluginState(p *events.PluginStateSaved) {
	i, found := slices.BinarySearchFunc(s.Plugins, p.Plugin, func(a PluginState, id string) int { return strings.Compare(a.Plugin, id) })
	switch {
	case found && s.Plugins[i].Revision != p.Base:
		return // made from an outdated revision
	case !found:
		s.Plugins = slices.Insert(s.Plugins, i, PluginState{}) // clones have lists of their own
	}
	s.Plugins[i] = PluginState{
		Plugin: p.Plugin, Version: p.Version, Revision: p.Revision, State: p.State, Blob: p.Blob, Artifacts: p.Artifacts,
	}
}

// Plugin finds a plugin's saved state. Without one it returns nil.
func (s *State) Plugin(id string) *PluginState {
	return findFirst(s.Plugins, func(x *PluginState) bool { return x.Plugin == id })
}

func (s *State) applyAsked(id events.TurnID, p *events.ToolApprovalAsked) {
	if t := s.running(id); t != nil && t.Approval(p.Effect) == nil {
		t.Asks = append(t.Asks, Approval{ToolApprovalAsked: *p})
	}
}

func (s *State) applyAnswered(id events.TurnID, p *events.ToolApprovalGiven, at events.Millis) {
	if t := s.running(id); t != nil {
		if a := t.Approval(p.Effect); a != nil && !a.Answered {
			a.Answered, a.Answer, a.At = true, *p, at
		}
	}
}

// Approval finds the approval request of a call. Without one it returns nil.
func (t *Turn) Approval(effect events.EffectID) *Approval {
	return findFirst(t.Asks, func(x *Approval) bool { return x.Effect == effect })
}

// Asked reports whether a question was asked in a call, apart from that whether it may run.
func (t *Turn) Asked(call events.EffectID) bool {
	return slices.ContainsFunc(t.Asks, func(a Approval) bool { return strings.HasPrefix(string(a.Effect), string(call)+"/") })
}

// WaitsForApproval reports whether a call, or one of its nested calls, waits for an approval.
func (t *Turn) WaitsForApproval(effect events.EffectID) bool {
	for i := range t.Asks {
		if a := &t.Asks[i]; !a.Answered && (a.Effect == effect || strings.HasPrefix(string(a.Effect), string(effect)+"/")) {
			return true
		}
	}
	return false
}

func (s *State) applyPended(id events.TurnID, p *events.ToolPended) {
	t := s.running(id)
	if t == nil || !t.Replied || p.Iteration != t.Iteration {
		return
	}
	for _, c := range p.Calls {
		if c < int64(len(t.Calls)) {
			t.Calls[c].Pended = true
		}
	}
}

func (s *State) applyResolved(id events.TurnID, p *events.ToolResolved, at events.Millis) {
	if t := s.running(id); t != nil && t.Resolution(p.Effect) == nil {
		t.Resolved = append(t.Resolved, Resolution{Effect: p.Effect, Result: p.Result, At: at})
	}
}

// Resolution finds the result of a pending call. Without one it returns nil.
func (t *Turn) Resolution(effect events.EffectID) *Resolution {
	return findFirst(t.Resolved, func(x *Resolution) bool { return x.Effect == effect })
}

func (s *State) applyNested(id events.TurnID, n NestedCall) {
	t := s.running(id)
	if t == nil {
		return
	}
	switch old := t.NestedCall(n.Effect); {
	case old == nil:
		t.Nested = append(t.Nested, n)
	case !old.Done:
		*old = n
	}
}

// NestedCall finds a nested call that started. Without one it returns nil.
func (t *Turn) NestedCall(effect events.EffectID) *NestedCall {
	return findFirst(t.Nested, func(x *NestedCall) bool { return x.Effect == effect })
}
