package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestHookLimits: each manifest has one invalid field of a hook, and its refusal names the field.
func TestHookLimits(t *testing.T) {
	t.Parallel()
	many, tools := make([]wire.Hook, wire.MaxHooks+1), make([]string, wire.MaxTools+1)
	for i := range many {
		many[i] = wire.Hook{Name: fmt.Sprint("h", i), Point: "before_turn"}
	}
	for i := range tools {
		tools[i] = fmt.Sprint("t", i)
	}
	const most = 15_000
	for name, c := range map[string]struct {
		hook  wire.Hook
		field string // of the hook; empty: it is valid
	}{
		"no_name":                   {wire.Hook{Point: "before_turn"}, "name"},
		"name_is_no_token":          {wire.Hook{Name: "a.b", Point: "before_turn"}, "name"},
		"no_point":                  {wire.Hook{Name: "a"}, "point"},
		"unknown_point":             {wire.Hook{Name: "a", Point: "before_model"}, "point"},
		"custom_point_without_name": {wire.Hook{Name: "a", Point: "custom."}, "point"},
		"custom_point_is_no_token":  {wire.Hook{Name: "a", Point: "custom.a.b"}, "point"},
		"tools_of_another_point":    {wire.Hook{Name: "a", Point: "checkpoint", Tools: tools[:1]}, "tools"},
		"too_many_tools":            {wire.Hook{Name: "a", Point: "after_tool_call", Tools: tools}, "tools"},
		"tool_is_no_token":          {wire.Hook{Name: "a", Point: "before_tool_call", Tools: []string{"a", "*"}}, "tools[1]"},
		"negative_timeout":          {wire.Hook{Name: "a", Point: "before_turn", TimeoutMS: -1}, "timeout_ms"},
		"long_timeout":              {wire.Hook{Name: "a", Point: "before_turn", TimeoutMS: most + 1}, "timeout_ms"},
		"gate_that_fails_open":      {wire.Hook{Name: "a", Point: "before_tool_call", Open: true}, "fail_open"},
		"observer_that_fails_open":  {wire.Hook{Name: "a", Point: "turn_persisted", Open: true}, "fail_open"},
		"valid":                     {wire.Hook{Name: "a", Point: "after_tool_call", Tools: tools[:wire.MaxTools], TimeoutMS: most, Open: true}, ""},
		"valid_gate":                {wire.Hook{Name: "a", Point: "before_tool_call"}, ""},
		"valid_before_turn":         {wire.Hook{Name: "a", Point: "before_turn", Open: true}, ""},
		"valid_before_model_call":   {wire.Hook{Name: "a", Point: "before_model_call", Open: true}, ""},
		"valid_checkpoint":          {wire.Hook{Name: "a", Point: "checkpoint"}, ""},
		"valid_after_turn":          {wire.Hook{Name: "a", Point: "after_turn"}, ""},
		"valid_observers":           {wire.Hook{Name: "a", Point: "turn_finalized"}, ""},
		"valid_persisted":           {wire.Hook{Name: "a", Point: "turn_persisted"}, ""},
		"valid_restored":            {wire.Hook{Name: "a", Point: "session_restored"}, ""},
		"valid_changed":             {wire.Hook{Name: "a", Point: "session_config_changed"}, ""},
		"valid_custom":              {wire.Hook{Name: "a", Point: "custom.b"}, ""},
	} {
		m := wire.Manifest{Version: "1", Hooks: []wire.Hook{{Name: "other", Point: "before_turn"}, c.hook}}
		wantField(t, name, m.Validate(), "manifest.hooks[1].", c.field)
	}
	twice := wire.Manifest{Version: "1", Hooks: []wire.Hook{many[0], many[0]}}
	wantField(t, "name_twice", twice.Validate(), "manifest.hooks[1].", "name")
	wantField(t, "too_many", (&wire.Manifest{Version: "1", Hooks: many}).Validate(), "", "manifest.hooks")
	wantField(t, "as_many_as_allowed", (&wire.Manifest{Version: "1", Hooks: many[:wire.MaxHooks]}).Validate(), "", "")
}

