package catalogue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func lifecycleEntries() []entry {
	return slices.Concat([]entry{
		{"L01", "create of a used id is refused", "an id in use", "create the same", "already exists; the original is untouched", testCreateAgain},
		{"L02", "race to create has one winner", "nodes that race to create one id", "all create", "exactly one succeeds, and it is the winner's", testCreateRace},
		{"L03", "child starts with the history of its creator", "a start from the current session", "create a child", "its history equals the creator's; later appends do not meet", testCreateFromCurrent},
		{"L04", "start from an unknown session is refused", "a start from a session that is not", "create", "an error, nothing registered", testCreateFromNothing},
		{"L05", "child without a policy inherits one", "no policy", "create empty, create from a snapshot", "the creator's policy, the snapshot's", testCreatePolicy},
		{"L06", "first turn input is taken once", "a first turn input", "take, take", "the value, then none; of many takers one gets it", testFirstInput},
		{"L07", "first turn input outlives the turn of its creator", "a first turn input, and a creating turn that has ended", "take on another node", "still there", testFirstInputLater},
		{"L08", "unknown session has no first turn input", "no such session", "take the first turn input", "none, no error", testFirstInputUnknown},
		{"L09", "session does not close itself", "the current session", "close it from within", "an error, and it stays open", testCloseCurrent},
		{"L10", "session with a running turn is not closed", "a running turn", "close; close after it; close again", "an error; closed; nothing more", testClose},
		{"L17", "snapshot of a running child does not wait", "a child that runs a turn", "snapshot the child", "its last published state, without a wait", testSnapshotRunning},
		{"L19", "child is not created in a store of another session", "a child's store that is another session's", "create", "rejected, nothing of the other changes", testCreateForeignStore},
	}, lifecycleConfigEntries())
}

func testCreateAgain(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{ID: "one", Config: events.Config{Model: "m0"}, Nodes: harness.UserMessages("first")})
	seq := b.LastSeq(id)
	for _, h := range []*session.Host{b.Host, b.OtherHost()} {
		_, err := h.Create(b.Ctx, api.CreateRequest{ID: id, Config: events.Config{Model: "m1"}, Nodes: harness.UserMessages("second")})
		runtest.WantError(t, "create", err, api.ErrExists)
	}
	_, err := b.CreateFrom(b.Ctx, id, api.CreateRequest{ID: id, Start: api.StartCurrent})
	runtest.WantError(t, "create from itself", err, api.ErrExists)
	runtest.Equal(t, "last", b.LastSeq(id), seq)
	runtest.Equal(t, "model", b.StateOf(id).Config.Model, "m0")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user first"})
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil)
	_, err = b.Create(b.Ctx, api.CreateRequest{ID: id})
	runtest.WantError(t, "create one that is closed", err, api.ErrExists)
}

func testCreateRace(t *testing.T) {
	b := harness.StartIdle(t)
	for i := range 5 {
		id := events.SessionID(fmt.Sprintf("raced-%d", i))
		models := []string{"m0", "m1", "m2", "m3"}
		errs := make([]error, len(models))
		var wait sync.WaitGroup
		for i, model := range models {
			h := b.OtherHost()
			wait.Go(func() {
				_, errs[i] = h.Create(b.Ctx, api.CreateRequest{ID: id, Config: events.Config{Model: model}, Nodes: harness.UserMessages(model)})
			})
		}
		wait.Wait()
		won := slices.Index(errs, nil)
		if won < 0 {
			t.Fatalf("create: got %v, want one that succeeded", errs)
		}
		for i, err := range errs {
			if i != won {
				runtest.WantError(t, "a loser", err, api.ErrExists)
			}
		}
		runtest.Equal(t, "model", b.StateOf(id).Config.Model, models[won])
		runtest.EqualLists(t, "messages", b.Messages(id), []string{"user " + models[won]})
		runtest.Equal(t, "openings", len(harness.Find[*events.SessionOpened](b, id)), 1)
	}
}

