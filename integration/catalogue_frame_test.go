package integration

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func frameEntries() []entry {
	return []entry{
		{"F01", "a new session", "looked at", "frame <id>:frame:initial, active", testInitialFrame},
		{"F02", "frame X is current", "open X again, or a blank id", "opened=false, no change", testFrameAgain},
		{"F03", "a history of 4 messages", "open a frame with a seed", "the prompt has only the seed; the graph has all; the previous is superseded", testFrameOpened},
		{"F04", "unstamped nodes", "the initial frame is viewed", "visible; in a later frame not", testUnstamped},
		{"F05", "a tool returns a frame switch", "turn ends", "outcome of a switch; a follow-on with the task in the new frame; seeds complete", testToolSwitch},
		{"F06", "a crash after the switching commit", "another node goes on", "the follow-on runs once, before pending inputs and queued turns", testSwitchCrash},
		{"F07", "each turn switches again", "17th switch", "error agent_frame_switch_limit", testSwitchLimit},
		{"F08", "before_llm_call returns a switch", "turn", "no model request, outcome of a switch", testSwitchBeforeCall},
		{"F09", "before_llm_call fails", "turn", "it fails; nothing of it counts", testBeforeCallFails},
		{"F10", "compactors A (priority 1, a seed) and B (priority 9, none)", "compact", "B asked first, A's result used", testCompactors},
		{"F11", "a compactor that returns an empty list", "compact", "as none", testCompactorEmpty},
		{"F13", "options set for all frames", "another frame, another node", "the same options in each frame", testOptionsAllFrames},
	}
}

// declares is a plugin that is only its registrations.
func declares(id string, register func(*plugin.Registrar)) plugin.Factory {
	return plugin.New(id, func(plugin.BuildContext) (plugin.Plugin, error) { return declared(register), nil })
}

type declared func(*plugin.Registrar)

func (d declared) Register(r *plugin.Registrar) error {
	d(r)
	return nil
}

// protocol is the standard one, with the callbacks that are set.
type protocol struct {
	plugin.BaseProtocol
	validate  func(context.Context, events.TurnInput) error
	before    func(plugin.ModelCallContext) (*events.FrameSwitch, error)
	configure func(*plugin.ProtocolRuntime, plugin.Materialization)
}

// speaks is a protocol in the standard one's place.
func speaks(p protocol) plugin.Factory {
	return declares(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(p)
		r.Driver(p)
	})
}

func (protocol) Preamble(plugin.PreambleInput) plugin.Preamble { return plugin.Preamble{} }

func (p protocol) ValidateTurn(ctx context.Context, in events.TurnInput) error {
	if p.validate == nil {
		return nil
	}
	return p.validate(ctx, in)
}

func (p protocol) BeforeModelCall(_ context.Context, in plugin.ModelCallContext) (*events.FrameSwitch, error) {
	if p.before == nil {
		return nil, nil //nolint:nilnil // no switch, no error
	}
	return p.before(in)
}

func (p protocol) Configure(_ context.Context, rt *plugin.ProtocolRuntime, m plugin.Materialization) error {
	if p.configure != nil {
		p.configure(rt, m)
	}
	return nil
}

// seed is a first node of a frame.
func seed(id events.NodeID, role events.Role, s string) events.NewNode {
	m := plugin.Say(role, s)
	m.ID = events.MessageID(id)
	return events.NewNode{ID: id, Kind: events.NodeMessage, Message: m}
}

// frames are the ids of a session's frames, the last of which is the active one.
func (b *bundle) frames(id events.SessionID) []events.FrameID {
	b.t.Helper()
	var list []events.FrameID
	for _, f := range b.state(id).Frames {
		list = append(list, f.ID)
	}
	return list
}

// onPath are the ids of the nodes of the active path.
func (b *bundle) onPath(id events.SessionID) []events.NodeID {
	b.t.Helper()
	path, err := b.state(id).Path()
	must(b.t, "path", err, nil)
	var list []events.NodeID
	for _, n := range path {
		list = append(list, n.ID)
	}
	return list
}

func testInitialFrame(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	s := b.state(id)
	equalLists(t, "frames", b.frames(id), []events.FrameID{events.FrameID(id) + ":frame:initial"})
	equal(t, "reason", s.Frame().Reason, "initial")
	equal(t, "current", s.Frame().ID, events.FrameID(id)+":frame:initial")
}

