package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func lifecycleEntries() []entry {
	return slices.Concat([]entry{
		{"L01", "an id in use", "create the same", "already exists; the original is untouched", testCreateAgain},
		{"L02", "nodes that race to create one id", "all create", "exactly one succeeds, and it is the winner's", testCreateRace},
		{"L03", "a start from the current session", "create a child", "its history equals the creator's; later appends do not meet", testCreateFromCurrent},
		{"L04", "a start from a session that is not", "create", "an error, nothing registered", testCreateFromNothing},
		{"L05", "no policy", "create empty, create from a snapshot", "the creator's policy, the snapshot's", testCreatePolicy},
		{"L06", "a first turn input", "take, take", "the value, then none; of many takers one gets it", testFirstInput},
		{"L07", "a first turn input, and a creating turn that has ended", "take on another node", "still there", testFirstInputLater},
		{"L08", "no such session", "take the first turn input", "none, no error", testFirstInputUnknown},
		{"L09", "the current session", "close it from within", "an error, and it stays open", testCloseCurrent},
		{"L10", "a running turn", "close; close after it; close again", "an error; closed; nothing more", testClose},
		{"L17", "a child that runs a turn", "snapshot the child", "its last published state, without a wait", testSnapshotRunning},
		{"L19", "a child's store that is another session's", "create", "rejected, nothing of the other changes", testCreateForeignStore},
	}, lifecyclePlugins())
}

func testCreateAgain(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{ID: "one", Config: events.Config{Model: "m0"}, Nodes: says("first")})
	seq := b.last(id)
	for _, h := range []*session.Host{b.Host, b.otherHost()} {
		_, err := h.Create(b.ctx, api.CreateRequest{ID: id, Config: events.Config{Model: "m1"}, Nodes: says("second")})
		must(t, "create", err, api.ErrExists)
	}
	_, err := b.CreateFrom(b.ctx, id, api.CreateRequest{ID: id, Start: api.StartCurrent})
	must(t, "create from itself", err, api.ErrExists)
	equal(t, "last", b.last(id), seq)
	equal(t, "model", b.state(id).Config.Model, "m0")
	equalLists(t, "messages", b.messages(id), []string{"user first"})
	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	_, err = b.Create(b.ctx, api.CreateRequest{ID: id})
	must(t, "create one that is closed", err, api.ErrExists)
}

func testCreateRace(t *testing.T) {
	b := setupIdle(t)
	for i := range 5 {
		id := events.SessionID(fmt.Sprintf("raced-%d", i))
		models := []string{"m0", "m1", "m2", "m3"}
		errs := make([]error, len(models))
		var wait sync.WaitGroup
		for i, model := range models {
			h := b.otherHost()
			wait.Go(func() {
				_, errs[i] = h.Create(b.ctx, api.CreateRequest{ID: id, Config: events.Config{Model: model}, Nodes: says(model)})
			})
		}
		wait.Wait()
		won := slices.Index(errs, nil)
		if won < 0 {
			t.Fatalf("create: got %v, want one that succeeded", errs)
		}
		for i, err := range errs {
			if i != won {
				must(t, "a loser", err, api.ErrExists)
			}
		}
		equal(t, "model", b.state(id).Config.Model, models[won])
		equalLists(t, "messages", b.messages(id), []string{"user " + models[won]})
		equal(t, "openings", len(find[*events.SessionOpened](b, id)), 1)
	}
}