// TestFragmentLimits: each manifest has one invalid field of a fragment, and its refusal names the field.
func TestFragmentLimits(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", wire.MaxFragmentText)
	tools := make([]string, wire.MaxTools+1)
	for i := range tools {
		tools[i] = "a"
	}
	for name, c := range map[string]struct {
		fragment wire.Fragment
		field    string
	}{
		"no_slot":          {wire.Fragment{Content: "x"}, "slot"},
		"unknown_slot":     {wire.Fragment{Slot: "end", Content: "x"}, "slot"},
		"no_content":       {wire.Fragment{Slot: "intro"}, "content"},
		"long_content":     {wire.Fragment{Slot: "intro", Content: text + "x"}, "content"},
		"tool_is_no_token": {wire.Fragment{Slot: "intro", Content: "x", Tools: []string{"a b"}}, "tools[0]"},
		"too_many_tools":   {wire.Fragment{Slot: "intro", Content: "x", Tools: tools}, "tools"},
		"valid":            {wire.Fragment{Slot: "guidance", Title: "t", Priority: -1, Content: text, Tools: tools[:1]}, ""},
	} {
		m := wire.Manifest{Version: "1", Prompt: []wire.Fragment{c.fragment}}
		wantField(t, name, m.Validate(), "manifest.prompt[0].", c.field)
	}
	many := make([]wire.Fragment, wire.MaxFragments+1)
	for i := range many {
		many[i] = wire.Fragment{Slot: "intro", Content: "x"}
	}
	wantField(t, "too_many", (&wire.Manifest{Version: "1", Prompt: many}).Validate(), "", "manifest.prompt")
	wantField(t, "as_many_as_allowed", (&wire.Manifest{Version: "1", Prompt: many[:wire.MaxFragments]}).Validate(), "", "")
	large := []wire.Fragment{{Slot: "intro", Content: text}, {Slot: "intro", Content: text[1:], Title: "x"}, {Slot: "intro", Content: "x"}}
	wantField(t, "too_large_together", (&wire.Manifest{Version: "1", Prompt: large}).Validate(), "", "manifest.prompt")
	wantField(t, "as_large_as_allowed", (&wire.Manifest{Version: "1", Prompt: large[:2]}).Validate(), "", "")
}

// TestFireLimits: each request has one invalid field, and its refusal names the field.
func TestFireLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fire  wire.Fire
		field string
	}{
		"no_point":            {wire.Fire{}, "point"},
		"point_of_a_turn":     {wire.Fire{Point: "before_turn"}, "point"},
		"session_is_no_token": {wire.Fire{Point: "custom.a", Session: "*"}, "session"},
		"large_data":          {wire.Fire{Point: "custom.a", Data: make([]byte, wire.MaxFireBytes+1)}, "data"},
		"valid":               {wire.Fire{Point: "custom.a", Session: "s", Data: make([]byte, wire.MaxFireBytes)}, ""},
		"valid_point_only":    {wire.Fire{Point: "custom.a"}, ""},
	} {
		wantField(t, name, c.fire.Validate(), "", c.field)
	}
}