func testFrameAgain(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	opened, err := b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "X", Reason: "continue_as"})
	must(t, "open", err, nil)
	equal(t, "opened", opened, true)
	before := b.last(id)
	for _, h := range []*session.Host{b.Host, b.otherHost()} {
		for _, frame := range []events.FrameID{"X", ""} {
			opened, err := h.OpenFrame(b.ctx, id, api.FrameRequest{Frame: frame, Reason: "continue_as", Nodes: says("not added")})
			must(t, "open again", err, nil)
			equal(t, "opened again", opened, false)
		}
	}
	equal(t, "commits", b.last(id), before)
	equal(t, "nodes", b.state(id).Nodes, 0)
}

func testFrameOpened(t *testing.T) {
	b := setup(t, reply(text("on")))
	id := b.open(api.CreateRequest{})
	b.say(id, "1", "2", "3", "4")
	must(t, "options", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`{"a":1}`), false), nil)
	opened, err := b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "X", Reason: "continue_as", Nodes: says("seed")})
	must(t, "open", err, nil)
	equal(t, "opened", opened, true)
	b.run(id, "t1", text("go"))
	equalLists(t, "prompt", b.model.prompt(0), []string{"user seed", "user go"})
	equalLists(t, "path", b.onPath(id), []events.NodeID{"1", "2", "3", "4", "seed", "u-t1", "a-t1-0"})
	equalLists(t, "frames", b.frames(id), []events.FrameID{events.FrameID(id) + ":frame:initial", "X"})
	s := b.state(id)
	equal(t, "options inherited", string(s.Frame().Options), `{"a":1}`)
	n, err := s.Node("seed")
	must(t, "node", err, nil)
	equal(t, "stamp of the seed", n.Frame, "X")
}

// testUnstamped has nodes without a stamp, which are of the initial frame, and a fork, which keeps all stamps.
func testUnstamped(t *testing.T) {
	b := setupIdle(t)
	from := b.open(api.CreateRequest{})
	b.say(from, "A")
	equalLists(t, "initial frame", b.messages(from), []string{"user A"})
	_, err := b.OpenFrame(b.ctx, from, api.FrameRequest{Frame: "X", Reason: "continue_as", Nodes: says("B")})
	must(t, "open", err, nil)
	id, err := b.Fork(b.ctx, from, api.CreateRequest{})
	must(t, "fork", err, nil)
	equalLists(t, "frames of the fork", b.frames(id), []events.FrameID{events.FrameID(id) + ":frame:initial", "X"})
	equalLists(t, "frame X of the fork", b.messages(id), []string{"user B"})
	_, err = b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "Y", Reason: "continue_as"})
	must(t, "open", err, nil)
	equalLists(t, "later frame", b.messages(id), []string{})
	equalLists(t, "path", b.onPath(id), []events.NodeID{"A", "B"})
}

// switcher is a tool that goes on in frame "next".
func switcher(before func()) plugin.Factory {
	return declares("switcher", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "continue_as"}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
			if before != nil {
				before()
			}
			return plugin.Result{Text: "switched", Control: events.ControlSwitch, Switch: events.FrameSwitch{
				Frame: "next", Task: "the rest", Nodes: []events.NewNode{seed("s1", events.RoleUser, "known"), seed("s2", events.RoleAssistant, "noted")},
			}}, nil
		})
	})
}

func testToolSwitch(t *testing.T) {
	b := setupIdle(t, reply(text("too much"), call("k", "continue_as", "{}")), reply(text("done")))
	b.node(switcher(nil))
	id := b.open(api.CreateRequest{})
	list := b.turnEvents(b.Host, id, "t1", nil)
	equal(t, "outcome", *list[len(list)-2].TurnOutcome, api.TurnOutcome{Type: api.OutcomeFrameSwitch, FrameID: "next", Task: "the rest"})
	follow := b.ended(id, "t1-frame-1")
	equal(t, "end of the follow-on", follow.End, events.EndFinished)
	equal(t, "end", b.ended(id, "t1").End, events.EndSwitched)
	equalLists(t, "prompt", b.model.prompt(1), []string{"user known", "assistant noted", "user the rest"})
	equalLists(t, "messages", b.messages(id), []string{"user known", "assistant noted", "user the rest", "assistant done"})
	equalLists(t, "path", b.onPath(id), []events.NodeID{"u-t1", "a-t1-0", "r-t1-0", "s1", "s2", "u-t1-frame-1", "a-t1-frame-1-0"})
	equal(t, "frame", b.state(id).Frame().ID, "next")
	got, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "assemble", err, nil)
	equal(t, "assembled outcome", got.Outcome, api.TurnOutcome{Type: api.OutcomeFrameSwitch, FrameID: "next", Task: "the rest"})
}

