package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func frameEntries() []entry {
	return []entry{
		{"F01", "new session has the initial frame", "a new session", "looked at", "frame <id>:frame:initial, active", testInitialFrame},
		{"F02", "reopened frame changes nothing", "frame X is current", "open X again, or a blank id", "opened=false, no change", testFrameAgain},
		{"F03", "new frame shows its seed only", "a history of 4 messages", "open a frame with a seed", "the prompt has only the seed; the graph has all; the previous is superseded", testFrameOpened},
		{"F04", "unstamped nodes belong to the initial frame", "unstamped nodes", "the initial frame is viewed", "visible; in a later frame not", testUnstamped},
		{"F05", "tool switches the frame", "a tool returns a frame switch", "turn ends", "outcome of a switch; a follow-on with the task in the new frame; seeds complete", testToolSwitch},
		{"F06", "follow-on of a switch survives a crash", "a crash after the switching commit", "another node goes on", "the follow-on runs once, before pending inputs and queued turns", testSwitchCrash},
		{"F07", "switches in a row are limited", "each turn switches again", "17th switch", "error agent_frame_switch_limit", testSwitchLimit},
		{"F08", "switch before a model call replaces the call", "before_llm_call returns a switch", "turn", "no model request, outcome of a switch", testSwitchBeforeCall},
		{"F09", "failed hook before a model call fails the turn", "before_llm_call fails", "turn", "it fails; nothing of it counts", testBeforeCallFails},
		{"F10", "compactor of higher priority runs first", "compactors A (priority 1, a seed) and B (priority 9, none)", "compact", "B asked first, A's result used", testCompactors},
		{"F11", "empty compaction changes nothing", "a compactor that returns an empty list", "compact", "as none", testCompactorEmpty},
		{"F13", "options of all frames follow to new frames", "options set for all frames", "another frame, another node", "the same options in each frame", testOptionsAllFrames},
	}
}

// frames are the ids of a session's frames, the last of which is the active one.
func frames(b *harness.System, id events.SessionID) []events.FrameID {
	b.T.Helper()
	var list []events.FrameID
	for _, f := range b.StateOf(id).Frames {
		list = append(list, f.ID)
	}
	return list
}

func testInitialFrame(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	s := b.StateOf(id)
	runtest.EqualLists(t, "frames", frames(b, id), []events.FrameID{events.FrameID(id) + ":frame:initial"})
	runtest.Equal(t, "reason", s.Frame().Reason, "initial")
	runtest.Equal(t, "current", s.Frame().ID, events.FrameID(id)+":frame:initial")
}

func testFrameAgain(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	opened, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "X", Reason: "continue_as"})
	runtest.WantError(t, "open", err, nil)
	runtest.Equal(t, "opened", opened, true)
	before := b.LastSeq(id)
	for _, h := range []*session.Host{b.Host, b.OtherHost()} {
		for _, frame := range []events.FrameID{"X", ""} {
			opened, err := h.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: frame, Reason: "continue_as", Nodes: harness.UserMessages("not added")})
			runtest.WantError(t, "open again", err, nil)
			runtest.Equal(t, "opened again", opened, false)
		}
	}
	runtest.Equal(t, "commits", b.LastSeq(id), before)
	runtest.Equal(t, "nodes", b.StateOf(id).Nodes, 0)
}

func testFrameOpened(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("on")))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "1", "2", "3", "4")
	runtest.WantError(t, "options", b.SetProtocolOptions(b.Ctx, id, json.RawMessage(`{"a":1}`), false), nil)
	opened, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "X", Reason: "continue_as", Nodes: harness.UserMessages("seed")})
	runtest.WantError(t, "open", err, nil)
	runtest.Equal(t, "opened", opened, true)
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user seed", "user go"})
	runtest.EqualLists(t, "path", b.PathNodes(id), []events.NodeID{"1", "2", "3", "4", "seed", "u-t1", "a-t1-0"})
	runtest.EqualLists(t, "frames", frames(b, id), []events.FrameID{events.FrameID(id) + ":frame:initial", "X"})
	s := b.StateOf(id)
	runtest.Equal(t, "options inherited", string(s.Frame().Options), `{"a":1}`)
	n, err := s.Node("seed")
	runtest.WantError(t, "node", err, nil)
	runtest.Equal(t, "stamp of the seed", n.Frame, "X")
}