// TestHookResultLimits: each answer has one invalid field, and its refusal names the field.
func TestHookResultLimits(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * 3600 * 1000
	for name, c := range map[string]struct {
		d     wire.Directive
		field string
	}{
		"session":            {wire.Directive{Kind: events.DirectiveCreate}, "kind"},
		"negative_within":    {wire.Directive{Kind: events.DirectiveAskApproval, WithinMS: -1}, "within_ms"},
		"long_within":        {wire.Directive{Kind: events.DirectiveAskApproval, WithinMS: year + 1}, "within_ms"},
		"message_of_model":   {wire.Directive{Kind: events.DirectiveEnqueue, Messages: []wire.Said{{Role: "user"}, {Role: "assistant"}}}, "messages[1].role"},
		"trace_without_name": {wire.Directive{Kind: events.DirectiveEmitTrace}, "name"},
		"trace_of_the_node":  {wire.Directive{Kind: events.DirectiveEmitTrace, Name: wire.SkippedHook}, "name"},
		"long_name":          {wire.Directive{Kind: events.DirectiveEmitTrace, Name: strings.Repeat("n", 101)}, "name"},
		"long_context":       {wire.Directive{Kind: events.DirectiveEmitTrace, Name: "seen", Context: &wire.TraceContext{Metadata: map[string]string{"k": strings.Repeat("v", 257)}}}, "context.metadata"},
		"no_key_in_context":  {wire.Directive{Kind: events.DirectiveEmitTrace, Name: "seen", Context: &wire.TraceContext{Metadata: map[string]string{"": "v"}}}, "context.metadata"},
		"long_id_in_context": {wire.Directive{Kind: events.DirectiveEmitTrace, Name: "seen", Context: &wire.TraceContext{ModelCall: strings.Repeat("v", 257)}}, "context"},
		"valid_context":      {wire.Directive{Kind: events.DirectiveEmitTrace, Name: "seen", Context: &wire.TraceContext{Origin: "t1/0/0", Metadata: map[string]string{"k": "v"}}}, ""},
		"valid_trace":        {wire.Directive{Kind: events.DirectiveEmitTrace, Name: "seen"}, ""},
		"no_prompt":          {wire.Directive{Kind: events.DirectiveSystemPrompt}, "text"},
		"long_prompt":        {wire.Directive{Kind: events.DirectiveSystemPrompt, Text: strings.Repeat("x", 64<<10+1)}, "text"},
		"longest_prompt":     {wire.Directive{Kind: events.DirectiveSystemPrompt, Text: strings.Repeat("x", 64<<10)}, ""},
		"slot":               {wire.Directive{Kind: events.DirectiveContribute, Contributions: []wire.Fragment{{Slot: "attic", Content: "x"}}}, "contributions[0].slot"},
		"no_content":         {wire.Directive{Kind: events.DirectiveContribute, Contributions: []wire.Fragment{{Slot: events.SlotIntro}}}, "contributions[0].content"},
		"many_contributions": {wire.Directive{Kind: events.DirectiveContribute, Contributions: make([]wire.Fragment, wire.MaxFragments+1)}, "contributions"},
		"no_contributions":   {wire.Directive{Kind: events.DirectiveContribute}, ""},
		"no_frame":           {wire.Directive{Kind: events.DirectiveSwitch, Task: "go on"}, "frame"},
		"no_task":            {wire.Directive{Kind: events.DirectiveSwitch, Frame: "f2"}, "task"},
		"long_task":          {wire.Directive{Kind: events.DirectiveSwitch, Frame: "f2", Task: strings.Repeat("x", 32<<10+1)}, "task"},
		"seed_of_model":      {wire.Directive{Kind: events.DirectiveSwitch, Frame: "f2", Task: "x", Messages: []wire.Said{{Role: "assistant"}}}, "messages[0].role"},
		"valid_frame":        {wire.Directive{Kind: events.DirectiveSwitch, Frame: "f2", Task: "x", Messages: []wire.Said{{Role: "user", Text: "known"}}}, ""},
		"valid_question":     {wire.Directive{Kind: events.DirectiveAskApproval, WithinMS: year}, ""},
	} {
		wantField(t, name, (&wire.HookResult{Directives: []wire.Directive{c.d}}).Validate(), "directives[0].", c.field)
	}
	many := make([]wire.Directive, wire.MaxDirectives+1)
	wantField(t, "too_many", (&wire.HookResult{Directives: many}).Validate(), "", "directives")
	wantField(t, "as_many_as_allowed", (&wire.HookResult{Directives: many[1:]}).Validate(), "", "")
}

// wantField fails the test unless err refuses a field, or is nil for the field "".
func wantField(t *testing.T, name string, err error, prefix, field string) {
	t.Helper()
	refused, ok := errors.AsType[*events.FieldError](err)
	if field == "" && err != nil || field != "" && (!ok || refused.Field != prefix+field) {
		t.Errorf("%s: got %v, want a refusal of %q", name, err, prefix+field)
	}
}
