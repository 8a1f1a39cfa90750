package integration

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

func graphEntries() []entry {
	return []entry{
		{"G01", "an empty graph", "message m1 is appended", "node m1, no parent, leaf m1", testFirstNode},
		{"G02", "a node m1", "message m1 is appended twice more", "message:m1, message:m1:2; one message shown", testSameMessage},
		{"G03", "path A-B-C", "append requires A", "appended under C", testAncestor},
		{"G04", "A-B-C, branched to A, D appended", "append requires B", "stale, leaf D, nothing written", testStale},
		{"G05", "an empty graph", "append requires x", "stale, no leaf", testStaleEmpty},
		{"G06", "leaf L", "nothing is appended, requires L", "appended, no ids, leaf L", testNothing},
		{"G07", "any graph", "append requires an unknown id", "stale", testStaleUnknown},
		{"G09", "any graph", "message, plugin and protocol node are appended", "ids in order, each below the other, one commit", testMixed},
		{"G11", "no such session", "append", "error", testUnknownSession},
		{"G13", "an append with a key", "the same again", "same ids, one set of nodes", testKey},
		{"G14", "messages 1, 2, 3", "rewritten to 1, 3'", "1 kept, 3' below it, 2 and 3 stored aside", testRewrite},
		{"G15", "1, plugin P, 2", "rewritten to 1", "P kept, leaf P", testRewriteKeeps},
		{"G16", "a transient message", "read", "absent from view and history", testTransient},
		{"G17", "a leaf that names no node", "loaded", "leaf is the last message, next append heals", testOrphan},
		{"G18", "a branching graph", "forked", "active nodes only, same ids, same leaf", testFork},
		{"G19", "branched to A", "a turn", "prompt of A's path, old branch intact", testBranchTurn},
		{"G21", "message, tool call and protocol node", "chronology", "same order, indexes from 0, found by call id", testChronology},
	}
}

func testFirstNode(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("m1")})
	must(t, "append", err, nil)
	equalLists(t, "ids", got.IDs, []events.NodeID{"m1"})
	equal(t, "leaf", got.Leaf, "m1")
	n, err := b.state(id).Node("m1")
	must(t, "node", err, nil)
	equal(t, "parent", n.Parent, "")
	equal(t, "leaf of the state", b.state(id).Leaf, "m1")
}

func testSameMessage(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "m1")
	equalLists(t, "ids", append(b.say(id, "m1"), b.say(id, "m1")...), []events.NodeID{"message:m1", "message:m1:2"})
	equalLists(t, "messages", b.messages(id), []string{"user m1"})
	other := b.open(api.CreateRequest{})
	equalLists(t, "ids in one append", b.say(other, "m1", "m1", "m1"), []events.NodeID{"m1", "message:m1", "message:m1:2"})
}

func testAncestor(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "A", "B", "C")
	got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("D"), RequiresAncestor: "A"})
	must(t, "append", err, nil)
	equal(t, "leaf", got.Leaf, "D")
	n, err := b.state(id).Node("D")
	must(t, "node", err, nil)
	equal(t, "parent", n.Parent, "C")
}

// stale appends and expects a refusal that writes nothing.
func stale(t *testing.T, b *bundle, id events.SessionID, nodes []api.AppendNode, required, leaf events.NodeID) {
	t.Helper()
	before := b.last(id)
	_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: nodes, RequiresAncestor: required})
	refusal, ok := errors.AsType[*api.StaleBranchError](err)
	if !ok {
		t.Fatalf("append: got %v, want a stale branch", err)
	}
	equal(t, "current leaf", refusal.Leaf, leaf)
	equal(t, "last sequence", b.last(id), before)
}

func testStale(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "A", "B", "C")
	must(t, "branch", b.BranchTo(b.ctx, id, "A"), nil)
	b.say(id, "D")
	stale(t, b, id, says("E"), "B", "D")
	stale(t, b, id, nil, "B", "D") // also where nothing is to be appended
}