// testCreateFromCurrent also compares the ledger: a fork begins with an empty one.
func testCreateFromCurrent(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hello")), harness.Reply(harness.Text("in the child")))
	parent := b.Open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	b.AppendTexts(parent, "before")
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, parent, ""), nil)
	b.RunTurn(parent, "t1", harness.Text("hi"))
	_, err := b.OpenFrame(b.Ctx, parent, api.FrameRequest{Frame: "X", Reason: "continue_as", Keep: "a-t1-0", Nodes: harness.UserMessages("noted")})
	runtest.WantError(t, "open", err, nil)
	at := b.StateOf(parent)
	handle, err := b.CreateFrom(b.Ctx, parent, api.CreateRequest{
		Start: api.StartCurrent, Relation: events.RelationChild, Nodes: harness.UserMessages("seed"), Labels: map[string]string{"for": "test"},
	})
	runtest.WantError(t, "create", err, nil)
	child := handle.Session
	runtest.Equal(t, "parent of the handle", handle.Parent, parent)
	runtest.Equal(t, "model of the handle", handle.Config.Model, "m0")
	s := b.StateOf(child)
	runtest.Equal(t, "parent", s.Parent, parent)
	runtest.Equal(t, "relation", s.Relation, events.RelationChild)
	runtest.Equal(t, "label", s.Labels["for"], "test")
	runtest.Equal(t, "forked", s.Forked, events.ForkedFrom{Session: parent, Leaf: at.Leaf, Seq: at.Seq})
	runtest.Equal(t, "usage", s.Usage().Total, events.Usage{})
	runtest.EqualLists(t, "path", b.PathNodes(child), append(b.PathNodes(parent), "seed"))
	runtest.EqualLists(t, "messages", b.Messages(child), []string{"user noted", "assistant hello", "user seed"})
	runtest.EqualLists(t, "frames", frames(b, child), []events.FrameID{projector.InitialFrame(child), "X"})
	other, err := s.PathTo("before")
	runtest.WantError(t, "other branch", err, nil)
	runtest.Equal(t, "nodes of the other branch", len(other), 1)

	b.AppendTexts(parent, "only in the parent")
	b.RunTurn(child, "t1", harness.Text("go on"))
	runtest.EqualLists(t, "parent's messages", b.Messages(parent), []string{"user noted", "assistant hello", "user only in the parent"})
	runtest.EqualLists(t, "child's messages", b.Messages(child), []string{"user noted", "assistant hello", "user seed", "user go on", "assistant in the child"})
	runtest.Equal(t, "a root has no relation", b.StateOf(parent).Relation, events.RelationRoot)
}

func testCreateFromNothing(t *testing.T) {
	b := harness.StartIdle(t)
	parent := b.Open(api.CreateRequest{})
	for what, req := range map[string]api.CreateRequest{
		"an existing one":      {ID: "a", Start: api.StartExisting, From: "nobody"},
		"the current one":      {ID: "b", Parent: "nobody", Start: api.StartCurrent},
		"no creator":           {ID: "c", Start: api.StartCurrent},
		"no snapshot":          {ID: "d", Start: api.StartSnapshot},
		"a start of no kind":   {ID: "e", Start: "somewhere"},
		"a fork of no plugins": {ID: "f", Plugins: api.PluginsFork},
	} {
		_, err := b.Create(b.Ctx, req)
		if err == nil {
			t.Errorf("create from %s: got none, want an error", what)
		}
		if req.From != "" {
			runtest.WantError(t, what, err, events.ErrNoSession)
		}
		_, err = b.State(b.Ctx, req.ID)
		runtest.WantError(t, "state after "+what, err, events.ErrNoSession)
		_, err = b.CreateFrom(b.Ctx, parent, api.CreateRequest{ID: req.ID})
		runtest.WantError(t, "the id is free after "+what, err, nil)
	}
}

func testCreatePolicy(t *testing.T) {
	b := harness.StartIdle(t)
	creators := events.Config{Provider: "scripted", Model: "creator's", MaxIterations: 3}
	others := events.Config{Model: "other's", Effort: "high"}
	creator := b.Open(api.CreateRequest{Config: creators})
	other := b.Open(api.CreateRequest{Config: others, Nodes: harness.UserMessages("kept")})
	snapshot := b.StateOf(other)
	runtest.WantError(t, "configure", b.SetModel(other, "changed later"), nil)
	config := events.Config{Model: "given"}
	for what, c := range map[string]struct {
		req      api.CreateRequest
		want     events.Config
		messages []string
	}{
		"empty":             {api.CreateRequest{}, creators, []string{}},
		"current":           {api.CreateRequest{Start: api.StartCurrent}, creators, []string{}},
		"snapshot":          {api.CreateRequest{Start: api.StartSnapshot, Snapshot: snapshot}, others, []string{"user kept"}},
		"existing":          {api.CreateRequest{Start: api.StartExisting, From: other}, events.Config{Model: "changed later", Effort: "high"}, []string{"user kept"}},
		"snapshot, given":   {api.CreateRequest{Start: api.StartSnapshot, Snapshot: snapshot, Config: config}, config, []string{"user kept"}},
		"empty, given":      {api.CreateRequest{Config: config}, config, []string{}},
		"a child, no start": {api.CreateRequest{Relation: events.RelationChild}, creators, []string{}},
	} {
		handle, err := b.CreateFrom(b.Ctx, creator, c.req)
		runtest.WantError(t, what, err, nil)
		runtest.DeepEqual(t, "handle of "+what, handle.Config, c.want)
		runtest.DeepEqual(t, "policy of "+what, b.StateOf(handle.Session).Config, c.want)
		runtest.EqualLists(t, "messages of "+what, b.Messages(handle.Session), c.messages)
	}
}