// testUnstamped has nodes without a stamp, which belong to the initial frame, and a fork, which keeps all stamps.
func testUnstamped(t *testing.T) {
	b := harness.StartIdle(t)
	from := b.Open(api.CreateRequest{})
	b.AppendTexts(from, "A")
	runtest.EqualLists(t, "initial frame", b.Messages(from), []string{"user A"})
	_, err := b.OpenFrame(b.Ctx, from, api.FrameRequest{Frame: "X", Reason: "continue_as", Nodes: harness.UserMessages("B")})
	runtest.WantError(t, "open", err, nil)
	id, err := b.Fork(b.Ctx, from, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	runtest.EqualLists(t, "frames of the fork", frames(b, id), []events.FrameID{events.FrameID(id) + ":frame:initial", "X"})
	runtest.EqualLists(t, "frame X of the fork", b.Messages(id), []string{"user B"})
	_, err = b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "Y", Reason: "continue_as"})
	runtest.WantError(t, "open", err, nil)
	runtest.EqualLists(t, "later frame", b.Messages(id), []string{})
	runtest.EqualLists(t, "path", b.PathNodes(id), []events.NodeID{"A", "B"})
}

func testToolSwitch(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("too much"), harness.Call("k", "continue_as", "{}")), harness.Reply(harness.Text("done")))
	b.StartNode(harness.FrameSwitcher(nil))
	id := b.Open(api.CreateRequest{})
	list := b.TurnEvents(b.Host, id, "t1", nil)
	runtest.Equal(t, "outcome", *list[len(list)-2].TurnOutcome, api.TurnOutcome{Type: api.OutcomeFrameSwitch, FrameID: "next", Task: "the rest"})
	follow := b.AwaitTurn(id, "t1-frame-1")
	runtest.Equal(t, "end of the follow-on", follow.End, events.EndFinished)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndSwitched)
	runtest.EqualLists(t, "prompt", b.Model.Prompt(1), []string{"user known", "assistant noted", "user the rest"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user known", "assistant noted", "user the rest", "assistant done"})
	runtest.EqualLists(t, "path", b.PathNodes(id), []events.NodeID{"u-t1", "a-t1-0", "r-t1-0", "s1", "s2", "u-t1-frame-1", "a-t1-frame-1-0"})
	runtest.Equal(t, "frame", b.StateOf(id).Frame().ID, "next")
	got, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "assemble", err, nil)
	runtest.Equal(t, "assembled outcome", got.Outcome, api.TurnOutcome{Type: api.OutcomeFrameSwitch, FrameID: "next", Task: "the rest"})
}

// testSwitchCrash stops a node between the commit of the switch and the claim of the follow-on.
func testSwitchCrash(t *testing.T) {
	started, release, claiming := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "continue_as", "{}")), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("told")), harness.Reply(harness.Text("second")))
	failsValidation := harness.Protocol{Validate: func(ctx context.Context, in events.TurnInput) error {
		if len(in.Parts) == 1 && in.Parts[0].Text == "the rest" {
			close(claiming)
			<-ctx.Done()
		}
		return nil
	}}
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), harness.ProtocolPlugin(failsValidation), harness.FrameSwitcher(func() { close(started); <-release }))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	b.StartTurn(id, "t2", harness.Text("two"))
	b.AwaitState(id, "t2 in the queue", func(s *projector.State) bool { return len(s.Queue) == 1 })
	_, err := b.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("by the way")}})
	runtest.WantError(t, "inject", err, nil)
	close(release)
	harness.Receive(b, "claiming", claiming)
	kill()
	s := b.StateOf(id)
	runtest.Equal(t, "last event before the crash", lastEvent(b, id).Kind, events.KindTurnRequested)
	runtest.Equal(t, "next in the queue", s.Queue[0].ID, "t1-frame-1")
	runtest.Equal(t, "inputs", len(s.Inputs), 1)
	b.StartNodeOn(bustest.Open(t, b.Server), harness.FrameSwitcher(nil))
	follow := b.AwaitTurn(id, "t1-frame-1")
	b.AwaitTurn(id, "t2")
	runtest.Equal(t, "attempts of the follow-on", follow.Attempts, 1)
	runtest.EqualLists(t, "prompt of the follow-on", b.Model.Prompt(1), []string{"user known", "assistant noted", "user the rest"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{
		"user known", "assistant noted", "user the rest", "assistant done", "user by the way", "assistant told", "user two", "assistant second",
	})
	runtest.Equal(t, "requests", len(harness.Find[*events.TurnRequested](b, id)), 3)
	for _, p := range harness.Find[*events.TurnStarted](b, id)[1:] {
		if p.Worker == harness.Find[*events.TurnStarted](b, id)[0].Worker {
			t.Errorf("a later turn: got worker %s, want another than that of t1", p.Worker)
		}
	}
}

