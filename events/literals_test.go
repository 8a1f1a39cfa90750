package events_test

import (
	"bytes"
	"strings"

	"github.com/lash-go/lash/events"
)

// Values for the golden files, with every field set. TestGoldenSetsEveryField names fields that no literal sets.
var (
	goldenBlob   = events.BlobRef{Digest: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Size: 70000}
	goldenConfig = events.Config{
		Provider: "anthropic", Model: "claude", Effort: "high", MaxOutputTokens: 4096, ContextWindow: 200000, MaxIterations: 50,
		Protocol: "code", RetainMillis: 86400000,
	}
	goldenParts = []events.Part{
		{Kind: events.PartText, Text: "héllo"},
		{
			Kind: events.PartToolCall, Text: "t", Blob: goldenBlob, Call: "call_1", Tool: "search", Args: []byte(`{"q":"x"}`),
			Outcome: events.OutcomeFailure, MediaType: "image/png", Meta: []byte(`{"signature":"s"}`),
		},
	}
	goldenMessage = events.Message{
		ID: "m1", Role: events.RoleAssistant, Parts: goldenParts, Origin: "memory", Stop: events.StopOutputLimit,
	}
	goldenNodes = []events.NewNode{
		{ID: "n1", Kind: events.NodeMessage, Message: goldenMessage},
		{ID: "n2", Kind: events.NodePlugin, Type: "memory.note", Body: []byte(`{"a":1}`), Blob: goldenBlob},
	}
	goldenPrompt = events.PromptRef{Digest: goldenBlob.Digest, Leaf: "n1", Frame: "f1", Catalog: 2, Config: 3}
	goldenSwitch = events.FrameSwitch{Frame: "f3", Task: "go on", Nodes: goldenNodes}
	goldenUsage  = events.Usage{Input: 1000, Output: 200, CacheRead: 70000, CacheWrite: 5, Reasoning: 50}
	goldenResult = events.ToolResult{
		Call: 1, Outcome: events.OutcomeFailure, Text: "no such file", Blob: goldenBlob, Class: "tool", Code: "enoent",
		Attempts: 2, Millis: 30, Attachments: goldenParts, Unseen: goldenParts[:1], Full: "no such file: /a", FullBlob: goldenBlob,
	}
	goldenSwitching = events.ToolResult{Call: 3, Control: events.ControlSwitch, Switch: goldenSwitch}
	goldenEnding    = events.TurnCompleted{
		End: events.EndProviderError, Issue: events.Issue{Kind: "provider", Code: "overloaded", Message: "later"},
		Notice: "m3", Tool: "deploy", Call: 2,
	}
	goldenContribution = events.Contribution{
		Slot: events.SlotGuidance, Title: "Search", Priority: -10, Tools: []string{"search", "grep"},
		Minimum: events.Overridden(events.AvailCallable), Content: "Search before you write.",
	}
	goldenSwitched = events.TurnCompleted{End: events.EndSwitched, Switch: goldenSwitch}
)