func firstInput() *events.Message {
	m := plugin.Say(events.RoleUser, "begin with this")
	return &m
}

// takeFirstInput is the first turn's input as a host returns it.
func takeFirstInput(b *harness.System, h *session.Host, id events.SessionID) string {
	b.T.Helper()
	m, err := h.TakeFirstTurnInput(b.Ctx, id)
	runtest.WantError(b.T, "take", err, nil)
	if m == nil {
		return ""
	}
	return m.Text()
}

func testFirstInput(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{First: firstInput()})
	runtest.Equal(t, "first", takeFirstInput(b, b.Host, id), "begin with this")
	runtest.Equal(t, "second", takeFirstInput(b, b.Host, id), "")
	runtest.Equal(t, "elsewhere", takeFirstInput(b, b.OtherHost(), id), "")
	runtest.EqualLists(t, "messages: nobody ran it", b.Messages(id), []string{})

	id = b.Open(api.CreateRequest{First: firstInput()})
	got := make([]string, 8)
	var wait sync.WaitGroup
	for i := range got {
		h := b.OtherHost()
		wait.Go(func() { got[i] = takeFirstInput(b, h, id) })
	}
	wait.Wait()
	slices.Sort(got)
	runtest.EqualLists(t, "of many", got, []string{"", "", "", "", "", "", "", "begin with this"})

	id = b.Open(api.CreateRequest{First: firstInput()})
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil)
	runtest.Equal(t, "of a closed one", takeFirstInput(b, b.Host, id), "")
}

func testFirstInputLater(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("made it")))
	node, kill := b.StartNodeOn(bustest.Open(t, b.Server), harness.PluginOf("maker", func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.CreateSession(api.CreateRequest{ID: "made", Relation: events.RelationChild, First: firstInput()})}, nil
		})
	}))
	b.Host = node.Host()
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	kill()
	other := b.OtherHost()
	made, err := other.State(b.Ctx, "made")
	runtest.WantError(t, "state", err, nil)
	runtest.Equal(t, "parent", made.Parent, id)
	runtest.Equal(t, "taken later", takeFirstInput(b, other, "made"), "begin with this")
	runtest.Equal(t, "taken again", takeFirstInput(b, other, "made"), "")
}

func testFirstInputUnknown(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	for _, of := range []events.SessionID{"nobody", id} {
		m, err := b.TakeFirstTurnInput(b.Ctx, of)
		runtest.WantError(t, "take", err, nil)
		runtest.Equal(t, "message", m, nil)
	}
}

func testCloseCurrent(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", "close", "{}")), harness.Reply(harness.Text("done")))
	var closed, other error
	b.StartNode(plugin.Func("closer", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "close"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			closed = c.Host.CloseSession(ctx, c.Session)
			other = c.Host.CloseSession(ctx, "other")
			return "tried", nil
		})
		return nil
	}))
	id, sibling := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{ID: "other"})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.WantError(t, "close itself", closed, api.ErrCurrent)
	runtest.WantError(t, "close another", other, nil)
	runtest.Equal(t, "status", b.StateOf(id).Status, projector.StatusOpen)
	runtest.Equal(t, "status of the other", b.StateOf(sibling).Status, projector.StatusClosed)
}