// testSwitchCrash stops a node between the commit of the switch and the claim of the follow-on.
func testSwitchCrash(t *testing.T) {
	begun, release, claiming := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := setupIdle(t, reply(call("k", "continue_as", "{}")), reply(text("done")), reply(text("told")), reply(text("second")))
	dies := protocol{validate: func(ctx context.Context, in events.TurnInput) error {
		if len(in.Parts) == 1 && in.Parts[0].Text == "the rest" {
			close(claiming)
			<-ctx.Done()
		}
		return nil
	}}
	_, kill := b.nodeOn(bustest.Open(t, b.server), speaks(dies), switcher(func() { close(begun); <-release }))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	b.submit(id, "t2", text("two"))
	b.await(id, "t2 in the queue", func(s *projector.State) bool { return len(s.Queue) == 1 })
	_, err := b.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{text("by the way")}})
	must(t, "inject", err, nil)
	close(release)
	receive(b, "claiming", claiming)
	kill()
	s := b.state(id)
	equal(t, "last event before the crash", b.lastEvent(id).Kind, events.KindTurnRequested)
	equal(t, "next in the queue", s.Queue[0].ID, "t1-frame-1")
	equal(t, "inputs", len(s.Inputs), 1)
	b.nodeOn(bustest.Open(t, b.server), switcher(nil))
	follow := b.ended(id, "t1-frame-1")
	b.ended(id, "t2")
	equal(t, "attempts of the follow-on", follow.Attempts, 1)
	equalLists(t, "prompt of the follow-on", b.model.prompt(1), []string{"user known", "assistant noted", "user the rest"})
	equalLists(t, "messages", b.messages(id), []string{
		"user known", "assistant noted", "user the rest", "assistant done", "user by the way", "assistant told", "user two", "assistant second",
	})
	equal(t, "requests", len(find[*events.TurnRequested](b, id)), 3)
	for _, p := range find[*events.TurnStarted](b, id)[1:] {
		if p.Worker == find[*events.TurnStarted](b, id)[0].Worker {
			t.Errorf("a later turn: got worker %s, want another than that of t1", p.Worker)
		}
	}
}

func testSwitchLimit(t *testing.T) {
	b := setupIdle(t)
	b.node(speaks(protocol{before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
		return &events.FrameSwitch{Frame: events.FrameID("after-" + in.Turn), Task: "again"}, nil
	}}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	last := b.ended(id, "t1-frame-16")
	equal(t, "end", last.End, events.EndRuntimeError)
	equal(t, "code", last.Issue.Code, "agent_frame_switch_limit")
	s := b.await(id, "idle", (*projector.State).Idle)
	equal(t, "frames", len(s.Frames), 1+16)
	records, err := s.Records()
	must(t, "records", err, nil)
	equal(t, "turns", len(records), 17)
	for _, r := range records[:16] {
		equal(t, "end of "+string(r.ID), r.End, events.EndSwitched)
	}
	equal(t, "model calls", len(b.model.asked()), 0)
	equal(t, "next turn", b.run(id, "", text("go")).End, events.EndSwitched) // counts anew
}

func testSwitchBeforeCall(t *testing.T) {
	b := setupIdle(t, reply(text("done")))
	b.node(speaks(protocol{before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
		if in.Turn != "t1" {
			return nil, nil //nolint:nilnil // no switch, no error
		}
		return &events.FrameSwitch{Frame: "next", Task: "the rest"}, nil
	}}))
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("go"))
	equal(t, "end", r.End, events.EndSwitched)
	equal(t, "model calls", r.ModelCalls, 0)
	b.ended(id, "t1-frame-1")
	asked := b.model.asked()
	equal(t, "model requests", len(asked), 1)
	equal(t, "turn of the request", asked[0].Turn, "t1-frame-1")
	equalLists(t, "prompt", b.model.prompt(0), []string{"user the rest"})
}

