package integration

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// cost is what appends take, on average.
type cost struct {
	requests, bytes, allocs float64
}

// appendCost measures appends that name an ancestor at the far end of a history of n nodes.
// It is not parallel: allocations are counted for the whole process.
func appendCost(t *testing.T, n int) cost {
	t.Helper()
	b := setupIdle(t)
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("m%d", i))
	}
	id := b.open(api.CreateRequest{Nodes: says(texts...)})
	on := bustest.Open(t, b.server)
	h := b.newHost(on)
	next := 0
	one := func() {
		next++
		_, err := h.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says(fmt.Sprintf("new%d", next)), RequiresAncestor: "m0"})
		must(t, "append", err, nil)
	}
	one() // loads the session
	const times = 50
	before := on.Conn().Stats()
	for range times {
		one()
	}
	after := on.Conn().Stats()
	return cost{
		requests: float64(after.OutMsgs-before.OutMsgs) / times,
		bytes:    float64(after.InBytes-before.InBytes+after.OutBytes-before.OutBytes) / times,
		allocs:   testing.AllocsPerRun(times, one),
	}
}

// TestAppendCost holds appends to a session of 10 000 nodes against those to one of 10. See appendCost for why it runs alone.
func TestAppendCost(t *testing.T) {
	short, long := appendCost(t, 10), appendCost(t, 10_000)
	t.Logf("10 nodes: %+v, 10 000 nodes: %+v", short, long)
	within := func(what string, short, long float64) {
		if short <= 0 || long > 2*short {
			t.Errorf("%s: got %.1f at 10 000 nodes, want at most twice the %.1f at 10", what, long, short)
		}
	}
	within("requests", short.requests, long.requests)
	within("bytes", short.bytes, long.bytes)
	within("allocations", short.allocs, long.allocs)
}

// TestInputNode keeps the ids of nodes unique where inputs get ids that hosts may wish for as well.
func TestInputNode(t *testing.T) {
	t.Parallel()
	b := setup(t, reply(text("hi")), reply(text("on")))
	id := b.open(api.CreateRequest{})
	b.say(id, "m_ingress_taken")
	inject := func(id events.SessionID, input events.InputID) error {
		_, err := b.Inject(b.ctx, id, api.InjectRequest{ID: input, Parts: []events.Part{text("psst")}})
		return err
	}
	must(t, "inject with an id whose node exists", inject(id, "taken"), api.ErrDifferent)
	must(t, "inject", inject(id, "pending"), nil)
	equalLists(t, "ids", b.say(id, "m_ingress_pending"), []events.NodeID{"message:m_ingress_pending"})
	b.run(id, "t1", text("hello"))
	must(t, "check", b.state(id).Check(), nil)
	fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	must(t, "inject in the fork what it came with", inject(fork, "pending"), api.ErrDifferent)
	must(t, "inject in the fork", inject(fork, "other"), nil)
	b.run(fork, "t1", text("hello")) // the ids of t1's messages are taken here
	must(t, "check of the fork", b.state(fork).Check(), nil)
	equalLists(t, "messages of the fork", b.messages(fork), append(b.messages(id), "user psst", "user hello", "assistant on"))
}
