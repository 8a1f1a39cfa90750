package catalogue

import (
	"context"
	"fmt"
	"sync"
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

func graphRaces() []entry {
	return []entry{
		{"G08", "two appenders make one chain", "A-B, two appenders that both require B", "both run", "both succeed, linear chain", testBothAppend},
		{"G10", "append without a log fails", "no log in reach", "append", "error, nothing written", testNoLog},
		{"G12", "stale head is rebased", "another node commits first", "a stale head is used", "rebased, no node lost", testStaleHead},
		{"G20", "graph is valid at every commit", "a busy session", "at every commit", "acyclic, unique ids, parents and leaf exist, one active frame", testInvariants},
	}
}

func testBothAppend(t *testing.T) {
	const each = 20
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A", "B")
	var group sync.WaitGroup
	for i, h := range []*session.Host{b.Host, b.OtherHost(), b.OtherHost()} {
		group.Go(func() {
			for n := range each {
				_, err := h.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages(fmt.Sprintf("%d-%d", i, n)), RequiresAncestor: "B"})
				runtest.WantError(t, "append", err, nil)
			}
		})
	}
	group.Wait()
	s := b.StateOf(id)
	path, err := s.Path()
	runtest.WantError(t, "path", err, nil)
	runtest.Equal(t, "nodes on the path", len(path), 2+3*each)
	runtest.Equal(t, "nodes", s.Nodes, 2+3*each)
	next := make(map[string]int) // each appender's own order is kept
	for _, n := range path[2:] {
		var i, number int
		_, err = fmt.Sscanf(string(n.ID), "%d-%d", &i, &number)
		runtest.NoError(t, err)
		runtest.Equal(t, "next of its appender", number, next[fmt.Sprint(i)])
		next[fmt.Sprint(i)]++
	}
}

// testNoLog has hosts whose log is unreachable: one that has the session cached and one that has not.
func testNoLog(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A")
	before := b.LastSeq(id)
	secondBus := bustest.Open(t, b.Server)
	warm, cold := b.NewHost(secondBus), b.NewHost(secondBus)
	if _, err := warm.State(b.Ctx, id); err != nil {
		t.Fatal(err)
	}
	secondBus.Close()
	for name, h := range map[string]*session.Host{"loaded": warm, "not loaded": cold} {
		for what, write := range map[string]func() error{
			"append": func() error {
				_, err := h.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("B")})
				return err
			},
			"append nothing": func() error {
				_, err := h.AppendNodes(b.Ctx, id, api.AppendNodesRequest{RequiresAncestor: "A"})
				return err
			},
			"append with a key": func() error {
				_, err := h.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("B"), IdempotencyKey: "k"})
				return err
			},
			"branch": func() error { return h.BranchTo(b.Ctx, id, "") },
			"frame": func() error {
				_, err := h.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "f2"})
				return err
			},
			"inject": func() error {
				_, err := h.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("B")}})
				return err
			},
			"create": func() error {
				_, err := h.Create(b.Ctx, api.CreateRequest{ID: "new"})
				return err
			},
		} {
			if err := write(); err == nil {
				t.Errorf("%s on a host that has %s the session: got nil, want an error", what, name)
			}
		}
	}
	runtest.Equal(t, "last sequence", b.LastSeq(id), before)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user A"})
	_, err := b.State(b.Ctx, "new")
	runtest.WantError(t, "state of the session that could not be created", err, events.ErrNoSession)
}

func testStaleHead(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A") // this host knows A
	other := b.OtherHost()
	for _, s := range []string{"B", "C"} {
		_, err := other.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages(s)})
		runtest.WantError(t, "append on the other host", err, nil)
	}
	b.AppendTexts(id, "D")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user A", "user B", "user C", "user D"})
	runtest.WantError(t, "branch", other.BranchTo(b.Ctx, id, "A"), nil)
	stale(t, b, id, harness.UserMessages("E"), "B", "A")
}

// testInvariants has many concurrent users of a session and checks every commit afterwards.
func testInvariants(t *testing.T) {
	const turns = 6
	var script []harness.Step
	for i := range turns {
		script = append(script, harness.Reply(harness.Call("c", "once", "{}"), harness.Call("c", "pure", "{}")), harness.Reply(harness.Text(fmt.Sprint("done ", i))))
	}
	script = append(script, script...) // inputs that arrive at the end request more
	script = append(script, script...)
	b := harness.StartIdle(t, script...)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "once"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "1", nil })
	plugin.AddTool(b.Tools, plugin.Tool{Name: "pure", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "2", nil })
	b.StartWorker(b.Bus)
	b.StartWorker(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	hosts := []*session.Host{b.Host, b.OtherHost()}
	var group sync.WaitGroup
	for i, h := range hosts {
		group.Go(func() {
			for n := range turns / 2 {
				disturb(b, h, id, fmt.Sprintf("%d-%d", i, n))
			}
		})
		group.Go(func() {
			for n := range turns / 2 {
				turn := events.TurnID(fmt.Sprintf("t%d-%d", i, n))
				_, err := h.Run(b.Ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
				runtest.WantError(t, "turn", err, nil)
			}
		})
	}
	group.Wait()
	s := projector.New(id)
	for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.NoError(t, err)
		runtest.NoError(t, s.Apply(e))
		checkInvariants(t, s)
	}
	runtest.Equal(t, "turns", s.Turns, turns)
}

// disturb makes the requests that hosts make while turns run.
func disturb(b *harness.System, h *session.Host, id events.SessionID, tag string) {
	_, err := h.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("same", "m"+tag)})
	runtest.WantError(b.T, "append", err, nil)
	_, err = h.Inject(b.Ctx, id, api.InjectRequest{ID: events.InputID("i" + tag), Parts: []events.Part{harness.Text("psst")}})
	runtest.WantError(b.T, "inject", err, nil)
	_, err = h.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: events.FrameID("f" + tag), Reason: "compaction", Nodes: harness.UserMessages("seed" + tag)})
	runtest.WantError(b.T, "open frame", err, nil)
	if err := h.BranchTo(b.Ctx, id, ""); err != nil {
		runtest.WantError(b.T, "branch", err, api.ErrTurnRunning)
	}
}

// checkInvariants checks the graph in addition to the state's own check.
func checkInvariants(t *testing.T, s *projector.State) {
	t.Helper()
	runtest.WantError(t, fmt.Sprintf("at %d", s.Seq), s.Check(), nil)
	nodes, err := s.AllNodes()
	runtest.WantError(t, "nodes", err, nil)
	position := make(map[events.NodeID]int)
	for i, n := range nodes {
		if _, twice := position[n.ID]; twice {
			t.Errorf("at %d: node %s occurs twice", s.Seq, n.ID)
		}
		if _, ok := position[n.Parent]; !ok && n.Parent != "" {
			t.Errorf("at %d: node %s has no parent before it", s.Seq, n.ID)
		}
		position[n.ID] = i
	}
	if _, ok := position[s.Leaf]; !ok && s.Leaf != "" {
		t.Errorf("at %d: leaf %s does not exist", s.Seq, s.Leaf)
	}
	active := 0
	for _, f := range s.Frames {
		if f.ID == s.Frame().ID {
			active++
		}
	}
	runtest.Equal(t, "active frames", active, 1)
}
