package catalogue

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

func graphEntries() []entry {
	return []entry{
		{"G01", "first node is the leaf", "an empty graph", "message m1 is appended", "node m1, no parent, leaf m1", testFirstNode},
		{"G02", "repeated message gets a new node and is shown once", "a node m1", "message m1 is appended twice more", "message:m1, message:m1:2; one message shown", testSameMessage},
		{"G03", "append that requires an ancestor goes below the leaf", "path A-B-C", "append requires A", "appended under C", testAncestor},
		{"G04", "stale branch is refused", "A-B-C, branched to A, D appended", "append requires B", "stale, leaf D, nothing written", testStale},
		{"G05", "requirement on an empty graph is stale", "an empty graph", "append requires x", "stale, no leaf", testStaleEmpty},
		{"G06", "empty append keeps the leaf", "leaf L", "nothing is appended, requires L", "appended, no ids, leaf L", testEmptyAppend},
		{"G07", "unknown required node is stale", "any graph", "append requires an unknown id", "stale", testStaleUnknown},
		{"G09", "mixed nodes are one commit in order", "any graph", "message, plugin and protocol node are appended", "ids in order, each below the other, one commit", testMixed},
		{"G11", "append to an unknown session fails", "no such session", "append", "error", testUnknownSession},
		{"G13", "append with the same key happens once", "an append with a key", "the same again", "same ids, one set of nodes", testKey},
		{"G14", "rewrite keeps the common prefix", "messages 1, 2, 3", "rewritten to 1, 3'", "1 kept, 3' below it, 2 and 3 stored aside", testRewrite},
		{"G15", "rewrite keeps plugin nodes", "1, plugin P, 2", "rewritten to 1", "P kept, leaf P", testRewriteKeeps},
		{"G16", "transient message is not recorded", "a transient message", "read", "absent from view and history", testTransient},
		{"G17", "leaf without a node is healed", "a leaf that names no node", "loaded", "leaf is the last message, next append heals", testOrphan},
		{"G18", "fork copies the active path", "a branching graph", "forked", "active nodes only, same ids, same leaf", testFork},
		{"G19", "turn on a branch reads its path only", "branched to A", "a turn", "prompt of A's path, old branch intact", testBranchTurn},
		{"G21", "chronology lists nodes and finds calls", "message, tool call and protocol node", "chronology", "same order, indexes from 0, found by call id", testChronology},
	}
}

func testFirstNode(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	got, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("m1")})
	runtest.WantError(t, "append", err, nil)
	runtest.EqualLists(t, "ids", got.IDs, []events.NodeID{"m1"})
	runtest.Equal(t, "leaf", got.Leaf, "m1")
	n, err := b.StateOf(id).Node("m1")
	runtest.WantError(t, "node", err, nil)
	runtest.Equal(t, "parent", n.Parent, "")
	runtest.Equal(t, "leaf of the state", b.StateOf(id).Leaf, "m1")
}

func testSameMessage(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "m1")
	runtest.EqualLists(t, "ids", append(b.AppendTexts(id, "m1"), b.AppendTexts(id, "m1")...), []events.NodeID{"message:m1", "message:m1:2"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user m1"})
	other := b.Open(api.CreateRequest{})
	runtest.EqualLists(t, "ids in one append", b.AppendTexts(other, "m1", "m1", "m1"), []events.NodeID{"m1", "message:m1", "message:m1:2"})
}

func testAncestor(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A", "B", "C")
	got, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("D"), RequiresAncestor: "A"})
	runtest.WantError(t, "append", err, nil)
	runtest.Equal(t, "leaf", got.Leaf, "D")
	n, err := b.StateOf(id).Node("D")
	runtest.WantError(t, "node", err, nil)
	runtest.Equal(t, "parent", n.Parent, "C")
}

// stale appends and expects a refusal that writes nothing.
func stale(t *testing.T, b *harness.System, id events.SessionID, nodes []api.AppendNode, required, leaf events.NodeID) {
	t.Helper()
	before := b.LastSeq(id)
	_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: nodes, RequiresAncestor: required})
	refusal, ok := errors.AsType[*api.StaleBranchError](err)
	if !ok {
		t.Fatalf("append: got %v, want a stale branch", err)
	}
	runtest.Equal(t, "current leaf", refusal.Leaf, leaf)
	runtest.Equal(t, "last sequence", b.LastSeq(id), before)
}

