package events_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// Violations of kinds' rules are refused by name when they are encoded.
func TestValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", events.MaxIDBytes+1)
	badRole := events.Message{Role: "ghost"}
	badParts := []events.Part{{Kind: "ghost"}}
	twice := []events.NewNode{{ID: "n", Kind: events.NodePlugin, Type: "t"}, {ID: "n", Kind: events.NodePlugin, Type: "t"}}
	tools := func(e events.ToolEntry) events.Payload { return &events.ToolStateApplied{Tools: []events.ToolEntry{e}} }
	returned := func(r events.ToolResult) events.Payload { return &events.ToolReturned{Results: []events.ToolResult{r}} }
	ran := func(d events.Decision) events.Payload {
		return &events.HookRan{Point: events.PointCheckpoint, At: events.AtAfterWork, Decisions: []events.Decision{d}}
	}
	contributes := func(c events.Contribution) events.Payload {
		return &events.TurnPrepared{Contributions: []events.Contribution{c}}
	}
	for _, tc := range []struct {
		name    string
		payload events.Payload
		want    error
		field   string
		reason  string
	}{
		{"opened_relation", &events.SessionOpened{Relation: "ghost", Parent: "p"}, events.ErrInvalid, "relation", "ghost"},
		{"opened_child_of_none", &events.SessionOpened{Relation: events.RelationChild}, events.ErrInvalid, "parent", "empty"},
		{"opened_handoff_of_none", &events.SessionOpened{Relation: events.RelationHandoff}, events.ErrInvalid, "parent", "empty"},
		{"opened_first", &events.SessionOpened{First: badRole}, events.ErrInvalid, "message.role", "ghost"},
		{"opened_protocol", &events.SessionOpened{Config: events.Config{Protocol: long}}, events.ErrInvalid, "config", "at most 256"},
		{"configured_protocol", &events.SessionConfigured{Config: events.Config{Protocol: long}}, events.ErrInvalid, "config", "at most 256"},
		{"first_taken_by", &events.SessionFirstInputTaken{By: long}, events.ErrInvalid, "by", "limit is 256"},
		{"started_points", &events.TurnStarted{Attempt: 1, Worker: "w", Points: []events.HookPoint{"ghost"}}, events.ErrInvalid, "points", "ghost"},
		{"started_points_twice", &events.TurnStarted{Attempt: 1, Worker: "w", Points: []events.HookPoint{events.PointCheckpoint, events.PointCheckpoint}}, events.ErrInvalid, "points", "twice"},
		{"requested_switches", &events.TurnRequested{Root: "t", Switches: -1}, events.ErrInvalid, "switches", "-1"},
		{"requested_too_many_switches", &events.TurnRequested{Root: "t", Switches: 17}, events.ErrInvalid, "switches", "limit is 16"},
		{"requested_no_root", &events.TurnRequested{Switches: 1}, events.ErrInvalid, "root", "switches"},
		{"requested_root_alone", &events.TurnRequested{Root: "t"}, events.ErrInvalid, "root", "switches"},
		{"requested_busy_alone", &events.TurnRequested{Busy: events.BusyReject}, events.ErrInvalid, "behind", "busy"},
		{"requested_behind_alone", &events.TurnRequested{Behind: "t"}, events.ErrInvalid, "behind", "busy"},
		{"requested_behind_root", &events.TurnRequested{Root: "t", Switches: 1, Busy: events.BusyReject, Behind: "t"}, events.ErrInvalid, "behind", "root"},
		{"requested_behind", &events.TurnRequested{Busy: events.BusyReject, Behind: "a b"}, events.ErrInvalidID, "behind", ""},
		{"requested_busy", &events.TurnRequested{Busy: "ghost", Behind: "t"}, events.ErrInvalid, "busy", "ghost"},
		{"requested_inject", &events.TurnRequested{Busy: events.BusyInject, Behind: "t", Input: events.TurnInput{Continue: true}}, events.ErrInvalid, "busy", "message"},
		{"diverted_end", &events.TurnDiverted{End: events.EndFinished, By: "t"}, events.ErrInvalid, "end", "finished"},
		{"diverted_by", &events.TurnDiverted{End: events.EndRejected}, events.ErrInvalidID, "by", ""},
		{"diverted_nowhere", &events.TurnDiverted{End: events.EndBranched, By: "t"}, events.ErrInvalid, "session", "branched"},
		{"diverted_session", &events.TurnDiverted{End: events.EndRejected, By: "t", Session: "s"}, events.ErrInvalid, "session", "branched"},
		{"diverted_session_id", &events.TurnDiverted{End: events.EndBranched, By: "t", Session: "a b"}, events.ErrInvalidID, "session", ""},
		{"diverted_at", &events.TurnDiverted{End: events.EndInjected, By: "t", At: events.AtStart}, events.ErrInvalid, "at", "start"},
		{"diverted_message", &events.TurnDiverted{End: events.EndRejected, By: "t", Message: "m"}, events.ErrInvalid, "at", "injected"},
		{"completed_diverted", &events.TurnCompleted{End: events.EndInjected}, events.ErrInvalid, "end", "injected"},
		{"requested_root", &events.TurnRequested{Root: "a b", Switches: 1}, events.ErrInvalidID, "root", ""},
		{"completed_switch", &events.TurnCompleted{End: events.EndSwitched}, events.ErrInvalid, "switch.frame", "empty"},
		{"called_iteration", &events.ToolCalled{Iteration: -1, Calls: []int64{0}}, events.ErrInvalid, "iteration", "negative"},
		{"called_holders_are_fewer", &events.ToolCalled{Calls: []int64{0, 1}, Holders: []string{"a"}}, events.ErrInvalid, "holders", "1 of 2"},
		{"called_terms_are_fewer", &events.ToolCalled{Calls: []int64{0, 1}, Holders: []string{"a", "b"}, Terms: []string{"1"}}, events.ErrInvalid, "terms", "1 of 2"},
		{"called_terms_without_holders", &events.ToolCalled{Calls: []int64{0}, Terms: []string{"1"}}, events.ErrInvalid, "terms", "1 of 0"},
		{"called_term_of_no_holder", &events.ToolCalled{Calls: []int64{0, 1}, Holders: []string{"a", ""}, Terms: []string{"1", "2"}}, events.ErrInvalid, "terms", "at 1"},
		{"called_term_is_no_token", &events.ToolCalled{Calls: []int64{0}, Holders: []string{"a"}, Terms: []string{"a.b"}}, events.ErrInvalidID, "terms", ""},
		{"called_holder_is_no_token", &events.ToolCalled{Calls: []int64{0}, Holders: []string{"a.b"}}, events.ErrInvalidID, "holders", ""},
		{"returned_iteration", &events.ToolReturned{Iteration: -1, Results: []events.ToolResult{{}}}, events.ErrInvalid, "iteration", "negative"},
		{"lost_iteration", &events.ToolLost{Iteration: -1, Calls: []int64{0}}, events.ErrInvalid, "iteration", "negative"},
		{"pended_iteration", &events.ToolPended{Iteration: -1, Calls: []int64{0}}, events.ErrInvalid, "iteration", "negative"},
		{"completed_end", &events.TurnCompleted{End: "ghost"}, events.ErrInvalid, "end", "ghost"},
		{"completed_nodes", &events.TurnCompleted{End: events.EndSwitched, Switch: events.FrameSwitch{Frame: "f", Nodes: twice}}, events.ErrInvalid, "nodes[1].id", "twice"},
		{"accepted_at_end", &events.InputAccepted{Inputs: []events.InputID{"i"}, At: events.AtEnd}, events.ErrInvalid, "at", "end"},
		{"tool_override", tools(events.ToolEntry{Name: "a", Override: "ghost"}), events.ErrInvalid, "tools.override", "ghost"},
		{"tool_availability", tools(events.ToolEntry{Name: "a", Availability: "showcased"}), events.ErrInvalid, "tools.availability", "showcased"},
		{"result_control", returned(events.ToolResult{Control: "ghost"}), events.ErrInvalid, "control", "ghost"},
		{"result_switch", returned(events.ToolResult{Control: events.ControlSwitch}), events.ErrInvalid, "switch.frame", "empty"},
		{"result_attachments", returned(events.ToolResult{Attachments: badParts}), events.ErrInvalid, "parts[0].kind", "ghost"},
		{"prepared_upto", &events.TurnPrepared{Upto: events.NodeID(long)}, events.ErrInvalid, "upto", "limit is 256"},
		{"prepared_view_nothing", &events.TurnPrepared{Viewed: true, View: []events.ViewItem{{}}}, events.ErrInvalid, "view[0]", "neither"},
		{"prepared_view_no_end", &events.TurnPrepared{Viewed: true, View: []events.ViewItem{{From: "a"}}}, events.ErrInvalid, "view[0]", "neither"},
		{"prepared_view_both", &events.TurnPrepared{Viewed: true, View: []events.ViewItem{{From: "a", To: "a", Message: events.Message{Role: events.RoleUser}}}}, events.ErrInvalid, "view[0]", "both"},
		{"prepared_view_unset", &events.TurnPrepared{View: []events.ViewItem{{From: "a", To: "a"}}}, events.ErrInvalid, "view", "viewed"},
		{"prepared_upto_unset", &events.TurnPrepared{Kept: true, Upto: "n"}, events.ErrInvalid, "view", "viewed"},
		{"prepared_view_message", &events.TurnPrepared{Viewed: true, View: []events.ViewItem{{Message: badRole}}}, events.ErrInvalid, "message.role", "ghost"},
		{"prepared_slot", contributes(events.Contribution{Slot: "ghost"}), events.ErrInvalid, "contributions[0].slot", "ghost"},
		{"prepared_minimum", contributes(events.Contribution{Slot: events.SlotIntro, Minimum: "ghost"}), events.ErrInvalid, "contributions[0].minimum", "ghost"},
		{"prepared_kept", &events.TurnPrepared{Kept: true, Contributions: []events.Contribution{{Slot: events.SlotIntro}}}, events.ErrInvalid, "contributions", "kept"},
		{"checkpointed_start", &events.TurnCheckpointed{At: events.AtStart}, events.ErrInvalid, "at", "start"},
		{"checkpointed_nowhere", &events.TurnCheckpointed{}, events.ErrInvalid, "at", "no checkpoint"},
		{"checkpointed_end", &events.TurnCheckpointed{At: events.AtEnd}, events.ErrInvalid, "end", "unknown"},
		{"completion_no_key", &events.ModelCompleted{Source: "s", Stop: events.StopEnd}, events.ErrInvalid, "key", "empty"},
		{"completion_no_source", &events.ModelCompleted{Key: "k", Stop: events.StopEnd}, events.ErrInvalid, "source", "empty"},
		{"completion_stop", &events.ModelCompleted{Key: "k", Source: "s", Stop: "ghost"}, events.ErrInvalid, "stop", "ghost"},
		{"completion_no_stop", &events.ModelCompleted{Key: "k", Source: "s"}, events.ErrInvalid, "stop", "unknown"},
		{"completion_parts", &events.ModelCompleted{Key: "k", Source: "s", Stop: events.StopEnd, Parts: badParts}, events.ErrInvalid, "parts[0].kind", "ghost"},
		{"hook_point", &events.HookRan{Point: "ghost"}, events.ErrInvalid, "point", "ghost"},
		{"hook_iteration", &events.HookRan{Point: events.PointCheckpoint, Iteration: -1}, events.ErrInvalid, "iteration", "negative"},
		{"decision_kind", ran(events.Decision{Kind: "ghost"}), events.ErrInvalid, "decisions[0].kind", "ghost"},
		{"decision_call", ran(events.Decision{Plugin: "p", Kind: events.DirectiveAbort, Call: -1}), events.ErrInvalid, "decisions[0]", "negative"},
		{"decision_count", ran(events.Decision{Plugin: "p", Kind: events.DirectiveEnqueue, Count: -1}), events.ErrInvalid, "decisions[0]", "negative"},
		{"hook_nowhere", &events.HookRan{Point: events.PointCheckpoint}, events.ErrInvalid, "at", "checkpoint"},
		{"hook_checkpoint_at_end", &events.HookRan{Point: events.PointCheckpoint, At: events.AtEnd}, events.ErrInvalid, "at", "end"},
		{"hook_after_turn", &events.HookRan{Point: events.PointAfterTurn, At: events.AtAfterWork}, events.ErrInvalid, "at", "after_turn"},
		{"hook_before_turn", &events.HookRan{Point: events.PointBeforeTurn, At: events.AtAfterWork}, events.ErrInvalid, "at", "before_turn"},
		{"hook_reply", &events.HookRan{Point: events.PointReply, At: events.AtEnd}, events.ErrInvalid, "at", "reply"},
		{"state_revision", &events.PluginStateSaved{Plugin: "p", Base: 2, Revision: 2}, events.ErrInvalid, "revision", "more than its base 2"},
		{"state_no_plugin", &events.PluginStateSaved{Revision: 1}, events.ErrInvalid, "plugin", "empty"},
		{"artifact_no_name", &events.PluginStateSaved{Plugin: "p", Artifacts: []events.Artifact{{}}}, events.ErrInvalid, "artifacts[0].name", "empty"},
		{"artifact_twice", &events.PluginStateSaved{Plugin: "p", Artifacts: []events.Artifact{{Name: "a"}, {Name: "a"}}}, events.ErrInvalid, "artifacts[1].name", "twice"},
		{"asked_no_effect", &events.ToolApprovalAsked{Plugin: "p"}, events.ErrInvalid, "effect", "empty"},
		{"given_no_effect", &events.ToolApprovalGiven{}, events.ErrInvalid, "effect", "empty"},
		{"pended_none", &events.ToolPended{}, events.ErrInvalid, "calls", "empty"},
		{"pended_descending", &events.ToolPended{Calls: []int64{1, 0}}, events.ErrInvalid, "calls", "ascending"},
		{"resolved_no_effect", &events.ToolResolved{}, events.ErrInvalid, "effect", "empty"},
		{"resolved_call", &events.ToolResolved{Effect: "e", Result: events.ToolResult{Call: -1}}, events.ErrInvalid, "call", "negative"},
		{"result_switch_nodes", returned(events.ToolResult{Control: events.ControlSwitch, Switch: events.FrameSwitch{Frame: "f", Nodes: twice}}), events.ErrInvalid, "nodes[1].id", "twice"},
		{"resolved_outcome", &events.ToolResolved{Effect: "e", Result: events.ToolResult{Outcome: "ghost"}}, events.ErrInvalid, "outcome", "ghost"},
		{"nested_called_no_effect", &events.ToolNestedCalled{}, events.ErrInvalid, "effect", "empty"},
		{"nested_returned_no_effect", &events.ToolNestedReturned{}, events.ErrInvalid, "effect", "empty"},
		{"nested_returned_control", &events.ToolNestedReturned{Effect: "e", Result: events.ToolResult{Control: "ghost"}}, events.ErrInvalid, "control", "ghost"},
		{"charged_no_child", &events.UsageCharged{Source: "s"}, events.ErrInvalidID, "child", "1 to 64"},
		{"charged_no_source", &events.UsageCharged{Child: "c"}, events.ErrInvalid, "source", "empty"},
		{"charged_twice", &events.UsageCharged{Child: "c", Source: "s", Entries: []events.UsageEntry{{Model: "m"}, {Model: "m"}}}, events.ErrInvalid, "entries", "twice"},
		{"charged_order", &events.UsageCharged{Child: "c", Source: "s", Entries: []events.UsageEntry{{Model: "n"}, {Model: "m"}}}, events.ErrInvalid, "entries", "out of order"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			wantField(t, tc.payload.Validate(), tc.want, tc.field, tc.reason)
			_, err := events.Encode(commitOf("c1", events.Of("", tc.payload)))
			runtest.WantError(t, "encode", err, tc.want)
		})
	}
}