func testStaleEmpty(t *testing.T) {
	b := setupIdle(t)
	stale(t, b, b.open(api.CreateRequest{}), says("A"), "x", "")
}

func testStaleUnknown(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "A")
	stale(t, b, id, says("B"), "unknown", "A")
}

func testNothing(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{})
	must(t, "append to an empty graph", err, nil)
	equal(t, "leaf of an empty graph", got.Leaf, "")
	b.say(id, "K", "L")
	got, err = b.AppendNodes(b.ctx, id, api.AppendNodesRequest{RequiresAncestor: "L"})
	must(t, "append", err, nil)
	equalLists(t, "ids", got.IDs, []events.NodeID{})
	equal(t, "leaf", got.Leaf, "L")
}

func testMixed(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "root")
	before := b.last(id)
	got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: append(says("m"),
		api.AppendNode{Kind: events.NodePlugin, ID: "p", Type: "note", Body: []byte(`{"a":1}`)},
		api.AppendNode{Kind: events.NodeProtocol, Type: "step"})})
	must(t, "append", err, nil)
	equal(t, "commits", b.last(id), before+1)
	if len(got.IDs) != 3 {
		t.Fatalf("ids: got %v, want three", got.IDs)
	}
	equalLists(t, "ids", got.IDs[:2], []events.NodeID{"m", "p"})
	equal(t, "leaf", got.Leaf, got.IDs[2])
	parent := events.NodeID("root")
	for _, id2 := range got.IDs {
		n, err := b.state(id).Node(id2)
		must(t, "node", err, nil)
		equal(t, "parent of "+string(id2), n.Parent, parent)
		parent = id2
	}
}

func testUnknownSession(t *testing.T) {
	b := setupIdle(t)
	_, err := b.AppendNodes(b.ctx, "nobody", api.AppendNodesRequest{Nodes: says("A")})
	must(t, "append", err, events.ErrNoSession)
	_, err = b.AppendNodes(b.ctx, "no.body", api.AppendNodesRequest{Nodes: says("A")})
	must(t, "append with an impossible id", err, events.ErrInvalidID)
}

func testKey(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	req := api.AppendNodesRequest{Nodes: append(says("A"), api.AppendNode{Kind: events.NodePlugin, Type: "note"}), IdempotencyKey: "k1"}
	one, err := b.AppendNodes(b.ctx, id, req)
	must(t, "append", err, nil)
	after := b.last(id)
	for _, h := range []*session.Host{b.Host, b.otherHost()} {
		again, err := h.AppendNodes(b.ctx, id, req)
		must(t, "append again", err, nil)
		equalLists(t, "ids", again.IDs, one.IDs)
	}
	equal(t, "last sequence", b.last(id), after)
	equal(t, "nodes", b.state(id).Nodes, 2)
	req.IdempotencyKey = "k2"
	other, err := b.AppendNodes(b.ctx, id, req)
	must(t, "append with another key", err, nil)
	equal(t, "first id", other.IDs[0], "message:A")
}

// rewriteTo makes the messages of a session those of the given texts.
func rewriteTo(b *bundle, id events.SessionID, texts ...string) {
	b.t.Helper()
	var target []api.RewriteMessage
	for _, n := range says(texts...) {
		target = append(target, api.RewriteMessage{Message: *n.Message})
	}
	must(b.t, "rewrite", b.Rewrite(b.ctx, id, target), nil)
}

func testRewrite(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "1", "2", "3")
	rewriteTo(b, id, "1", "3'")
	equalLists(t, "messages", b.messages(id), []string{"user 1", "user 3'"})
	s := b.state(id)
	for node, parent := range map[events.NodeID]events.NodeID{"1": "", "2": "1", "3": "2", "3'": "1"} {
		n, err := s.Node(node)
		must(t, "node", err, nil)
		equal(t, "parent of "+string(node), n.Parent, parent)
	}
}