func testStale(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A", "B", "C")
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, "A"), nil)
	b.AppendTexts(id, "D")
	stale(t, b, id, harness.UserMessages("E"), "B", "D")
	stale(t, b, id, nil, "B", "D") // also where nothing is to be appended
}

func testStaleEmpty(t *testing.T) {
	b := harness.StartIdle(t)
	stale(t, b, b.Open(api.CreateRequest{}), harness.UserMessages("A"), "x", "")
}

func testStaleUnknown(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A")
	stale(t, b, id, harness.UserMessages("B"), "unknown", "A")
}

func testEmptyAppend(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	got, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{})
	runtest.WantError(t, "append to an empty graph", err, nil)
	runtest.Equal(t, "leaf of an empty graph", got.Leaf, "")
	b.AppendTexts(id, "K", "L")
	got, err = b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{RequiresAncestor: "L"})
	runtest.WantError(t, "append", err, nil)
	runtest.EqualLists(t, "ids", got.IDs, []events.NodeID{})
	runtest.Equal(t, "leaf", got.Leaf, "L")
}

func testMixed(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "root")
	before := b.LastSeq(id)
	got, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: append(harness.UserMessages("m"),
		api.AppendNode{Kind: events.NodePlugin, ID: "p", Type: "note", Body: []byte(`{"a":1}`)},
		api.AppendNode{Kind: events.NodeProtocol, Type: "step"})})
	runtest.WantError(t, "append", err, nil)
	runtest.Equal(t, "commits", b.LastSeq(id), before+1)
	if len(got.IDs) != 3 {
		t.Fatalf("ids: got %v, want three", got.IDs)
	}
	runtest.EqualLists(t, "ids", got.IDs[:2], []events.NodeID{"m", "p"})
	runtest.Equal(t, "leaf", got.Leaf, got.IDs[2])
	parent := events.NodeID("root")
	for _, id2 := range got.IDs {
		n, err := b.StateOf(id).Node(id2)
		runtest.WantError(t, "node", err, nil)
		runtest.Equal(t, "parent of "+string(id2), n.Parent, parent)
		parent = id2
	}
}

func testUnknownSession(t *testing.T) {
	b := harness.StartIdle(t)
	_, err := b.AppendNodes(b.Ctx, "nobody", api.AppendNodesRequest{Nodes: harness.UserMessages("A")})
	runtest.WantError(t, "append", err, events.ErrNoSession)
	_, err = b.AppendNodes(b.Ctx, "no.body", api.AppendNodesRequest{Nodes: harness.UserMessages("A")})
	runtest.WantError(t, "append with an impossible id", err, events.ErrInvalidID)
}

func testKey(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	req := api.AppendNodesRequest{Nodes: append(harness.UserMessages("A"), api.AppendNode{Kind: events.NodePlugin, Type: "note"}), IdempotencyKey: "k1"}
	one, err := b.AppendNodes(b.Ctx, id, req)
	runtest.WantError(t, "append", err, nil)
	after := b.LastSeq(id)
	for _, h := range []*session.Host{b.Host, b.OtherHost()} {
		again, err := h.AppendNodes(b.Ctx, id, req)
		runtest.WantError(t, "append again", err, nil)
		runtest.EqualLists(t, "ids", again.IDs, one.IDs)
	}
	runtest.Equal(t, "last sequence", b.LastSeq(id), after)
	runtest.Equal(t, "nodes", b.StateOf(id).Nodes, 2)
	req.IdempotencyKey = "k2"
	other, err := b.AppendNodes(b.Ctx, id, req)
	runtest.WantError(t, "append with another key", err, nil)
	runtest.Equal(t, "first id", other.IDs[0], "message:A")
}

// rewriteTo rewrites the messages of a session to these texts.
func rewriteTo(b *harness.System, id events.SessionID, texts ...string) {
	b.T.Helper()
	var target []api.RewriteMessage
	for _, n := range harness.UserMessages(texts...) {
		target = append(target, api.RewriteMessage{Message: *n.Message})
	}
	runtest.WantError(b.T, "rewrite", b.Rewrite(b.Ctx, id, target), nil)
}

