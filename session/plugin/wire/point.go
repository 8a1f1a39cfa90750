package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Limits of calls of hooks.
const (
	MaxHookCall   = 900 << 10 // of the JSON of a [HookCall]: for a larger one the hook fails
	MaxHookAnswer = 128 << 10 // of the JSON of a [HookResult]
	MaxDirectives = 64        // of one answer
	MaxFireBytes  = 256 << 10 // of the data of a [Fire]
	MaxFires      = 8         // of one plugin that a node handles at once
)

// PointKind says what hooks at a point do.
type PointKind int

// Kinds of points.
const (
	PointUnknown  PointKind = iota
	PointDecides            // a hook answers with directives
	PointObserves           // a hook gets events, also those that happened while no instance ran
	PointCustom             // a hook gets what other plugins fire
)

// SkippedHook is the name of the trace event by which the history says that a hook with fail_open failed. Its payload
// is [Skipped]. No plugin can emit it.
const SkippedHook = "hook_skipped"

// Skipped is the payload of [SkippedHook].
type Skipped struct {
	Hook   string `json:"hook"`
	Reason string `json:"reason"`
}

// KindOf is the kind of a point.
func KindOf(point string) PointKind {
	switch point {
	case string(events.PointBeforeTurn), string(events.PointBeforeModel), string(events.PointBeforeTool), string(events.PointAfterTool),
		string(events.PointCheckpoint), string(events.PointAfterTurn):
		return PointDecides
	case "turn_finalized", "turn_persisted", "session_restored", "session_config_changed":
		return PointObserves
	}
	if name, ok := strings.CutPrefix(point, "custom."); ok && events.CheckToken("point", name) == nil {
		return PointCustom
	}
	return PointUnknown
}

// ofCalls reports whether a point is one of tool calls.
func ofCalls(point string) bool {
	return point == string(events.PointBeforeTool) || point == string(events.PointAfterTool)
}

// Wants reports whether the hook is called for a tool.
func (h *Hook) Wants(tool string) bool { return len(h.Tools) == 0 || slices.Contains(h.Tools, tool) }

func (h *Hook) validate(field string) error {
	if err := events.CheckToken(field+".name", h.Name); err != nil {
		return err
	}
	kind := KindOf(h.Point)
	switch {
	case kind == PointUnknown:
		return refuse(field+".point", "unknown %.100q", h.Point)
	case len(h.Tools) > 0 && !ofCalls(h.Point):
		return refuse(field+".tools", "are for before_tool_call and after_tool_call, not for %s", h.Point)
	case len(h.Tools) > MaxTools:
		return refuse(field+".tools", "are %d, limit is %d", len(h.Tools), MaxTools)
	case h.TimeoutMS < 0 || h.TimeoutMS > MaxHookTimeout.Milliseconds():
		return refuse(field+".timeout_ms", "is %d, want 0 to %d", h.TimeoutMS, MaxHookTimeout.Milliseconds())
	case h.Open && h.Point == string(events.PointBeforeTool):
		return refuse(field+".fail_open", "is not for before_tool_call: a call that no hook checked must not run")
	case h.Open && kind != PointDecides:
		return refuse(field+".fail_open", "is not for %s: its hooks decide nothing", h.Point)
	}
	return checkTools(field+".tools", h.Tools)
}