func testBeforeCallFails(t *testing.T) {
	broken := true
	b := setupIdle(t, reply(text("on")))
	b.node(speaks(protocol{before: func(plugin.ModelCallContext) (*events.FrameSwitch, error) {
		if broken {
			return nil, errors.New("no frame for you")
		}
		return nil, nil //nolint:nilnil // no switch, no error
	}}))
	id := b.open(api.CreateRequest{})
	_, err := b.Run(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	var failed *api.TurnFailedError
	if !errors.As(err, &failed) || failed.Issue.Code != "protocol_before_llm_call" {
		t.Fatalf("run: got %v, want a turn that failed with protocol_before_llm_call", err)
	}
	equalLists(t, "messages", b.messages(id), []string{})
	equal(t, "model calls", len(b.model.asked()), 0)
	broken = false
	b.run(id, "t2", text("again"))
	equalLists(t, "messages", b.messages(id), []string{"user again", "assistant on"})
}

// compactor offers these texts as the beginning of a frame.
func compactor(asked *[]string, id string, priority int, texts ...string) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
		r.Compact(priority, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			*asked = append(*asked, id)
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
	var asked []string
	b := setupIdle(t, reply(text("on")))
	b.node(compactor(&asked, "A", 1, "summary"), compactor(&asked, "B", 9))
	id := b.open(api.CreateRequest{})
	b.say(id, "1", "2")
	opened, err := b.Compact(b.ctx, id)
	must(t, "compact", err, nil)
	equal(t, "opened", opened, true)
	equalLists(t, "asked", asked, []string{"B", "A"})
	other := b.otherHost() // it is durable
	v, err := other.View(b.ctx, id)
	must(t, "view", err, nil)
	equalLists(t, "messages", transcript(v.Messages), []string{"assistant summary"})
	equal(t, "origin", v.Messages[0].Origin, "A")
	f := b.state(id).Frame()
	equal(t, "reason", f.Reason, "compaction")
	if prefix := string(id) + ":frame:compaction:"; len(f.ID) <= len(prefix) || string(f.ID)[:len(prefix)] != prefix {
		t.Errorf("frame: got %s, want %s and something", f.ID, prefix)
	}
	b.run(id, "t1", text("go"))
	equalLists(t, "prompt", b.model.prompt(0), []string{"assistant summary", "user go"})
}

func testCompactorEmpty(t *testing.T) {
	var asked []string
	b := setupIdle(t)
	b.node(compactor(&asked, "A", 1), compactor(&asked, "B", 9))
	id := b.open(api.CreateRequest{})
	b.say(id, "1")
	before := b.last(id)
	opened, err := b.Compact(b.ctx, id)
	must(t, "compact", err, nil)
	equal(t, "opened", opened, false)
	equalLists(t, "asked", asked, []string{"B", "A"})
	equal(t, "commits", b.last(id), before)

	fails := setupIdle(t)
	fails.node(compactor(&asked, "A", 1, "summary"), declares("B", func(r *plugin.Registrar) {
		r.Compact(9, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			return plugin.Compaction{}, errRefusal
		})
	}))
	id = fails.open(api.CreateRequest{})
	opened, err = fails.Compact(fails.ctx, id)
	must(t, "a compactor that fails", err, errRefusal)
	equal(t, "opened", opened, false)
	equalLists(t, "asked", asked, []string{"B", "A"})
}

// errRefusal is what plugins fail with.
var errRefusal = errors.New("the plugin refuses")

func testOptionsAllFrames(t *testing.T) {
	b := setupIdle(t, reply(text("on")))
	id := b.open(api.CreateRequest{})
	options := func() []string {
		var list []string
		for _, f := range b.state(id).Frames {
			list = append(list, string(f.Options))
		}
		return list
	}
	open := func(frame events.FrameID) {
		_, err := b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: frame, Reason: "continue_as"})
		must(t, "open", err, nil)
	}
	must(t, "set", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`1`), false), nil)
	open("X")
	must(t, "set for the current frame", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`2`), false), nil)
	equalLists(t, "options", options(), []string{"1", "2"})
	must(t, "set for all", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`3`), true), nil)
	equalLists(t, "options of all", options(), []string{"3", "3"})
	open("Y")
	equalLists(t, "options of a later frame", options(), []string{"3", "3", "3"})
	before := b.last(id)
	must(t, "set the same", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`3`), true), nil)
	equal(t, "commits", b.last(id), before)

	var seen []string
	b.node(speaks(protocol{
		configure: func(rt *plugin.ProtocolRuntime, _ plugin.Materialization) {
			seen = append(seen, "configure "+string(rt.Options()))
			rt.SetOptionsAllFrames(json.RawMessage(`4`))
		},
		before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
			seen = append(seen, "before "+string(in.Options))
			return nil, nil //nolint:nilnil // no switch, no error
		},
	}))
	b.run(id, "t1", text("go"))
	equalLists(t, "resumed on another node", seen, []string{"configure 3", "before 4"})
	equalLists(t, "options that it set", options(), []string{"4", "4", "4"})
	err := b.SetProtocolOptions(b.ctx, id, json.RawMessage(`{`), true)
	must(t, "no JSON", err, events.ErrInvalid)
	must(t, "an unknown session", b.SetProtocolOptions(b.ctx, "nobody", json.RawMessage(`1`), true), events.ErrNoSession)
}
