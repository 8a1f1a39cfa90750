package projector_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// goldenFold is the version of the fold, and the digest of its snapshots. A change of Apply or of the snapshot format
// changes the digest. Raise [projector.FoldVersion] then, and store both here.
const goldenFold = "26 9989cfcb359428467df9936d38c07d975e3a556a46d5bf3162edfb9ec41812e1"

// goldenStep is a commit of one event.
type goldenStep struct {
	turn    events.TurnID
	payload events.Payload
}

// withoutEffect are the kinds that do not change the state.
var withoutEffect = []events.Kind{events.KindBodyStored}

// TestFoldVersion folds a fixed history with every kind. The snapshots after each commit have the digest that is stored
// with the version of the fold.
func TestFoldVersion(t *testing.T) {
	t.Parallel()
	s, sum := projector.New(sid), sha256.New()
	found := make(map[events.Kind]bool)
	for _, step := range goldenHistory() {
		ev := events.Of(step.turn, step.payload)
		found[ev.Kind] = true
		before := s.Clone()
		c := &events.Commit{
			ID: "c", Session: sid, At: events.Millis(1000 + s.Seq), Actor: events.Actor{Kind: events.ActorNode},
			Key: fmt.Sprint("key", s.Seq), Digest: "d", Events: []events.Event{ev},
		}
		applyEncoded(t, s, c)
		if err := s.Check(); err != nil {
			t.Fatalf("%s: %v", ev.Kind, err)
		}
		after := head(t, s)
		sum.Write(after)
		c.Events = []events.Event{{Kind: "later.happened", V: 1, Raw: []byte{0x80}}} // a kind that the fold ignores
		applyEncoded(t, before, c)
		before.Proof.Tree, before.Stored = s.Proof.Tree, s.Stored // every commit is a leaf, and has a size
		if got := !bytes.Equal(head(t, before), after); got == slices.Contains(withoutEffect, ev.Kind) {
			t.Errorf("%s at %d: changes the state: got %v, want %v", ev.Kind, s.Seq, got, !got)
		}
	}
	for _, kind := range events.Kinds() {
		if !found[kind] {
			t.Errorf("%s is not in goldenHistory", kind)
		}
	}
	if got := fmt.Sprintf("%d %x", projector.FoldVersion, sum.Sum(nil)); got != goldenFold {
		t.Errorf("fold: got %s, want %s: a change of the fold needs a new FoldVersion", got, goldenFold)
	}
}

// applyEncoded applies a commit as a reader of the stream decodes it.
func applyEncoded(t *testing.T, s *projector.State, c *events.Commit) {
	t.Helper()
	data, err := events.Encode(c)
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	decoded, err := events.Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	if err := s.Apply(events.Entry{Seq: s.Seq + 1, Commit: decoded, Data: data}); err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
}

// goldenHistory is a history in which each event fits the state before it.
func goldenHistory() []goldenStep {
	return slices.Concat(goldenSession(), goldenTurn(), goldenEnds(), goldenTasks(), goldenMonitors(), []goldenStep{
		{"", &events.SessionClosed{Reason: "done"}},
	})
}

