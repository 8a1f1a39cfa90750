package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// makeKinds FILE writes an archive of a history with most kinds of events.
func makeKinds(args []string) error { return writeArchive(args[0], historyOfAllKinds().list) }

func historyOfAllKinds() *badHistory {
	h := &badHistory{state: projector.New("bad")}
	h.kindsOfSession()
	h.kindsOfTurn()
	h.kindsOfTasks()
	h.kindsOfMonitors()
	h.kindsLeftOpen()
	h.add(
		events.Of("t3", &events.TurnRequested{Input: events.TurnInput{Parts: textParts("or else?")}, Busy: events.BusyBranch, Behind: "t2"}),
		events.Of("t3", &events.TurnDiverted{End: events.EndBranched, By: "t2", Session: "elsewhere"}),
	)
	h.add(events.Of("t2", &events.TurnCompleted{End: events.EndRuntimeError, Issue: events.Issue{Kind: "runtime", Code: "gave_up", Message: "no node came"}}))
	h.in("t4", &events.TurnCompleted{End: events.EndCancelled})
	h.add(events.Of("", &events.SessionClosed{Reason: "that was all"}))
	return h
}

// addOutside adds a commit for each event, outside of turns.
func (h *badHistory) addOutside(list ...events.Payload) {
	for _, p := range list {
		h.add(events.Of("", p))
	}
}

// in adds a commit for each event, in a turn.
func (h *badHistory) in(turn events.TurnID, list ...events.Payload) {
	for _, p := range list {
		h.add(events.Of(turn, p))
	}
}

// storedBody is the body that the archives have outside of their commits.
const storedBody = "a body"

func (h *badHistory) kindsOfSession() {
	h.addOutside(
		&events.SessionOpened{
			Config: events.Config{Model: "m1"}, Parent: "boss", Relation: events.RelationChild, Usage: "helper", Owner: "boss",
			First: events.Message{Role: events.RoleUser, Parts: textParts("begin here")}, Access: events.ToolAccess{Hidden: []string{"spawn"}},
			Subagent: events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5},
		},
		&events.SessionFirstInputTaken{By: "driver"},
		&events.SessionGranted{To: "guest", Rights: []events.SessionRight{events.GrantRead, events.GrantApprove}, By: "boss"},
		&events.SessionOverlaid{Tools: []events.ToolEntry{{Name: "extra"}}, Contributions: []events.Contribution{{Slot: events.SlotGuidance, Content: "use extra"}}},
		&events.SessionExtended{Extension: events.Extension{Type: "globals", Body: []byte(`{"x":1}`)}},
		&events.SessionExtensionsSet{Extensions: []events.Extension{{Type: "globals", Body: []byte(`{"x":1}`)}}},
		&events.BodyStored{Blob: projector.RefOf([]byte(storedBody)), By: "guest"},
		&events.SessionConfigured{Config: events.Config{Model: "m1", Effort: "high"}, Announced: true},
		&events.FrameConfigured{Options: []byte(`{"n":1}`), All: true},
		&events.FrameStateSaved{State: []byte("x = 1")},
		&events.PluginStateSaved{Plugin: "plan", Version: "1", Revision: 2, State: []byte(`{"on":true}`), Artifacts: []events.Artifact{{Name: "notes", Data: []byte("n")}}},
		&events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{{Name: "add", Source: "math"}, {Name: "slow", Source: "math"}}},
		&events.ToolSourcesApplied{Sources: []string{"mail", "web"}},
		&events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: textParts("also this")},
		&events.InputInjected{Input: "i2", Role: events.RoleUser, Parts: textParts("never mind")},
		&events.InputCancelled{Inputs: []events.InputID{"i2"}},
	)
}

func (h *badHistory) reply(turn events.TurnID, iteration int64, parts ...events.Part) *events.ModelReplied {
	prompt, err := h.state.Prompt()
	if err != nil {
		panic(err)
	}
	stop := events.StopEnd
	if slices.ContainsFunc(parts, func(p events.Part) bool { return p.Kind == events.PartToolCall }) {
		stop = events.StopToolUse
	}
	reply := &events.ModelReplied{Iteration: iteration, Prompt: prompt.Ref, Parts: parts, Stop: stop, Usage: events.Usage{Input: 10, Output: 5}, Model: "m1"}
	h.in(turn, reply)
	return reply
}