// testCreateFromCurrent has the creator's ledger too: a fork begins with an empty one.
func testCreateFromCurrent(t *testing.T) {
	b := setup(t, reply(text("hello")), reply(text("in the child")))
	parent := b.open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	b.say(parent, "before")
	must(t, "branch", b.BranchTo(b.ctx, parent, ""), nil)
	b.run(parent, "t1", text("hi"))
	_, err := b.OpenFrame(b.ctx, parent, api.FrameRequest{Frame: "X", Reason: "continue_as", Keep: "a-t1-0", Nodes: says("noted")})
	must(t, "open", err, nil)
	at := b.state(parent)
	handle, err := b.CreateFrom(b.ctx, parent, api.CreateRequest{
		Start: api.StartCurrent, Relation: events.RelationChild, Nodes: says("seed"), Labels: map[string]string{"for": "test"},
	})
	must(t, "create", err, nil)
	child := handle.Session
	equal(t, "parent of the handle", handle.Parent, parent)
	equal(t, "model of the handle", handle.Config.Model, "m0")
	s := b.state(child)
	equal(t, "parent", s.Parent, parent)
	equal(t, "relation", s.Relation, events.RelationChild)
	equal(t, "label", s.Labels["for"], "test")
	equal(t, "forked", s.Forked, events.ForkedFrom{Session: parent, Leaf: at.Leaf, Seq: at.Seq})
	equal(t, "usage", s.Usage().Total, events.Usage{})
	equalLists(t, "path", b.onPath(child), append(b.onPath(parent), "seed"))
	equalLists(t, "messages", b.messages(child), []string{"user noted", "assistant hello", "user seed"})
	equalLists(t, "frames", b.frames(child), []events.FrameID{projector.InitialFrame(child), "X"})
	other, err := s.PathTo("before")
	must(t, "other branch", err, nil)
	equal(t, "nodes of the other branch", len(other), 1)

	b.say(parent, "only in the parent")
	b.run(child, "t1", text("go on"))
	equalLists(t, "parent's messages", b.messages(parent), []string{"user noted", "assistant hello", "user only in the parent"})
	equalLists(t, "child's messages", b.messages(child), []string{"user noted", "assistant hello", "user seed", "user go on", "assistant in the child"})
	equal(t, "a root has no relation", b.state(parent).Relation, events.RelationRoot)
}

func testCreateFromNothing(t *testing.T) {
	b := setupIdle(t)
	parent := b.open(api.CreateRequest{})
	for what, req := range map[string]api.CreateRequest{
		"an existing one":      {ID: "a", Start: api.StartExisting, From: "nobody"},
		"the current one":      {ID: "b", Parent: "nobody", Start: api.StartCurrent},
		"no creator":           {ID: "c", Start: api.StartCurrent},
		"no snapshot":          {ID: "d", Start: api.StartSnapshot},
		"a start of no kind":   {ID: "e", Start: "somewhere"},
		"a fork of no plugins": {ID: "f", Plugins: api.PluginsFork},
	} {
		_, err := b.Create(b.ctx, req)
		if err == nil {
			t.Errorf("create from %s: got none, want an error", what)
		}
		if req.From != "" {
			must(t, what, err, events.ErrNoSession)
		}
		_, err = b.State(b.ctx, req.ID)
		must(t, "state after "+what, err, events.ErrNoSession)
		_, err = b.CreateFrom(b.ctx, parent, api.CreateRequest{ID: req.ID})
		must(t, "the id is free after "+what, err, nil)
	}
}

func testCreatePolicy(t *testing.T) {
	b := setupIdle(t)
	creators := events.Config{Provider: "scripted", Model: "creator's", MaxIterations: 3}
	others := events.Config{Model: "other's", Effort: "high"}
	creator := b.open(api.CreateRequest{Config: creators})
	other := b.open(api.CreateRequest{Config: others, Nodes: says("kept")})
	snapshot := b.state(other)
	must(t, "configure", b.setModel(other, "changed later"), nil)
	given := events.Config{Model: "given"}
	for what, c := range map[string]struct {
		req      api.CreateRequest
		want     events.Config
		messages []string
	}{
		"empty":             {api.CreateRequest{}, creators, []string{}},
		"current":           {api.CreateRequest{Start: api.StartCurrent}, creators, []string{}},
		"snapshot":          {api.CreateRequest{Start: api.StartSnapshot, Snapshot: snapshot}, others, []string{"user kept"}},
		"existing":          {api.CreateRequest{Start: api.StartExisting, From: other}, events.Config{Model: "changed later", Effort: "high"}, []string{"user kept"}},
		"snapshot, given":   {api.CreateRequest{Start: api.StartSnapshot, Snapshot: snapshot, Config: given}, given, []string{"user kept"}},
		"empty, given":      {api.CreateRequest{Config: given}, given, []string{}},
		"a child, no start": {api.CreateRequest{Relation: events.RelationChild}, creators, []string{}},
	} {
		handle, err := b.CreateFrom(b.ctx, creator, c.req)
		must(t, what, err, nil)
		alike(t, "handle of "+what, handle.Config, c.want)
		alike(t, "policy of "+what, b.state(handle.Session).Config, c.want)
		equalLists(t, "messages of "+what, b.messages(handle.Session), c.messages)
	}
}