// goldenPayloads are the events of each kind's golden commit. A kind with exclusive fields has several.
var goldenPayloads = map[events.Kind][]events.Payload{
	events.KindSessionOpened: {&events.SessionOpened{
		Config: goldenConfig, Parent: "p1", Forked: events.ForkedFrom{Session: "s0", Leaf: "n9", Seq: 12},
		Labels: map[string]string{"b": "2", "a": "1"}, Commits: 2,
		Relation: events.RelationChild, Options: map[string]string{"memory": `{"size":3}`}, First: goldenMessage,
		Access:   events.ToolAccess{Tools: []string{"read", "search"}, Hidden: []string{"search"}},
		Subagent: events.Subagent{Capability: "research", Depth: 1, MaxDepth: 3}, Usage: "research", Owner: "alice",
	}, &events.SessionOpened{
		Forked: events.ForkedFrom{Session: "s0", Leaf: "n9", Seq: 12}, Base: goldenBlob,
	}},
	events.KindSessionConfigured: {&events.SessionConfigured{Config: goldenConfig, Announced: true}},
	events.KindSessionTold:       {&events.SessionTold{Of: 7, Worker: "w2"}},
	events.KindSessionClosed:     {&events.SessionClosed{Reason: "done"}},
	events.KindSessionGranted: {&events.SessionGranted{
		To: "bob", Rights: []events.SessionRight{events.GrantRead, events.GrantWrite, events.GrantApprove}, By: "alice",
	}},
	events.KindSessionOverlaid: {&events.SessionOverlaid{
		Tools: []events.ToolEntry{{
			Name: "extra", Description: "one more", Contract: goldenBlob, Effects: events.EffectsNone,
			Source: "lab", Availability: events.AvailCallable, Override: events.Overridden(events.AvailOff), Orphan: true, Serial: true,
		}},
		Contributions: []events.Contribution{goldenContribution}, WithoutBase: true,
	}},
	events.KindSessionExtended:      {&events.SessionExtended{Extension: events.Extension{Type: "code.globals", Body: []byte(`{"x":1}`)}, Saved: true}},
	events.KindSessionExtensionsSet: {&events.SessionExtensionsSet{Extensions: []events.Extension{{Type: "code.globals", Body: []byte(`{"x":2}`)}, {Type: "note"}}}},
	events.KindBodyStored:           {&events.BodyStored{Blob: events.BlobRef{Digest: strings.Repeat("0f", 32), Size: 70000}, By: "alice"}},
	events.KindGraphAppended:        {&events.GraphAppended{Nodes: goldenNodes, Key: "k1"}},
	events.KindGraphBranched:        {&events.GraphBranched{Leaf: "n1"}},
	events.KindFrameOpened:          {&events.FrameOpened{Frame: "f2", Reason: "compaction", Keep: "n2", Nodes: goldenNodes}},
	events.KindTurnRequested: {
		&events.TurnRequested{Input: events.TurnInput{Parts: goldenParts}},
		&events.TurnRequested{Input: events.TurnInput{Continue: true}},
		&events.TurnRequested{Root: "t0", Switches: 2, Input: events.TurnInput{
			Parts: goldenParts, Options: []byte(`{"steps":9}`),
			Extension: events.Extension{Type: "code.globals", Body: []byte(`{"x":1}`)},
			Plugins:   map[string]string{"memory": `{"off":true}`, "budget": `{}`},
		}},
		&events.TurnRequested{Input: events.TurnInput{Parts: goldenParts}, Busy: events.BusyInterrupt, Behind: "t3", Callers: []string{"alice", "bob"}},
	},
	events.KindTurnScheduled: {
		&events.TurnScheduled{Input: events.TurnInput{Parts: goldenParts}, At: 1_700_000_000_123, Callers: []string{"alice"}},
		&events.TurnScheduled{At: 1, Busy: events.BusyInterrupt, Input: events.TurnInput{
			Continue: true, Options: []byte(`{"a":1}`), Extension: events.Extension{Type: "x", Body: []byte(`{}`)}, Plugins: map[string]string{"p": `{"b":2}`},
		}},
	},
	events.KindTurnReleased:  {&events.TurnReleased{Worker: "w1"}},
	events.KindTurnAnnounced: {&events.TurnAnnounced{Worker: "w1"}},
	events.KindTurnTold:      {&events.TurnTold{Worker: "w2"}},
	events.KindTurnStarted: {&events.TurnStarted{
		Attempt: 2, Worker: "w1", Message: "m2", Points: []events.HookPoint{events.PointBeforeTurn, events.PointCheckpoint},
	}},
	events.KindTurnCancelRequested: {&events.TurnCancelRequested{Request: "r1", Origin: "host", Reason: "user"}},
	events.KindTurnCompleted:       {&goldenEnding, &goldenSwitched},
	events.KindTurnDiverted: {
		&events.TurnDiverted{End: events.EndRejected, By: "t3"},
		&events.TurnDiverted{End: events.EndInjected, By: "t3", Message: "m7", At: events.AtAfterWork},
		&events.TurnDiverted{End: events.EndBranched, By: "t3", Session: "s2"},
	},
	events.KindModelReplied: {&events.ModelReplied{
		Iteration: 1, Prompt: goldenPrompt, Parts: goldenParts, Stop: events.StopToolUse,
		Usage:    goldenUsage,
		Provider: "anthropic", Model: "claude", Attempts: 2, Millis: 1234, Message: "m4",
		Detail: "the provider says so", Shown: []events.Part{{Kind: events.PartText, Text: "as users see it"}},
	}},
	events.KindModelInterrupted: {&events.ModelInterrupted{
		Iteration: 1, Prompt: goldenPrompt, Usage: goldenUsage, Provider: "anthropic", Model: "claude", Attempts: 2, Millis: 1234,
		Parts: []events.Part{{
			Kind: events.PartText, Text: "t", Blob: goldenBlob, Call: "call_1", Tool: "search", Args: []byte(`{"q":"x"}`),
			Outcome: events.OutcomeFailure, MediaType: "image/png", Meta: []byte(`{"signature":"s"}`),
		}},
	}},
	events.KindModelFailed: {&events.ModelFailed{
		Iteration: 1, Prompt: goldenPrompt, Error: "rate_limited", Code: "429", Status: 429, Message: "slow down", Attempts: 5,
	}},
	events.KindToolSourcesApplied: {&events.ToolSourcesApplied{Sources: []string{"search", "mail"}}},
	events.KindToolStateApplied: {&events.ToolStateApplied{Generation: 3, Tools: []events.ToolEntry{
		{
			Name: "read", Description: "reads", Contract: goldenBlob, Effects: events.EffectsNone,
			Source: "files", Availability: events.AvailSearchable, Override: events.Overridden(events.AvailShowcased),
			Orphan: true, Serial: true,
		},
		{Name: "write"},
	}}, &events.ToolStateApplied{Generation: 3, Tools: []events.ToolEntry{{Name: "xyz"}}, Continues: true}},
	events.KindToolCalled: {&events.ToolCalled{Iteration: 1, Calls: []int64{0, 2}}, &events.ToolCalled{Iteration: 1, Calls: []int64{2}, Attempt: 2}},
	events.KindToolReturned: {&events.ToolReturned{Iteration: 1, Message: "m5", Results: []events.ToolResult{
		goldenResult,
		{Call: 2, Control: events.ControlFinish},
		goldenSwitching,
	}}},
	events.KindToolLost:      {&events.ToolLost{Iteration: 1, Calls: []int64{0}, Message: "m6"}},
	events.KindInputInjected: {&events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: goldenParts, Boundary: events.BoundaryBeforeCompletion, Caller: "alice"}},
	events.KindInputAccepted: {&events.InputAccepted{Inputs: []events.InputID{"i1", "i2"}, At: events.AtAfterWork}},
	events.KindInputCancelled: {&events.InputCancelled{
		Inputs: []events.InputID{"i3"},
	}},
	events.KindSessionFirstInputTaken: {&events.SessionFirstInputTaken{By: "worker"}},
	events.KindFrameConfigured:        {&events.FrameConfigured{Options: []byte(`{"steps":9}`), All: true}},
	events.KindFrameStateSaved:        {&events.FrameStateSaved{State: []byte(`{"x":1}`), Blob: goldenBlob}},
	events.KindTurnPrepared: {
		&events.TurnPrepared{
			Viewed: true, Upto: "n1", View: []events.ViewItem{{From: "m1", To: "m2"}, {Message: goldenMessage}},
			Contributions: []events.Contribution{goldenContribution},
		},
		&events.TurnPrepared{Kept: true},
	},
	events.KindTurnCheckpointed: {
		&events.TurnCheckpointed{At: events.AtEnd, Ending: goldenEnding},
		&events.TurnCheckpointed{At: events.AtEnd, Ending: goldenSwitched},
		&events.TurnCheckpointed{At: events.AtAfterWork},
	},
	events.KindModelCompleted: {&events.ModelCompleted{
		Key: "title", Request: goldenBlob.Digest, Source: "memory", Parts: goldenParts, Stop: events.StopEnd, Usage: goldenUsage,
		Provider: "anthropic", Model: "claude", Millis: 1234,
	}},
	events.KindHookRan: {&events.HookRan{
		Point: events.PointCheckpoint, At: events.AtAfterWork, Iteration: 1, Failed: "budget",
		Issue: events.Issue{Kind: "runtime", Code: "plugin_failed", Message: "later"},
		Decisions: []events.Decision{
			{
				Plugin: "budget", Kind: events.DirectiveAbort, Code: "spent", Message: "nothing left", Session: "s2", Name: "spent",
				Body: []byte(`{"left":0}`), Count: 1, Call: 2, Messages: []events.Message{goldenMessage},
			},
			{Plugin: "memory", Kind: events.DirectiveEnqueue, Count: 1},
		},
	}},
	events.KindPluginStateSaved: {&events.PluginStateSaved{
		Plugin: "memory", Version: "1.2.0", Base: 3, Revision: 4, State: []byte(`{"notes":2}`), Blob: goldenBlob,
		Artifacts: []events.Artifact{{Name: "index", Data: []byte{0, 1, 2}, Blob: goldenBlob}, {Name: "empty"}},
	}},
	events.KindToolApprovalAsked: {
		&events.ToolApprovalAsked{
			Effect: "t1/1/2", Tool: "deploy", Args: []byte(`{"to":"prod"}`), Blob: goldenBlob, Plugin: "guard", Question: "Deploy?",
		},
		&events.ToolApprovalAsked{
			Effect: "t1/1/3", Tool: "deploy", Args: []byte(`{"to":"prod"}`), Plugin: "guard", Question: "Deploy?", Until: 1700000000123,
		},
	},
	events.KindToolApprovalGiven: {&events.ToolApprovalGiven{Effect: "t1/1/2", Granted: true, By: "ann", Reason: "tested"}},
	events.KindToolPended:        {&events.ToolPended{Iteration: 1, Calls: []int64{0, 2}}},
	events.KindToolResolved: {
		&events.ToolResolved{Effect: "t1/1/1", Result: goldenResult, By: "ci"},
		&events.ToolResolved{Effect: "t1/1/3", Result: goldenSwitching},
	},
	events.KindToolResultScheduled: {
		&events.ToolResultScheduled{Effect: "t1/1/1", At: 1_700_000_000_123, Result: goldenResult, By: "timer"},
		&events.ToolResultScheduled{Effect: "t1/1/3", At: 1, Result: goldenSwitching},
	},
	events.KindToolNestedCalled: {&events.ToolNestedCalled{Effect: "t1/1/2/0", Tool: "deploy", Digest: goldenBlob.Digest}},
	events.KindToolNestedReturned: {
		&events.ToolNestedReturned{
			Effect: "t1/1/2/0", Tool: "deploy", Args: []byte(`{"to":"prod"}`), Blob: goldenBlob, Digest: goldenBlob.Digest,
			Result: goldenResult,
		},
		&events.ToolNestedReturned{Effect: "t1/1/2/1", Tool: "go_on", Digest: goldenBlob.Digest, Result: goldenSwitching},
	},
	events.KindUsageCharged: {&events.UsageCharged{
		Child: "s2", Source: "child", At: 12, Entries: []events.UsageEntry{{Usage: goldenUsage}, {Model: "claude", Usage: goldenUsage}},
	}},
	events.KindTaskRegistered: {&events.TaskRegistered{
		Task: "k1", Of: events.TaskSubagent, Producer: "crew", Child: "s2", Parent: "k0", Cancel: events.CancelAbortLocal,
		Close: events.CloseTransfer, Restart: events.RestartAlways, Runner: "digest", Args: []byte(`{"n":1}`), Worker: "w1",
		State: events.TaskFailed, From: "s0", Attempt: 2, Created: 1732180000000, Summary: "no such page",
	}},
	events.KindTaskStarted:         {&events.TaskStarted{Task: "k1", Worker: "w1", Attempt: 2}},
	events.KindTaskStateChanged:    {&events.TaskStateChanged{Task: "k1", State: events.TaskWaiting}},
	events.KindTaskProgressed:      {&events.TaskProgressed{Task: "k1", Message: "half of it"}},
	events.KindTaskCancelRequested: {&events.TaskCancelRequested{Task: "k1", Reason: "requested by host"}},
	events.KindTaskEnded:           {&events.TaskEnded{Task: "k1", State: events.TaskCompleted, Summary: "42 pages"}},
	events.KindTaskHidden:          {&events.TaskHidden{Task: "k1", Label: "remember"}},
	events.KindTaskPassedOn:        {&events.TaskPassedOn{Task: "k1"}},
	events.KindTaskRemoved:         {&events.TaskRemoved{Task: "k1"}},
	events.KindTaskTransferred:     {&events.TaskTransferred{Tasks: []events.TaskID{"k1", "k2"}, To: "s2"}},
	events.KindTaskLeaving:         {&events.TaskLeaving{Tasks: []events.TaskID{"k1", "k2"}, To: "s2"}},
	events.KindTaskStayed:          {&events.TaskStayed{Task: "k1"}},
	events.KindMonitorRegistered: {&events.MonitorRegistered{Spec: events.MonitorSpec{
		ID: "log", Command: "tail -f log", Cwd: "/srv", Env: map[string]string{"B": "2", "A": "1"}, Persistent: true,
		TimeoutMillis: 60000, ArmOn: events.ArmSessionStart, Wake: events.WakeNotify, RestartOnRestore: true,
	}}},
	events.KindMonitorArmed:   {&events.MonitorArmed{Monitor: "log"}},
	events.KindMonitorStarted: {&events.MonitorStarted{Monitor: "log", Worker: "w1", Attempt: 1}},
	events.KindMonitorReported: {&events.MonitorReported{Monitor: "log", Lines: []events.MonitorLine{
		{Sequence: 3, Text: "up", Wake: "monitor-log-3"},
		{Sequence: 4, Text: "oops", Stderr: true},
	}}},
	events.KindMonitorEnded:        {&events.MonitorEnded{Monitor: "log", State: events.MonitorFailed, Exit: 3, Error: "timed out after 100ms"}},
	events.KindMonitorUpdatesTaken: {&events.MonitorUpdatesTaken{Upto: 4}},
	events.KindAuditHeadSigned: {
		&events.AuditHeadSigned{
			Key: goldenBytes(32), Certificate: "lash node certificate v1\n", Before: 5, Edge: goldenBytes(64), Leaves: goldenBytes(32), Signature: goldenBytes(64),
		},
		&events.AuditHeadSigned{Key: goldenBytes(32), Signature: goldenBytes(64)},
	},
}

// goldenCommit has every field of the envelope set.
func goldenCommit(kind events.Kind) *events.Commit {
	c := &events.Commit{
		ID: "01JD6Z0000000000000000000A", Session: "s1", At: 1732180000123,
		Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Cause: "cmd-1",
	}
	for _, p := range goldenPayloads[kind] {
		c.Events = append(c.Events, events.Of("t1", p))
	}
	return c
}

func goldenBytes(n int) []byte { return bytes.Repeat([]byte{0x0f}, n) }