func calls(tools ...string) []events.Part {
	list := make([]events.Part, len(tools))
	for i, tool := range tools {
		list[i] = events.Part{Kind: events.PartToolCall, Call: events.CallID(fmt.Sprintf("c%d", i)), Tool: tool, Args: []byte(`{"x":1}`)}
	}
	return list
}

func (h *badHistory) kindsOfTurn() {
	points := []events.HookPoint{events.PointBeforeTurn, events.PointBeforeTool, events.PointCheckpoint}
	h.add(events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: textParts("hello")}}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w1", Points: points}))
	h.in("t1", &events.InputAccepted{At: events.AtStart, Inputs: []events.InputID{"i1"}})
	h.add(
		events.Of("t1", &events.HookRan{Point: events.PointBeforeTurn, Decisions: []events.Decision{
			{Plugin: "plan", Kind: events.DirectiveEmitTrace, Name: "plugin.plan.began", Body: []byte(`{"on":true}`)},
			{Plugin: "helper", Kind: events.DirectiveCreate, Session: "kid"},
		}}),
		events.Of("t1", &events.TurnPrepared{Contributions: []events.Contribution{{Slot: events.SlotGuidance, Content: "Change nothing."}}}),
		events.Of("t1", &events.HookRan{Point: events.PointBeforeModel, Decisions: []events.Decision{
			{Plugin: "plan", Kind: events.DirectiveContribute, Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: "Plan only."}}},
			{Plugin: "plan", Kind: events.DirectiveSystemPrompt, Message: "Be brief."},
		}}),
	)
	h.in("t1",
		&events.ModelInterrupted{Parts: textParts("half a"), Model: "m1"},
		&events.ModelFailed{Error: "overload", Code: "529", Message: "later"},
		&events.ModelCompleted{Key: "k", Request: strings.Repeat("ab", 32), Source: "summary", Parts: textParts("in short"), Stop: events.StopEnd, Usage: events.Usage{Input: 3, Output: 2}, Model: "m2"},
	)
	h.reply("t1", 0, calls("add", "slow", "run_code", "gone")...)
	h.in("t1",
		&events.HookRan{Point: events.PointBeforeTool, Failed: "guard", Issue: events.Issue{Kind: "plugin", Code: "before_tool_call_failed", Message: "no idea"}},
		&events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "add", Args: []byte(`{"x":1}`), Plugin: "guard", Question: "really?"},
		&events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true, By: "mum", Reason: "fine"},
		&events.ToolCalled{Calls: []int64{0, 1, 2, 3}},
		&events.ToolPended{Calls: []int64{1}},
		&events.ToolNestedCalled{Effect: "t1/0/2/0", Tool: "add", Digest: strings.Repeat("cd", 32)},
		&events.ToolNestedReturned{Effect: "t1/0/2/0", Tool: "add", Args: []byte(`{"x":2}`), Digest: strings.Repeat("cd", 32), Result: events.ToolResult{Text: "3"}},
		&events.ToolResolved{Effect: "t1/0/1", By: "robot", Result: events.ToolResult{Call: 1, Text: "at last"}},
		&events.ToolReturned{Results: []events.ToolResult{{Call: 0, Text: "1"}, {Call: 1, Text: "at last"}, {Call: 2, Outcome: events.OutcomeFailure, Code: "code_error", Text: "[error]"}}},
		&events.ToolLost{Calls: []int64{3}},
		&events.TurnCheckpointed{At: events.AtAfterWork},
		&events.HookRan{Point: events.PointCheckpoint, At: events.AtAfterWork},
		&events.TurnCancelRequested{Request: "r1", Origin: "host", Reason: "enough"},
		&events.TurnCompleted{End: events.EndCancelled},
	)
	h.addOutside(
		&events.UsageCharged{Child: "kid", Source: "subagent", At: 7, Entries: []events.UsageEntry{{Model: "m3", Usage: events.Usage{Input: 8, Output: 4}}}},
		&events.FrameOpened{Frame: "f2", Reason: "compaction"},
		&events.GraphAppended{Nodes: []events.NewNode{{ID: "note", Kind: events.NodePlugin, Type: "note", Body: []byte(`{}`)}}},
		&events.GraphBranched{Leaf: "u-t1"},
	)
}