func firstInput() *events.Message {
	m := plugin.Say(events.RoleUser, "begin with this")
	return &m
}

// taken is the first turn's input as a host gives it.
func taken(b *bundle, h *session.Host, id events.SessionID) string {
	b.t.Helper()
	m, err := h.TakeFirstTurnInput(b.ctx, id)
	must(b.t, "take", err, nil)
	if m == nil {
		return ""
	}
	return m.Text()
}

func testFirstInput(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{First: firstInput()})
	equal(t, "first", taken(b, b.Host, id), "begin with this")
	equal(t, "second", taken(b, b.Host, id), "")
	equal(t, "elsewhere", taken(b, b.otherHost(), id), "")
	equalLists(t, "messages: nobody ran it", b.messages(id), []string{})

	id = b.open(api.CreateRequest{First: firstInput()})
	got := make([]string, 8)
	var wait sync.WaitGroup
	for i := range got {
		h := b.otherHost()
		wait.Go(func() { got[i] = taken(b, h, id) })
	}
	wait.Wait()
	slices.Sort(got)
	equalLists(t, "of many", got, []string{"", "", "", "", "", "", "", "begin with this"})

	id = b.open(api.CreateRequest{First: firstInput()})
	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	equal(t, "of a closed one", taken(b, b.Host, id), "")
}

func testFirstInputLater(t *testing.T) {
	b := setupIdle(t, reply(text("made it")))
	node, kill := b.nodeOn(bustest.Open(t, b.server), declares("maker", func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.CreateSession(api.CreateRequest{ID: "made", Relation: events.RelationChild, First: firstInput()})}, nil
		})
	}))
	b.Host = node.Host()
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	kill()
	other := b.otherHost()
	made, err := other.State(b.ctx, "made")
	must(t, "state", err, nil)
	equal(t, "parent", made.Parent, id)
	equal(t, "taken later", taken(b, other, "made"), "begin with this")
	equal(t, "taken again", taken(b, other, "made"), "")
}

func testFirstInputUnknown(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	for _, of := range []events.SessionID{"nobody", id} {
		m, err := b.TakeFirstTurnInput(b.ctx, of)
		must(t, "take", err, nil)
		equal(t, "message", m, nil)
	}
}

func testCloseCurrent(t *testing.T) {
	b := setupIdle(t, reply(call("1", "close", "{}")), reply(text("done")))
	var closed, other error
	b.node(plugin.Func("closer", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "close"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			closed = c.Host.CloseSession(ctx, c.Session)
			other = c.Host.CloseSession(ctx, "other")
			return "tried", nil
		})
		return nil
	}))
	id, sibling := b.open(api.CreateRequest{}), b.open(api.CreateRequest{ID: "other"})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	must(t, "close itself", closed, api.ErrCurrent)
	must(t, "close another", other, nil)
	equal(t, "status", b.state(id).Status, projector.StatusOpen)
	equal(t, "status of the other", b.state(sibling).Status, projector.StatusClosed)
}

