package catalogue

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// cost is the average cost of an append.
type cost struct {
	requests, bytes, allocs float64
}

// appendCost measures appends that name an ancestor at the far end of a history of n nodes. It is not parallel:
// allocations are counted for the whole process.
func appendCost(t *testing.T, n int) cost {
	t.Helper()
	b := harness.StartIdle(t)
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("m%d", i))
	}
	id := b.Open(api.CreateRequest{Nodes: harness.UserMessages(texts...)})
	on := bustest.Open(t, b.Server)
	h := b.NewHost(on)
	next := 0
	one := func() {
		next++
		_, err := h.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages(fmt.Sprintf("new%d", next)), RequiresAncestor: "m0"})
		runtest.WantError(t, "append", err, nil)
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

// TestAppendCost compares appends to a session of 10 000 nodes with appends to one of 10. See appendCost for why
// it runs alone.
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

// TestInputIDsEqualToNodeIDs keeps the ids of nodes unique where an input's id equals one that a host requests.
func TestInputIDsEqualToNodeIDs(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("on")))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "m_ingress_taken")
	inject := func(id events.SessionID, input events.InputID) error {
		_, err := b.Inject(b.Ctx, id, api.InjectRequest{ID: input, Parts: []events.Part{harness.Text("psst")}})
		return err
	}
	runtest.WantError(t, "inject with an id whose node exists", inject(id, "taken"), api.ErrDifferent)
	runtest.WantError(t, "inject", inject(id, "pending"), nil)
	runtest.EqualLists(t, "ids", b.AppendTexts(id, "m_ingress_pending"), []events.NodeID{"message:m_ingress_pending"})
	b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.WantError(t, "check", b.StateOf(id).Check(), nil)
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	runtest.WantError(t, "inject in the fork what it came with", inject(fork, "pending"), api.ErrDifferent)
	runtest.WantError(t, "inject in the fork", inject(fork, "other"), nil)
	b.RunTurn(fork, "t1", harness.Text("hello")) // the ids of t1's messages are taken here
	runtest.WantError(t, "check of the fork", b.StateOf(fork).Check(), nil)
	runtest.EqualLists(t, "messages of the fork", b.Messages(fork), append(b.Messages(id), "user psst", "user hello", "assistant on"))
}