func testRewrite(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "1", "2", "3")
	rewriteTo(b, id, "1", "3'")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user 1", "user 3'"})
	s := b.StateOf(id)
	for node, parent := range map[events.NodeID]events.NodeID{"1": "", "2": "1", "3": "2", "3'": "1"} {
		n, err := s.Node(node)
		runtest.WantError(t, "node", err, nil)
		runtest.Equal(t, "parent of "+string(node), n.Parent, parent)
	}
}

func testRewriteKeeps(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "1")
	_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: append([]api.AppendNode{
		{Kind: events.NodePlugin, ID: "P", Type: "note"},
	}, harness.UserMessages("2")...)})
	runtest.WantError(t, "append", err, nil)
	rewriteTo(b, id, "1")
	runtest.Equal(t, "leaf", b.StateOf(id).Leaf, "P")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user 1"})
}

func testTransient(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	nodes := harness.UserMessages("A", "B", "C")
	nodes[1].Transient = true
	got, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: nodes})
	runtest.WantError(t, "append", err, nil)
	runtest.EqualLists(t, "ids", got.IDs, []events.NodeID{"A", "C"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user A", "user C"})
	runtest.Equal(t, "nodes in the history", len(harness.Find[*events.GraphAppended](b, id)[0].Nodes), 2)
}

func testOrphan(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("here")))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A", "B")
	b.CommitUnchecked(id, &events.GraphBranched{Leaf: "lost"})
	h := b.OtherHost()
	v, err := h.View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	runtest.EqualLists(t, "messages", harness.Transcript(v.Messages), []string{"user A", "user B"})
	b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user A", "user B", "user hello"})
	b.CommitUnchecked(id, &events.GraphBranched{Leaf: "lost"})
	b.AppendTexts(id, "C")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user A", "user B", "user hello", "assistant here", "user C"})
	runtest.WantError(t, "check", b.StateOf(id).Check(), nil)
}

func testFork(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "m"}})
	b.AppendTexts(id, "A", "B")
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, "A"), nil)
	b.AppendTexts(id, "C")
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	b.AppendTexts(fork, "D")
	nodes, err := b.StateOf(fork).AllNodes()
	runtest.WantError(t, "nodes", err, nil)
	var ids []events.NodeID
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	runtest.EqualLists(t, "nodes", ids, []events.NodeID{"A", "C", "D"})
	s := b.StateOf(fork)
	runtest.Equal(t, "forked from", s.Forked.Session, id)
	runtest.Equal(t, "forked at", s.Forked.Leaf, "C")
	runtest.Equal(t, "model", s.Config.Model, "m")
	runtest.Equal(t, "leaf of the original", b.StateOf(id).Leaf, "C")
}

func testBranchTurn(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("yes")))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A", "B")
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, "A"), nil)
	b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user A", "user hello"})
	old, err := b.StateOf(id).PathTo("B")
	runtest.WantError(t, "old branch", err, nil)
	runtest.Equal(t, "nodes of the old branch", len(old), 2)
	runtest.WantError(t, "branch to nowhere", b.BranchTo(b.Ctx, id, "none"), api.ErrUnknownNode)
}

func testChronology(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{
		{Message: &events.Message{ID: "m", Role: events.RoleAssistant, Parts: []events.Part{harness.Text("look"), harness.Call("k", "tool", "{}")}}},
		{Message: &events.Message{ID: "r", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: "k", Text: "seen"}}}},
		{Kind: events.NodeProtocol, ID: "p", Type: "step"},
	}})
	runtest.WantError(t, "append", err, nil)
	v, err := b.View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	list := v.Chronology()
	var kinds []projector.EntryKind
	for i, c := range list {
		runtest.Equal(t, "index", c.Index, i)
		kinds = append(kinds, c.Kind)
	}
	runtest.EqualLists(t, "kinds", kinds, []projector.EntryKind{projector.EntryMessage, projector.EntryToolCall, projector.EntryMessage, projector.EntryNode})
	if call := list[1].Call; call.ID != "k" || call.Tool != "tool" || call.Text != "seen" {
		t.Errorf("call: got %+v, want k of tool", call)
	}
}
