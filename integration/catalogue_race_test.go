package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func graphRaces() []entry {
	return []entry{
		{"G08", "A-B, two appenders that both require B", "both run", "both succeed, linear chain", testBothAppend},
		{"G10", "no log in reach", "append", "error, nothing written", testNoLog},
		{"G12", "another node commits first", "a stale head is used", "rebased, no node lost", testStaleHead},
		{"G20", "a busy session", "at every commit", "acyclic, unique ids, parents and leaf exist, one active frame", testInvariants},
	}
}

func testBothAppend(t *testing.T) {
	const each = 20
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "A", "B")
	var group sync.WaitGroup
	for i, h := range []*session.Host{b.Host, b.otherHost(), b.otherHost()} {
		group.Go(func() {
			for n := range each {
				_, err := h.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says(fmt.Sprintf("%d-%d", i, n)), RequiresAncestor: "B"})
				must(t, "append", err, nil)
			}
		})
	}
	group.Wait()
	s := b.state(id)
	path, err := s.Path()
	must(t, "path", err, nil)
	equal(t, "nodes on the path", len(path), 2+3*each)
	equal(t, "nodes", s.Nodes, 2+3*each)
	next := make(map[string]int) // each appender's own order is kept
	for _, n := range path[2:] {
		var i, number int
		if _, err := fmt.Sscanf(string(n.ID), "%d-%d", &i, &number); err != nil {
			t.Fatal(err)
		}
		equal(t, "next of its appender", number, next[fmt.Sprint(i)])
		next[fmt.Sprint(i)]++
	}
}

// testNoLog has hosts whose log is out of reach, one with the session at hand and one without.
func testNoLog(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "A")
	before := b.last(id)
	away := bustest.Open(t, b.server)
	warm, cold := b.newHost(away), b.newHost(away)
	if _, err := warm.State(b.ctx, id); err != nil {
		t.Fatal(err)
	}
	away.Close()
	for name, h := range map[string]*session.Host{"loaded": warm, "not loaded": cold} {
		for what, write := range map[string]func() error{
			"append": func() error {
				_, err := h.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("B")})
				return err
			},
			"append nothing": func() error {
				_, err := h.AppendNodes(b.ctx, id, api.AppendNodesRequest{RequiresAncestor: "A"})
				return err
			},
			"append with a key": func() error {
				_, err := h.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("B"), IdempotencyKey: "k"})
				return err
			},
			"branch": func() error { return h.BranchTo(b.ctx, id, "") },
			"frame": func() error {
				_, err := h.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "f2"})
				return err
			},
			"inject": func() error {
				_, err := h.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{text("B")}})
				return err
			},
			"create": func() error {
				_, err := h.Create(b.ctx, api.CreateRequest{ID: "new"})
				return err
			},
		} {
			if err := write(); err == nil {
				t.Errorf("%s on a host that has %s the session: got nil, want an error", what, name)
			}
		}
	}
	equal(t, "last sequence", b.last(id), before)
	equalLists(t, "messages", b.messages(id), []string{"user A"})
	_, err := b.State(b.ctx, "new")
	must(t, "state of the session that could not be created", err, events.ErrNoSession)
}

func testStaleHead(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "A") // this host knows A
	other := b.otherHost()
	for _, s := range []string{"B", "C"} {
		_, err := other.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says(s)})
		must(t, "append on the other host", err, nil)
	}
	b.say(id, "D")
	equalLists(t, "messages", b.messages(id), []string{"user A", "user B", "user C", "user D"})
	must(t, "branch", other.BranchTo(b.ctx, id, "A"), nil)
	stale(t, b, id, says("E"), "B", "A")
}

// testInvariants keeps a session busy from many sides and looks at every commit afterwards.
func testInvariants(t *testing.T) {
	const turns = 6
	var script []step
	for i := range turns {
		script = append(script, reply(call("c", "once", "{}"), call("c", "pure", "{}")), reply(text(fmt.Sprint("done ", i))))
	}
	script = append(script, script...) // inputs that come at the end ask for more
	script = append(script, script...)
	b := setupIdle(t, script...)
	plugin.AddTool(b.tools, plugin.Tool{Name: "once"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "1", nil })
	plugin.AddTool(b.tools, plugin.Tool{Name: "pure", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "2", nil })
	b.work(b.bus)
	b.work(bustest.Open(t, b.server))
	id := b.open(api.CreateRequest{})
	hosts := []*session.Host{b.Host, b.otherHost()}
	var group sync.WaitGroup
	for i, h := range hosts {
		group.Go(func() {
			for n := range turns / 2 {
				b.disturb(h, id, fmt.Sprintf("%d-%d", i, n))
			}
		})
		group.Go(func() {
			for n := range turns / 2 {
				turn := events.TurnID(fmt.Sprintf("t%d-%d", i, n))
				_, err := h.Run(b.ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{text("go")}}})
				must(t, "turn", err, nil)
			}
		})
	}
	group.Wait()
	s := projector.New(id)
	for e, err := range b.bus.Log().Read(b.ctx, id, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, s)
	}
	equal(t, "turns", s.Turns, turns)
}

// disturb does what hosts do while turns run.
func (b *bundle) disturb(h *session.Host, id events.SessionID, tag string) {
	_, err := h.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("same", "m"+tag)})
	must(b.t, "append", err, nil)
	_, err = h.Inject(b.ctx, id, api.InjectRequest{ID: events.InputID("i" + tag), Parts: []events.Part{text("psst")}})
	must(b.t, "inject", err, nil)
	_, err = h.OpenFrame(b.ctx, id, api.FrameRequest{Frame: events.FrameID("f" + tag), Reason: "compaction", Nodes: says("seed" + tag)})
	must(b.t, "open frame", err, nil)
	if err := h.BranchTo(b.ctx, id, ""); err != nil {
		must(b.t, "branch", err, api.ErrTurnRunning)
	}
}

// checkInvariants looks at the graph itself, beside the state's own check.
func checkInvariants(t *testing.T, s *projector.State) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Errorf("at %d: %v", s.Seq, err)
	}
	nodes, err := s.AllNodes()
	must(t, "nodes", err, nil)
	place := make(map[events.NodeID]int)
	for i, n := range nodes {
		if _, twice := place[n.ID]; twice {
			t.Errorf("at %d: node %s stands twice", s.Seq, n.ID)
		}
		if _, ok := place[n.Parent]; !ok && n.Parent != "" {
			t.Errorf("at %d: node %s has no parent before it", s.Seq, n.ID)
		}
		place[n.ID] = i
	}
	if _, ok := place[s.Leaf]; !ok && s.Leaf != "" {
		t.Errorf("at %d: leaf %s does not exist", s.Seq, s.Leaf)
	}
	active := 0
	for _, f := range s.Frames {
		if f.ID == s.Frame().ID {
			active++
		}
	}
	equal(t, "active frames", active, 1)
}