func testRewriteKeeps(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "1")
	_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: append([]api.AppendNode{
		{Kind: events.NodePlugin, ID: "P", Type: "note"},
	}, says("2")...)})
	must(t, "append", err, nil)
	rewriteTo(b, id, "1")
	equal(t, "leaf", b.state(id).Leaf, "P")
	equalLists(t, "messages", b.messages(id), []string{"user 1"})
}

func testTransient(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	nodes := says("A", "B", "C")
	nodes[1].Transient = true
	got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: nodes})
	must(t, "append", err, nil)
	equalLists(t, "ids", got.IDs, []events.NodeID{"A", "C"})
	equalLists(t, "messages", b.messages(id), []string{"user A", "user C"})
	equal(t, "nodes in the history", len(find[*events.GraphAppended](b, id)[0].Nodes), 2)
}

func testOrphan(t *testing.T) {
	b := setup(t, reply(text("here")))
	id := b.open(api.CreateRequest{})
	b.say(id, "A", "B")
	b.commitWith(id, &events.GraphBranched{Leaf: "lost"})
	h := b.otherHost()
	v, err := h.View(b.ctx, id)
	must(t, "view", err, nil)
	equalLists(t, "messages", transcript(v.Messages), []string{"user A", "user B"})
	b.run(id, "t1", text("hello"))
	equalLists(t, "prompt", b.model.prompt(0), []string{"user A", "user B", "user hello"})
	b.commitWith(id, &events.GraphBranched{Leaf: "lost"})
	b.say(id, "C")
	equalLists(t, "messages", b.messages(id), []string{"user A", "user B", "user hello", "assistant here", "user C"})
	must(t, "check", b.state(id).Check(), nil)
}

func testFork(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{Config: events.Config{Model: "m"}})
	b.say(id, "A", "B")
	must(t, "branch", b.BranchTo(b.ctx, id, "A"), nil)
	b.say(id, "C")
	fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	b.say(fork, "D")
	nodes, err := b.state(fork).AllNodes()
	must(t, "nodes", err, nil)
	var ids []events.NodeID
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	equalLists(t, "nodes", ids, []events.NodeID{"A", "C", "D"})
	s := b.state(fork)
	equal(t, "forked from", s.Forked.Session, id)
	equal(t, "forked at", s.Forked.Leaf, "C")
	equal(t, "model", s.Config.Model, "m")
	equal(t, "leaf of the original", b.state(id).Leaf, "C")
}

func testBranchTurn(t *testing.T) {
	b := setup(t, reply(text("yes")))
	id := b.open(api.CreateRequest{})
	b.say(id, "A", "B")
	must(t, "branch", b.BranchTo(b.ctx, id, "A"), nil)
	b.run(id, "t1", text("hello"))
	equalLists(t, "prompt", b.model.prompt(0), []string{"user A", "user hello"})
	old, err := b.state(id).PathTo("B")
	must(t, "old branch", err, nil)
	equal(t, "nodes of the old branch", len(old), 2)
	must(t, "branch to nowhere", b.BranchTo(b.ctx, id, "none"), api.ErrUnknownNode)
}

func testChronology(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{
		{Message: &events.Message{ID: "m", Role: events.RoleAssistant, Parts: []events.Part{text("look"), call("k", "tool", "{}")}}},
		{Message: &events.Message{ID: "r", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: "k", Text: "seen"}}}},
		{Kind: events.NodeProtocol, ID: "p", Type: "step"},
	}})
	must(t, "append", err, nil)
	v, err := b.View(b.ctx, id)
	must(t, "view", err, nil)
	list := v.Chronology()
	var kinds []projector.EntryKind
	for i, c := range list {
		equal(t, "index", c.Index, i)
		kinds = append(kinds, c.Kind)
	}
	equalLists(t, "kinds", kinds, []projector.EntryKind{projector.EntryMessage, projector.EntryToolCall, projector.EntryMessage, projector.EntryNode})
	found, ok := projector.FindCall(list, "k")
	if !ok || found.Tool != "tool" || found.Text != "seen" {
		t.Errorf("call k: got %+v, %v, want that of tool", found, ok)
	}
}