func testSwitchLimit(t *testing.T) {
	b := harness.StartIdle(t)
	b.StartNode(harness.ProtocolPlugin(harness.Protocol{Before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
		return &events.FrameSwitch{Frame: events.FrameID("after-" + in.Turn), Task: "again"}, nil
	}}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	last := b.AwaitTurn(id, "t1-frame-16")
	runtest.Equal(t, "end", last.End, events.EndRuntimeError)
	runtest.Equal(t, "code", last.Issue.Code, "agent_frame_switch_limit")
	s := b.AwaitState(id, "idle", (*projector.State).Idle)
	runtest.Equal(t, "frames", len(s.Frames), 1+16)
	records, err := s.Records()
	runtest.WantError(t, "records", err, nil)
	runtest.Equal(t, "turns", len(records), 17)
	for _, r := range records[:16] {
		runtest.Equal(t, "end of "+string(r.ID), r.End, events.EndSwitched)
	}
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)
	runtest.Equal(t, "next turn", b.RunTurn(id, "", harness.Text("go")).End, events.EndSwitched) // counts anew
}

func testSwitchBeforeCall(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	b.StartNode(harness.ProtocolPlugin(harness.Protocol{Before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
		if in.Turn != "t1" {
			return nil, nil //nolint:nilnil // no switch, no error
		}
		return &events.FrameSwitch{Frame: "next", Task: "the rest"}, nil
	}}))
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "end", r.End, events.EndSwitched)
	runtest.Equal(t, "model calls", r.ModelCalls, 0)
	b.AwaitTurn(id, "t1-frame-1")
	requests := b.Model.Requests()
	runtest.Equal(t, "model requests", len(requests), 1)
	runtest.Equal(t, "turn of the request", requests[0].Turn, "t1-frame-1")
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user the rest"})
}

func testBeforeCallFails(t *testing.T) {
	broken := true
	b := harness.StartIdle(t, harness.Reply(harness.Text("on")))
	b.StartNode(harness.ProtocolPlugin(harness.Protocol{Before: func(plugin.ModelCallContext) (*events.FrameSwitch, error) {
		if broken {
			return nil, errors.New("no frame for you")
		}
		return nil, nil //nolint:nilnil // no switch, no error
	}}))
	id := b.Open(api.CreateRequest{})
	_, err := b.Run(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
	var failed *api.TurnFailedError
	if !errors.As(err, &failed) || failed.Issue.Code != "protocol_before_llm_call" {
		t.Fatalf("run: got %v, want a turn that failed with protocol_before_llm_call", err)
	}
	runtest.EqualLists(t, "messages", b.Messages(id), []string{})
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)
	broken = false
	b.RunTurn(id, "t2", harness.Text("again"))
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user again", "assistant on"})
}

// compactor is a plugin that offers these texts as the beginning of a frame.
func compactor(calls *[]string, id string, priority int, texts ...string) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.Compact(priority, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			*calls = append(*calls, id)
			list := []api.AppendNode{}
			for _, s := range texts {
				m := plugin.Say(events.RoleAssistant, s)
				list = append(list, api.AppendNode{Message: &m})
			}
			return plugin.Compaction{Nodes: list}, nil
		})
	})
}