func goldenSession() []goldenStep {
	seed := func(id string) events.NewNode {
		return events.NewNode{ID: events.NodeID(id), Kind: events.NodeMessage, Message: message(id, events.RoleUser, text("about "+id))}
	}
	note := events.NewNode{ID: "note", Kind: events.NodePlugin, Type: "note", Body: []byte(`{"n":1}`)}
	rule := events.Contribution{Slot: events.SlotGuidance, Title: "Search", Priority: -1, Content: "Search first."}
	return []goldenStep{
		{"", &events.SessionOpened{
			Config: events.Config{Environment: "ci", Model: "m0"}, Parent: "p1", Labels: map[string]string{"b": "2", "a": "1"}, Commits: 1,
			Relation: events.RelationChild, Options: map[string]string{"memory": `{"size":3}`}, First: message("first", events.RoleUser, text("begin")),
			Access:   events.ToolAccess{Tools: []string{"read"}, Hidden: []string{"write"}},
			Subagent: events.Subagent{Capability: "research", Depth: 1, MaxDepth: 3}, Usage: "research", Owner: "alice",
		}},
		{"", &events.GraphAppended{Nodes: []events.NewNode{seed("m1"), note}, Key: "k1"}},
		{"", &events.SessionConfigured{Config: events.Config{Model: "m1", MaxIterations: 9, Protocol: "standard", ContextWindow: 1000}, Announced: true}},
		{"", &events.SessionTold{Of: 3, Worker: "w1"}},
		{"", &events.SessionGranted{To: "bob", Rights: []events.SessionRight{events.GrantRead, events.GrantWrite}, By: "alice"}},
		{"", &events.SessionOverlaid{Contributions: []events.Contribution{rule}, WithoutBase: true}},
		{"", &events.SessionExtended{Extension: events.Extension{Type: "code.globals", Body: []byte(`{"x":1}`)}}},
		{"", &events.SessionExtensionsSet{Extensions: []events.Extension{{Type: "note"}}}},
		{"", &events.BodyStored{Blob: events.BlobRef{Digest: strings.Repeat("0f", 32), Size: 70000}, By: "alice"}},
		{"", &events.SessionFirstInputTaken{By: "alice"}},
		{"", &events.ToolSourcesApplied{Sources: []string{"search"}}},
		{"", &events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{{Name: "t", Effects: events.EffectsNone}}}},
		{"", &events.ToolStateApplied{Generation: 1, Continues: true, Tools: []events.ToolEntry{{Name: "u"}}}},
		{"", &events.GraphAppended{Nodes: []events.NewNode{seed("m2")}}},
		{"", &events.GraphBranched{Leaf: "m1"}},
		{"", &events.FrameConfigured{Options: []byte(`{"steps":9}`)}},
		{"", &events.FrameStateSaved{State: []byte(`{"x":1}`)}},
		{"", &events.FrameOpened{Frame: "f2", Reason: "compaction", Keep: "m1", Nodes: []events.NewNode{seed("m3")}}},
		{"", &events.PluginStateSaved{Plugin: "memory", Version: "1.2.0", Revision: 1, State: []byte(`{"notes":2}`)}},
		{"", &events.UsageCharged{Child: "s2", Source: "child", At: 3, Entries: []events.UsageEntry{{Model: "m1", Usage: events.Usage{Input: 3}}}}},
		{"", &events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: []events.Part{text("also")}, Boundary: events.BoundaryBeforeCompletion, Caller: "bob"}},
		{"", &events.InputInjected{Input: "i2", Role: events.RoleSystem, Parts: []events.Part{text("never mind")}}},
		{"", &events.InputCancelled{Inputs: []events.InputID{"i2"}}},
	}
}

// goldenTurn is a turn up to its cancel: a takeover, a failed model call, and calls with every outcome.
func goldenTurn() []goldenStep {
	go1 := events.TurnInput{Parts: []events.Part{text("go")}, Answers: "p1-turn/0/0"}
	done := events.ToolResult{Text: "one", Attempts: 1, Millis: 7}
	calls := []events.Part{text("I look."), call("a"), call("b"), call("c")}
	return []goldenStep{
		{"t1", &events.TurnScheduled{Input: go1, At: 500, Callers: []string{"alice"}}},
		{"t1", &events.TurnRequested{Input: go1, Callers: []string{"bob"}}},
		{"t1", &events.TurnStarted{Attempt: 1, Worker: "w1", Points: []events.HookPoint{events.PointBeforeTurn}}},
		{"t1", &events.TurnReleased{Worker: "w1"}},
		{"t1", &events.TurnStarted{Attempt: 2, Worker: "w2", Points: []events.HookPoint{events.PointBeforeTurn, events.PointCheckpoint}}},
		{"t1", &events.HookRan{Point: events.PointBeforeTurn}},
		{"t1", &events.TurnPrepared{
			Viewed: true, Upto: "m3", View: []events.ViewItem{{Message: message("v", events.RoleUser, text("seen"))}},
			Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: "You help."}},
		}},
		{"t1", &events.HookRan{Point: events.PointBeforeModel, Decisions: []events.Decision{
			{Plugin: "guide", Kind: events.DirectiveContribute, Contributions: []events.Contribution{{Slot: events.SlotGuidance, Content: "Look first."}}},
			{Plugin: "guide", Kind: events.DirectiveSystemPrompt, Message: "Be brief."},
		}}},
		{"t1", &events.ModelFailed{Error: "server", Message: "down", Fallback: events.FallbackTo{Place: 1, Model: "m2"}}},
		{"t1", &events.ModelCompleted{
			Key: "title", Request: strings.Repeat("0f", 32), Source: "memory", Parts: []events.Part{text("A title")}, Stop: events.StopEnd,
			Usage: events.Usage{Input: 2, Output: 1}, Model: "m2",
		}},
		{"t1", &events.ModelReplied{Parts: calls, Stop: events.StopToolUse, Usage: events.Usage{Input: 10, Output: 5, CacheRead: 3}, Model: "m2"}},
		{"t1", &events.HookRan{Point: events.PointBeforeTool, Decisions: []events.Decision{
			{Plugin: "guard", Kind: events.DirectiveReplaceArgs, Call: 1, Body: []byte(`{"safe":true}`), Count: 1},
			{Plugin: "guard", Kind: events.DirectiveJudgePlaces, Call: 1, Body: []byte(`{"path":"docs/a"}`)},
		}}},
		{"t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t", Args: []byte(`{}`), Plugin: "guard", Question: "Run?", Until: 9000}},
		{"t1", &events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true, By: "ann", Reason: "tested"}},
		{"t1", &events.ToolCalled{Calls: []int64{0}}},
		{"t1", &events.ToolNestedCalled{Effect: "t1/0/0/0", Tool: "u", Digest: strings.Repeat("0f", 32)}},
		{"t1", &events.ToolNestedReturned{Effect: "t1/0/0/0", Tool: "u", Digest: strings.Repeat("0f", 32), Args: []byte(`{}`), Result: done}},
		{"t1", &events.ToolReturned{Results: []events.ToolResult{done}}},
		{"t1", &events.ToolPended{Calls: []int64{1, 2}}},
		{"t1", &events.ToolResultScheduled{Effect: "t1/0/1", At: 600, Result: events.ToolResult{Call: 1, Text: "late"}, By: "timer"}},
		{"t1", &events.ToolResolved{Effect: "t1/0/1", Result: events.ToolResult{Call: 1, Text: "two"}, By: "ci"}},
		{"t1", &events.ToolLost{Calls: []int64{1, 2}}},
		{"t1", &events.InputAccepted{Inputs: []events.InputID{"i1"}, At: events.AtAfterWork}},
		{"t1", &events.ModelInterrupted{Iteration: 1, Parts: []events.Part{text("I am")}, Usage: events.Usage{Output: 2}, Model: "m2"}},
		{"t1", &events.TurnCheckpointed{At: events.AtAfterWork}},
	}
}