func checkTools(field string, tools []string) error {
	for i, tool := range tools {
		if err := events.CheckToken(fmt.Sprintf("%s[%d]", field, i), tool); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manifest) validateHooks() error {
	if len(m.Hooks) > MaxHooks {
		return refuse("manifest.hooks", "are %d, limit is %d", len(m.Hooks), MaxHooks)
	}
	names := make(map[string]bool, len(m.Hooks))
	for i := range m.Hooks {
		h, field := &m.Hooks[i], fmt.Sprintf("manifest.hooks[%d]", i)
		if err := h.validate(field); err != nil {
			return err
		}
		if names[h.Name] {
			return refuse(field+".name", "%q occurs twice", h.Name)
		}
		names[h.Name] = true
	}
	return nil
}

// Contribution is the fragment as plugins of a node contribute it to prompts.
func (f *Fragment) Contribution() events.Contribution {
	return events.Contribution{Slot: f.Slot, Title: f.Title, Priority: f.Priority, Tools: f.Tools, Content: f.Content}
}

func (f *Fragment) validate(field string) error {
	recorded := events.TurnPrepared{Contributions: []events.Contribution{f.Contribution()}}
	switch {
	case recorded.Validate() != nil:
		return refuse(field+".slot", "unknown %.100q", f.Slot)
	case f.Content == "" || len(f.Content) > MaxFragmentText:
		return refuse(field+".content", "has %d bytes, want 1 to %d", len(f.Content), MaxFragmentText)
	case len(f.Tools) > MaxTools:
		return refuse(field+".tools", "are %d, limit is %d", len(f.Tools), MaxTools)
	}
	return checkTools(field+".tools", f.Tools)
}

func validateFragments(field string, list []Fragment) error {
	if len(list) > MaxFragments {
		return refuse(field, "are %d, limit is %d", len(list), MaxFragments)
	}
	bytes := 0
	for i := range list {
		if err := list[i].validate(fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
		bytes += len(list[i].Title) + len(list[i].Content)
	}
	if bytes > MaxPromptText {
		return refuse(field, "has %d bytes, limit is %d", bytes, MaxPromptText)
	}
	return nil
}

// Validate checks the limits. Errors: [*events.FieldError].
func (f *Fire) Validate() error {
	switch {
	case KindOf(f.Point) != PointCustom:
		return refuse("point", "is %.100q, want custom.NAME", f.Point)
	case len(f.Data) > MaxFireBytes:
		return refuse("data", "has %d bytes, limit is %d", len(f.Data), MaxFireBytes)
	case f.Session != "":
		return events.CheckToken("session", f.Session)
	}
	return nil
}

// Validate checks the form and the limits of what is the same at every point. Errors: [*events.FieldError].
func (r *HookResult) Validate() error {
	if len(r.Directives) > MaxDirectives {
		return refuse("directives", "are %d, limit is %d", len(r.Directives), MaxDirectives)
	}
	for i := range r.Directives {
		if err := r.Directives[i].validate(fmt.Sprintf("directives[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

// maxWithinMS is the longest time of a call, and for the answer to an approval, a year.
const maxWithinMS = 365 * 24 * 60 * 60 * 1000

// maxTask is the size of the longest task of a frame, in bytes.
const maxTask = 32 << 10

func (d *Directive) validate(field string) error {
	switch {
	case d.Kind == events.DirectiveCreate:
		return refuse(field+".kind", "%s is for plugins in the node: request it of the node", d.Kind)
	case d.WithinMS < 0 || d.WithinMS > maxWithinMS:
		return refuse(field+".within_ms", "is %d, want 0 to %d", d.WithinMS, int64(maxWithinMS))
	case d.Kind == events.DirectiveEmitTrace:
		if err := cmp.Or(checkTraceName(field+".name", d.Name), d.Context.validate(field+".context")); err != nil {
			return err
		}
	}
	if err := d.validatePrompt(field); err != nil {
		return err
	}
	for i := range d.Messages {
		if role := d.Messages[i].Role; role != events.RoleUser && role != events.RoleSystem {
			return refuse(fmt.Sprintf("%s.messages[%d].role", field, i), "is %.100q, want user or system", role)
		}
	}
	return nil
}

// validatePrompt checks the fields of directives before a model call.
func (d *Directive) validatePrompt(field string) error {
	switch {
	case d.Kind == events.DirectiveContribute:
		return validateFragments(field+".contributions", d.Contributions)
	case d.Kind == events.DirectiveSystemPrompt && (d.Text == "" || len(d.Text) > events.MaxInstructionsBytes):
		return refuse(field+".text", "has %d bytes, want 1 to %d", len(d.Text), events.MaxInstructionsBytes)
	case d.Kind != events.DirectiveSwitch:
	case d.Frame == "" || len(d.Frame) > events.MaxIDBytes:
		return refuse(field+".frame", "has %d bytes, want 1 to %d", len(d.Frame), events.MaxIDBytes)
	case d.Task == "" || len(d.Task) > maxTask:
		return refuse(field+".task", "has %d bytes, want 1 to %d", len(d.Task), maxTask)
	}
	return nil
}