func testCompactors(t *testing.T) {
	var calls []string
	b := harness.StartIdle(t, harness.Reply(harness.Text("on")))
	b.StartNode(compactor(&calls, "A", 1, "summary"), compactor(&calls, "B", 9))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "1", "2")
	opened, err := b.Compact(b.Ctx, id)
	runtest.WantError(t, "compact", err, nil)
	runtest.Equal(t, "opened", opened, true)
	runtest.EqualLists(t, "calls", calls, []string{"B", "A"})
	other := b.OtherHost() // it is durable
	v, err := other.View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	runtest.EqualLists(t, "messages", harness.Transcript(v.Messages), []string{"assistant summary"})
	runtest.Equal(t, "origin", v.Messages[0].Origin, "A")
	f := b.StateOf(id).Frame()
	runtest.Equal(t, "reason", f.Reason, "compaction")
	if prefix := string(id) + ":frame:compaction:"; len(f.ID) <= len(prefix) || string(f.ID)[:len(prefix)] != prefix {
		t.Errorf("frame: got %s, want %s and something", f.ID, prefix)
	}
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"assistant summary", "user go"})
}

func testCompactorEmpty(t *testing.T) {
	var calls []string
	b := harness.StartIdle(t)
	b.StartNode(compactor(&calls, "A", 1), compactor(&calls, "B", 9))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "1")
	before := b.LastSeq(id)
	opened, err := b.Compact(b.Ctx, id)
	runtest.WantError(t, "compact", err, nil)
	runtest.Equal(t, "opened", opened, false)
	runtest.EqualLists(t, "calls", calls, []string{"B", "A"})
	runtest.Equal(t, "commits", b.LastSeq(id), before)

	fails := harness.StartIdle(t)
	fails.StartNode(compactor(&calls, "A", 1, "summary"), harness.PluginOf("B", func(r *plugin.Registrar) {
		r.Compact(9, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			return plugin.Compaction{}, harness.ErrPlugin
		})
	}))
	id = fails.Open(api.CreateRequest{})
	opened, err = fails.Compact(fails.Ctx, id)
	runtest.WantError(t, "a compactor that fails", err, harness.ErrPlugin)
	runtest.Equal(t, "opened", opened, false)
	runtest.EqualLists(t, "calls", calls, []string{"B", "A"})
}

func testOptionsAllFrames(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("on")))
	id := b.Open(api.CreateRequest{})
	options := func() []string {
		var list []string
		for _, f := range b.StateOf(id).Frames {
			list = append(list, string(f.Options))
		}
		return list
	}
	open := func(frame events.FrameID) {
		_, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: frame, Reason: "continue_as"})
		runtest.WantError(t, "open", err, nil)
	}
	runtest.WantError(t, "set", b.SetProtocolOptions(b.Ctx, id, json.RawMessage(`1`), false), nil)
	open("X")
	runtest.WantError(t, "set for the current frame", b.SetProtocolOptions(b.Ctx, id, json.RawMessage(`2`), false), nil)
	runtest.EqualLists(t, "options", options(), []string{"1", "2"})
	runtest.WantError(t, "set for all", b.SetProtocolOptions(b.Ctx, id, json.RawMessage(`3`), true), nil)
	runtest.EqualLists(t, "options of all", options(), []string{"3", "3"})
	open("Y")
	runtest.EqualLists(t, "options of a later frame", options(), []string{"3", "3", "3"})
	before := b.LastSeq(id)
	runtest.WantError(t, "set the same", b.SetProtocolOptions(b.Ctx, id, json.RawMessage(`3`), true), nil)
	runtest.Equal(t, "commits", b.LastSeq(id), before)

	var seen []string
	b.StartNode(harness.ProtocolPlugin(harness.Protocol{
		OnConfigure: func(rt *plugin.ProtocolRuntime, _ plugin.Materialization) {
			seen = append(seen, "configure "+string(rt.Options()))
			rt.SetOptionsAllFrames(json.RawMessage(`4`))
		},
		Before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
			seen = append(seen, "before "+string(in.Options))
			return nil, nil //nolint:nilnil // no switch, no error
		},
	}))
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "resumed on another node", seen, []string{"configure 3", "before 4"})
	runtest.EqualLists(t, "options that it set", options(), []string{"4", "4", "4"})
	err := b.SetProtocolOptions(b.Ctx, id, json.RawMessage(`{`), true)
	runtest.WantError(t, "no JSON", err, events.ErrInvalid)
	runtest.WantError(t, "an unknown session", b.SetProtocolOptions(b.Ctx, "nobody", json.RawMessage(`1`), true), events.ErrNoSession)
}