func (h *badHistory) kindsOfTasks() {
	h.addOutside(
		&events.TaskRegistered{Task: "index", Of: events.TaskTool, Producer: "files", Runner: "indexer", Args: []byte(`{}`)},
		&events.TaskStarted{Task: "index", Worker: "w2", Attempt: 1},
		&events.TaskStateChanged{Task: "index", State: events.TaskWaiting},
		&events.TaskProgressed{Task: "index", Message: "half way"},
		&events.TaskCancelRequested{Task: "index", Reason: "too slow"},
		&events.TaskEnded{Task: "index", State: events.TaskCancelled, Summary: "stopped at half"},
		&events.TaskRegistered{Task: "agent", Of: events.TaskSubagent, Child: "kid", State: events.TaskRunning},
		&events.TaskRegistered{Task: "short", State: events.TaskRunning},
		&events.TaskEnded{Task: "short", State: events.TaskCompleted},
		&events.TaskRemoved{Task: "short"},
		&events.TaskRegistered{Task: "moved", State: events.TaskRunning},
		&events.TaskTransferred{Tasks: []events.TaskID{"moved"}, To: "heir"},
	)
}

func (h *badHistory) kindsOfMonitors() {
	h.addOutside(
		&events.MonitorRegistered{Spec: events.MonitorSpec{ID: "watch", Command: "tail -f log"}},
		&events.MonitorArmed{Monitor: "watch"},
		&events.MonitorStarted{Monitor: "watch", Worker: "w2", Attempt: 1},
		&events.MonitorReported{Monitor: "watch", Lines: []events.MonitorLine{{Sequence: 2, Text: "it broke"}, {Sequence: 3, Text: "oh no", Stderr: true}}},
		&events.MonitorEnded{Monitor: "watch", State: events.MonitorFailed, Exit: 2, Error: "status 2"},
		&events.MonitorUpdatesTaken{Upto: 2},
	)
}

// kindsLeftOpen adds a turn that waits for two approvals.
func (h *badHistory) kindsLeftOpen() {
	h.add(events.Of("t2", &events.TurnRequested{Input: events.TurnInput{Parts: textParts("and now?")}}), events.Of("t2", &events.TurnStarted{Attempt: 1, Worker: "w1"}))
	h.reply("t2", 0, calls("add", "slow")...)
	h.in("t2",
		&events.ToolCalled{Calls: []int64{1}},
		&events.ToolPended{Calls: []int64{1}},
		&events.ToolResultScheduled{Effect: "t2/0/1", At: 86_400_000, Result: events.ToolResult{Call: 1, Text: "too late"}, By: "alarm"},
		&events.ToolApprovalAsked{Effect: "t2/0/0", Tool: "add", Args: []byte(`{"x":1}`), Plugin: "guard", Question: "again?"},
		&events.TurnReleased{Worker: "w1"},
	)
	h.in("t4", &events.TurnScheduled{Input: events.TurnInput{Parts: textParts("tomorrow")}, At: 86_400_000, Busy: events.BusyInterrupt})
	h.add(events.Of("", &events.TaskPassedOn{Task: "agent"}), events.Of("", &events.TaskHidden{Task: "agent", Label: "unseen"}), events.Of("", &events.SessionTold{Of: 2, Worker: "w1"}))
	h.add(events.Of("", &events.TaskLeaving{Tasks: []events.TaskID{"agent"}, To: "s0"}), events.Of("", &events.TaskStayed{Task: "agent"}))
	h.in("t3", &events.TurnAnnounced{Worker: "w1"}, &events.TurnTold{Worker: "w2"})
	h.addOutside(
		&events.AuditHeadSigned{Key: bytes.Repeat([]byte{15}, 32), Before: 1, Edge: make([]byte, 32), Leaves: make([]byte, 64), Signature: make([]byte, 64)},
	)
}
