package system

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestApprovalsAreFair has one session ask 45 questions, another one 23 and two sessions one each. A list has at most ten of one
// before all others had ten of theirs, in pages of any size, with a count; and no question is missing where others are answered
// between two pages.
func TestApprovalsAreFair(t *testing.T) {
	t.Parallel()
	asks := []int{45, 1, 23, 1}
	var script []harness.Step
	for _, n := range asks {
		var calls []events.Part
		for i := range n {
			calls = append(calls, harness.Call(events.CallID(fmt.Sprint("c", i)), "asked", `{}`))
		}
		script = append(script, harness.Reply(calls...))
	}
	for range asks { // turns whose questions are all answered go on
		script = append(script, harness.Reply(harness.Text("done")))
	}
	b := harness.StartIdle(t, script...)
	b.StartNode(harness.PluginOf("asked", func(r *plugin.Registrar) { harness.NamedTools(r, "asked") }),
		harness.BeforeCallPlugin("asks", func(plugin.ToolContext) []plugin.Directive { return []plugin.Directive{plugin.Ask("Really?")} }))
	want, most := make(map[events.SessionID]int), 0
	var ids []events.SessionID
	for _, n := range asks {
		id := b.Open(api.CreateRequest{})
		b.StartTurn(id, "t1", harness.Text("go"))
		b.AwaitState(id, "its questions", harness.HasAsk)
		want[id], ids, most = n, append(ids, id), most+n
	}
	read := func(limit int, between func(page int)) (list []api.PendingApproval, count int) {
		for p, n := (api.Page{Limit: limit}), 0; ; n++ {
			page, err := b.PendingApprovals(b.Ctx, p)
			runtest.WantError(t, "approvals", err, nil)
			list = append(list, page.Approvals...)
			if p.Cursor = page.Next; p.Cursor == "" {
				return list, page.Count
			}
			between(n)
		}
	}
	nothing := func(int) {}
	bustest.Eventually(t, "all rows", func() bool {
		list, count := read(0, nothing)
		return len(list) == most && count == most
	})
	all, _ := read(1000, nothing)
	had := make(map[events.SessionID]int)
	for i, a := range all {
		for id, n := range want {
			if rounds := had[a.Session] / 10 * 10; had[id] < min(rounds, n) {
				t.Fatalf("question %d is number %d of its session, and another one had %d of %d", i, had[a.Session]+1, had[id], n)
			}
		}
		had[a.Session]++
	}
	for _, limit := range []int{1, 7, 10, 33, 69} {
		list, count := read(limit, nothing)
		runtest.Equal(t, "count", count, most)
		same := slices.EqualFunc(list, all, func(a, b api.PendingApproval) bool { return a.Session == b.Session && a.Effect == b.Effect })
		runtest.Equal(t, fmt.Sprintf("pages of %d have the same order", limit), same, true)
	}
	list, _ := read(15, func(page int) {
		if page == 0 {
			for _, a := range all[:15] {
				runtest.WantError(t, "refuse", b.Approve(b.Ctx, a.Session, events.ToolApprovalGiven{Effect: a.Effect}), nil)
			}
		}
	})
	runtest.Equal(t, "questions, where some are answered between two pages", len(list), most)
	for _, id := range ids {
		_, _, err := b.Cancel(b.Ctx, id, "t1", api.CancelRequest{})
		runtest.WantError(t, "cancel", err, nil)
	}
}
