package integration

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// TestTransferNeedsBothSessions has a caller move a task between its own session
// and another owner's, either way, with each grant there: the right to write is
// needed in both, and without it neither history changes.
func TestTransferNeedsBothSessions(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	for what, want := range map[string]struct {
		rights []events.SessionRight
		err    error
	}{
		"none": {nil, events.ErrNoSession}, "read": {[]events.SessionRight{events.GrantRead}, api.ErrForbidden}, "write": {[]events.SessionRight{events.GrantWrite}, nil},
	} {
		for _, way := range []string{"to", "from"} {
			mine, hers := events.SessionID("mine-"+what+way), events.SessionID("hers-"+what+way)
			for id, owner := range map[events.SessionID]string{mine: "bob", hers: "alice"} {
				_, err := b.Create(api.WithAsked(b.ctx, api.Asked{Actor: owner}), api.CreateRequest{ID: id})
				must(t, "create", err, nil)
			}
			must(t, "grant", b.Grant(b.ctx, hers, api.GrantRequest{To: "bob", Rights: want.rights}), nil)
			from, to := mine, hers
			if way == "from" {
				from, to = hers, mine
			}
			_, err := b.RegisterTask(b.ctx, from, api.TaskRequest{ID: "k1"})
			must(t, "register", err, nil)
			before := []events.Seq{b.last(from), b.last(to)}
			bob := func(ctx context.Context) context.Context {
				c := api.Caller{Name: "bob", Reach: api.Reach{Scope: api.ScopeAdmin, Own: true}}
				return api.WithAsked(api.WithCaller(ctx, c, operation.TransferTasks.Needs, from), api.Asked{Actor: "bob", Key: "k"})
			}
			must(t, way+" a session with a grant to "+what, b.TransferAsyncHandles(bob(b.ctx), from, to, []events.TaskID{"k1"}), want.err)
			if want.err != nil {
				equalLists(t, "sequences after "+what+" "+way, []events.Seq{b.last(from), b.last(to)}, before)
				continue
			}
			must(t, "again", b.TransferAsyncHandles(bob(b.ctx), from, to, []events.TaskID{"k1"}), nil)
			moved, err := b.Task(b.ctx, from, "k1")
			must(t, "task", err, nil)
			equal(t, "moved to", moved.To, to)
			equalLists(t, "sequences after "+what+" "+way, []events.Seq{b.last(from), b.last(to)}, []events.Seq{before[0] + 1, before[1] + 1})
		}
	}
}