func goldenEnds() []goldenStep {
	return []goldenStep{
		{"t2", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{text("more")}}, Busy: events.BusyReject, Behind: "t1"}},
		{"t2", &events.TurnDiverted{End: events.EndRejected, By: "t1"}},
		{"t1", &events.TurnCancelRequested{Request: "r1", Origin: "host", Reason: "enough"}},
		{"t1", &events.TurnCompleted{End: events.EndCancelled}},
		{"", &events.AuditHeadSigned{Key: bytes.Repeat([]byte{0x0f}, 32), Signature: make([]byte, 64)}},
		{"t1", &events.TurnAnnounced{Worker: "w2"}},
		{"t1", &events.TurnTold{Worker: "w2"}},
	}
}

func goldenTasks() []goldenStep {
	task := func(id events.TaskID) *events.TaskRegistered {
		return &events.TaskRegistered{
			Task: id, Of: events.TaskSubagent, Producer: "crew", Child: "s2", Cancel: events.CancelAbortLocal, Close: events.CloseTransfer,
			Restart: events.RestartAlways, Runner: "digest", Args: []byte(`{"n":1}`),
		}
	}
	return []goldenStep{
		{"", task("k1")},
		{"", &events.TaskStarted{Task: "k1", Worker: "w1", Attempt: 1}},
		{"", &events.TaskStateChanged{Task: "k1", State: events.TaskWaiting}},
		{"", &events.TaskProgressed{Task: "k1", Message: "half of it"}},
		{"", &events.TaskCancelRequested{Task: "k1", Reason: "enough"}},
		{"", &events.TaskHidden{Task: "k1", Label: "remember"}},
		{"", &events.TaskEnded{Task: "k1", State: events.TaskFailed, Summary: "no such page"}},
		{"", &events.TaskRemoved{Task: "k1"}},
		{"", task("k2")},
		{"", task("k3")},
		{"", &events.TaskLeaving{Tasks: []events.TaskID{"k2", "k3"}, To: "s3"}},
		{"", &events.TaskStayed{Task: "k3"}},
		{"", &events.TaskTransferred{Tasks: []events.TaskID{"k2"}, To: "s3"}},
		{"", &events.TaskCancelRequested{Task: "k3", Reason: "enough"}},
		{"", &events.TaskEnded{Task: "k3", State: events.TaskCancelled}},
		{"", &events.TaskPassedOn{Task: "k3"}},
	}
}

func goldenMonitors() []goldenStep {
	return []goldenStep{
		{"", &events.MonitorRegistered{Spec: events.MonitorSpec{ID: "log", Command: "tail -f log", Env: map[string]string{"B": "2", "A": "1"}, Wake: events.WakeNotify}}},
		{"", &events.MonitorArmed{Monitor: "log"}},
		{"", &events.MonitorStarted{Monitor: "log", Worker: "w1", Attempt: 1}},
		{"", &events.MonitorReported{Monitor: "log", Lines: []events.MonitorLine{{Sequence: 1, Text: "up"}, {Sequence: 2, Text: "oops", Stderr: true}}}},
		{"", &events.MonitorEnded{Monitor: "log", State: events.MonitorFailed, Exit: 3}},
		{"", &events.MonitorUpdatesTaken{Upto: 2}},
	}
}
