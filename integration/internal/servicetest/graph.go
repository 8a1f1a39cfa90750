package servicetest

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

var graphCases = []testCase{
	{"append", func(b *bench) {
		id := b.open("a")
		got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("b", "c"), RequiresAncestor: "a"})
		b.must("append", err, nil)
		equal(b, "appended", got, api.AppendedNodes{IDs: []events.NodeID{"b", "c"}, Leaf: "c"})
		equal(b, "messages", b.texts(id), []string{"a", "b", "c"})
	}},
	{"append_key", func(b *bench) {
		id := b.open()
		req := api.AppendNodesRequest{Nodes: says("a"), IdempotencyKey: "k"}
		for range 2 {
			got, err := b.AppendNodes(b.ctx, id, req)
			b.must("append", err, nil)
			equal(b, "ids", got.IDs, []events.NodeID{"a"})
		}
		equal(b, "messages", b.texts(id), []string{"a"})
	}},
	{"append_nothing", func(b *bench) {
		id := b.open("a")
		got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{})
		b.must("append", err, nil)
		equal(b, "appended", got, api.AppendedNodes{IDs: []events.NodeID{}, Leaf: "a"})
	}},
	{"append_stale", func(b *bench) {
		id := b.open("a", "b")
		b.must("branch", b.BranchTo(b.ctx, id, "a"), nil)
		_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("c"), RequiresAncestor: "b"})
		equal(b, "stale", *as[*api.StaleBranchError](b, "append", err), api.StaleBranchError{Required: "b", Leaf: "a"})
		equal(b, "messages", b.texts(id), []string{"a"})
	}},
	{"branch", func(b *bench) {
		id := b.open("a", "b")
		b.must("branch", b.BranchTo(b.ctx, id, "a"), nil)
		equal(b, "messages", b.texts(id), []string{"a"})
		b.must("branch", b.BranchTo(b.ctx, id, "b"), nil)
		equal(b, "messages", b.texts(id), []string{"a", "b"})
		b.must("branch", b.BranchTo(b.ctx, id, "z"), api.ErrUnknownNode)
		b.hangs(id)
		b.must("branch", b.BranchTo(b.ctx, id, "a"), api.ErrTurnRunning)
		b.cancels(id)
	}},
	{"frame", func(b *bench) {
		id := b.open("a", "b")
		opened, err := b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "f2", Reason: "x", Keep: "b", Nodes: says("c")})
		b.must("open frame", err, nil)
		equal(b, "opened", opened, true)
		opened, err = b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "f2"})
		b.must("open frame", err, nil)
		equal(b, "opened again", opened, false)
		equal(b, "frame", b.state(id).Frame().ID, "f2")
	}},
	{"rewrite", func(b *bench) {
		id := b.open("a", "b")
		target := []api.RewriteMessage{
			{Message: *says("a")[0].Message}, {Message: *says("c")[0].Message}, {Message: *says("d")[0].Message, Transient: true},
		}
		b.must("rewrite", b.Rewrite(b.ctx, id, target), nil)
		equal(b, "messages", b.texts(id), []string{"a", "c"})
	}},
	{"compact", func(b *bench) {
		id := b.open("a", "b")
		opened, err := b.Compact(b.ctx, id)
		b.must("compact", err, nil)
		equal(b, "opened", opened, true)
		equal(b, "messages", b.texts(id), []string{"in short"})
	}},
}