// testClose also closes a session that does not exist, and checks what a close ends.
func testClose(t *testing.T) {
	hung := make(chan struct{})
	b := harness.StartIdle(t, harness.Hang(hung))
	b.StartNode()
	id := b.Open(api.CreateRequest{First: firstInput()})
	outside(b, id, "job")
	child := b.Open(api.CreateRequest{Parent: id})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.Wait("the model to be asked", hung)
	runtest.WantError(t, "close a running one", b.CloseSession(b.Ctx, id, "early"), api.ErrTurnRunning)
	runtest.Equal(t, "status", b.StateOf(id).Status, projector.StatusOpen)
	_, _, err := b.Cancel(b.Ctx, id, "t1", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, nil)
	b.AwaitTurn(id, "t1")

	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil)
	s, seq := b.StateOf(id), b.LastSeq(id)
	runtest.Equal(t, "status", s.Status, projector.StatusClosed)
	runtest.Equal(t, "task, whose policy is to be kept", b.ListedTask(id, "job").State, events.TaskRunning)
	runtest.Equal(t, "stashed input", takeFirstInput(b, b.Host, id), "")
	runtest.Equal(t, "status of the child", b.StateOf(child).Status, projector.StatusOpen)
	runtest.EqualLists(t, "messages are kept", b.Messages(id), []string{"user go"})
	runtest.WantError(t, "close again", b.CloseSession(b.Ctx, id, "over"), nil)
	runtest.WantError(t, "close again elsewhere", b.OtherHost().CloseSession(b.Ctx, id, "over"), nil)
	runtest.Equal(t, "last", b.LastSeq(id), seq)
	_, err = b.Submit(b.Ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{harness.Text("more")}}})
	runtest.WantError(t, "submit", err, api.ErrClosed)
	_, err = b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("more")})
	runtest.WantError(t, "append", err, api.ErrClosed)
	runtest.WantError(t, "configure", b.SetModel(id, "m1"), api.ErrClosed)

	runtest.WantError(t, "close what never was", b.CloseSession(b.Ctx, "nobody", "over"), nil)
	_, err = b.State(b.Ctx, "nobody")
	runtest.WantError(t, "state of what never was", err, events.ErrNoSession)
}

func testSnapshotRunning(t *testing.T) {
	hung := make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Text("first answer")), harness.Hang(hung))
	b.StartNode()
	parent := b.Open(api.CreateRequest{})
	child := b.Open(api.CreateRequest{Parent: parent})
	b.RunTurn(child, "t1", harness.Text("first"))
	b.StartTurn(child, "t2", harness.Text("second"))
	b.Wait("the model to be asked", hung)

	services := b.Worker().RuntimeHost(parent, nil, "")
	s, err := services.SnapshotSession(b.Ctx, child)
	runtest.WantError(t, "snapshot", err, nil)
	runtest.Equal(t, "still runs", s.Turn() != nil, true)
	view, err := s.View()
	runtest.WantError(t, "view", err, nil)
	runtest.EqualLists(t, "messages", harness.Transcript(view.Messages), []string{"user first", "assistant first answer", "user second"})
	s.Config.Model = "changed"
	runtest.Equal(t, "a value: the session is not changed", b.StateOf(child).Config.Model, "")
	_, err = services.SnapshotSession(b.Ctx, "nobody")
	runtest.WantError(t, "unknown", err, events.ErrNoSession)
	runtest.WantError(t, "cancel", services.CancelTurn(b.Ctx, child, "t2"), nil)
	runtest.Equal(t, "end", b.AwaitTurn(child, "t2").End, events.EndCancelled)
}

// testCreateForeignStore has another session's history in the place of a child's, as a mistake of an operator
// might cause: a stream of the child's name that has the other's commits, under subjects of its own or the
// child's.
func testCreateForeignStore(t *testing.T) {
	b := harness.StartIdle(t)
	other := b.Open(api.CreateRequest{Nodes: harness.UserMessages("mine")})
	seq := b.LastSeq(other)
	js, err := jetstream.New(b.Bus.Conn())
	runtest.WantError(t, "jetstream", err, nil)
	data, err := events.Encode(&events.Commit{
		ID: "foreign", Session: other, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("", &events.SessionOpened{})},
	})
	runtest.WantError(t, "encode", err, nil)
	for child, subjects := range map[events.SessionID]string{"bound": "foreign.s.bound.", "mixed": "lash.s.mixed."} {
		_, err = js.CreateStream(b.Ctx, jetstream.StreamConfig{Name: "lash-s-" + string(child), Subjects: []string{subjects + ">"}, AllowDirect: true})
		runtest.WantError(t, "stream", err, nil)
		_, err = js.Publish(b.Ctx, subjects+"session", data)
		runtest.WantError(t, "publish", err, nil)
		_, err = b.Create(b.Ctx, api.CreateRequest{ID: child})
		runtest.WantError(t, "create "+string(child), err, api.ErrExists)
		_, err = b.State(b.Ctx, child)
		runtest.Equal(t, "nobody takes it for the child", err != nil, true)
		runtest.Equal(t, "nothing was appended", b.LastSeq(child), 1)
	}
	runtest.Equal(t, "last of the other", b.LastSeq(other), seq)
	runtest.EqualLists(t, "messages of the other", b.Messages(other), []string{"user mine"})
}