// testClose also closes what was never there, and looks at what a close takes along.
func testClose(t *testing.T) {
	hung := make(chan struct{})
	b := setupIdle(t, hangs(hung))
	b.node()
	id := b.open(api.CreateRequest{First: firstInput()})
	b.outside(id, "job")
	child := b.open(api.CreateRequest{Parent: id})
	b.submit(id, "t1", text("go"))
	b.wait("the model to be asked", hung)
	must(t, "close a running one", b.CloseSession(b.ctx, id, "early"), api.ErrTurnRunning)
	equal(t, "status", b.state(id).Status, projector.StatusOpen)
	_, _, err := b.Cancel(b.ctx, id, "t1", api.CancelRequest{})
	must(t, "cancel", err, nil)
	b.ended(id, "t1")

	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	s, seq := b.state(id), b.last(id)
	equal(t, "status", s.Status, projector.StatusClosed)
	equal(t, "task, whose policy is to be kept", b.listed(id, "job").State, events.TaskRunning)
	equal(t, "stashed input", taken(b, b.Host, id), "")
	equal(t, "status of the child", b.state(child).Status, projector.StatusOpen)
	equalLists(t, "messages are kept", b.messages(id), []string{"user go"})
	must(t, "close again", b.CloseSession(b.ctx, id, "over"), nil)
	must(t, "close again elsewhere", b.otherHost().CloseSession(b.ctx, id, "over"), nil)
	equal(t, "last", b.last(id), seq)
	_, err = b.Submit(b.ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{text("more")}}})
	must(t, "submit", err, api.ErrClosed)
	_, err = b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("more")})
	must(t, "append", err, api.ErrClosed)
	must(t, "configure", b.setModel(id, "m1"), api.ErrClosed)

	must(t, "close what never was", b.CloseSession(b.ctx, "nobody", "over"), nil)
	_, err = b.State(b.ctx, "nobody")
	must(t, "state of what never was", err, events.ErrNoSession)
}

func testSnapshotRunning(t *testing.T) {
	hung := make(chan struct{})
	b := setupIdle(t, reply(text("first answer")), hangs(hung))
	b.node()
	parent := b.open(api.CreateRequest{})
	child := b.open(api.CreateRequest{Parent: parent})
	b.run(child, "t1", text("first"))
	b.submit(child, "t2", text("second"))
	b.wait("the model to be asked", hung)

	services := b.Services(parent, nil, "")
	s, err := services.SnapshotSession(b.ctx, child)
	must(t, "snapshot", err, nil)
	equal(t, "still runs", s.Turn() != nil, true)
	view, err := s.View()
	must(t, "view", err, nil)
	equalLists(t, "messages", transcript(view.Messages), []string{"user first", "assistant first answer", "user second"})
	s.Config.Model = "changed"
	equal(t, "a value: the session is not changed", b.state(child).Config.Model, "")
	_, err = services.SnapshotSession(b.ctx, "nobody")
	must(t, "unknown", err, events.ErrNoSession)
	must(t, "cancel", services.CancelTurn(b.ctx, child, "t2"), nil)
	equal(t, "end", b.ended(child, "t2").End, events.EndCancelled)
}

// testCreateForeignStore has the place of a child's history taken by another
// session's, as a mistake of an operator might: a stream of the child's name
// that has the other's commits, under subjects of its own or the child's.
func testCreateForeignStore(t *testing.T) {
	b := setupIdle(t)
	other := b.open(api.CreateRequest{Nodes: says("mine")})
	seq := b.last(other)
	js, err := jetstream.New(b.bus.Conn())
	must(t, "jetstream", err, nil)
	data, err := events.Encode(&events.Commit{
		ID: "foreign", Session: other, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("", &events.SessionOpened{})},
	})
	must(t, "encode", err, nil)
	for child, subjects := range map[events.SessionID]string{"bound": "foreign.s.bound.", "mixed": "lash.s.mixed."} {
		_, err = js.CreateStream(b.ctx, jetstream.StreamConfig{Name: "lash-s-" + string(child), Subjects: []string{subjects + ">"}, AllowDirect: true})
		must(t, "stream", err, nil)
		_, err = js.Publish(b.ctx, subjects+"session", data)
		must(t, "publish", err, nil)
		_, err = b.Create(b.ctx, api.CreateRequest{ID: child})
		must(t, "create "+string(child), err, api.ErrExists)
		_, err = b.State(b.ctx, child)
		equal(t, "nobody takes it for the child", err != nil, true)
		equal(t, "nothing was appended", b.last(child), 1)
	}
	equal(t, "last of the other", b.last(other), seq)
	equalLists(t, "messages of the other", b.messages(other), []string{"user mine"})
}
