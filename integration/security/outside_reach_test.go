package security

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// TestTransferNeedsBothSessions has a caller move a task between its own session and another owner's, both ways,
// with each grant there. It needs the right to write in both; without it neither history changes.
func TestTransferNeedsBothSessions(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	for what, want := range map[string]struct {
		rights []events.SessionRight
		err    error
	}{
		"none": {nil, events.ErrNoSession}, "read": {[]events.SessionRight{events.GrantRead}, api.ErrForbidden}, "write": {[]events.SessionRight{events.GrantWrite}, nil},
	} {
		for _, direction := range []string{"to", "from"} {
			mine, hers := events.SessionID("mine-"+what+direction), events.SessionID("hers-"+what+direction)
			for id, owner := range map[events.SessionID]string{mine: "bob", hers: "alice"} {
				_, err := b.Create(api.WithRequestMeta(b.Ctx, api.RequestMeta{Actor: owner}), api.CreateRequest{ID: id})
				runtest.WantError(t, "create", err, nil)
			}
			runtest.WantError(t, "grant", b.Grant(b.Ctx, hers, api.GrantRequest{To: "bob", Rights: want.rights}), nil)
			from, to := mine, hers
			if direction == "from" {
				from, to = hers, mine
			}
			_, err := b.RegisterTask(b.Ctx, from, api.TaskRequest{ID: "k1"})
			runtest.WantError(t, "register", err, nil)
			before := []events.Seq{b.LastSeq(from), b.LastSeq(to)}
			bob := func(ctx context.Context) context.Context {
				c := api.Caller{Name: "bob", Reach: api.Reach{Scope: api.ScopeAdmin, Own: true}}
				return api.WithRequestMeta(api.WithCaller(ctx, c, operation.TransferTasks.Needs, from), api.RequestMeta{Actor: "bob", Key: "k"})
			}
			runtest.WantError(t, direction+" a session with a grant to "+what, b.TransferTasks(bob(b.Ctx), from, to, []events.TaskID{"k1"}), want.err)
			if want.err != nil {
				runtest.EqualLists(t, "sequences after "+what+" "+direction, []events.Seq{b.LastSeq(from), b.LastSeq(to)}, before)
				continue
			}
			runtest.WantError(t, "again", b.TransferTasks(bob(b.Ctx), from, to, []events.TaskID{"k1"}), nil)
			moved, err := b.Task(b.Ctx, from, "k1")
			runtest.WantError(t, "task", err, nil)
			runtest.Equal(t, "moved to", moved.To, to)
			runtest.EqualLists(t, "sequences after "+what+" "+direction, []events.Seq{b.LastSeq(from), b.LastSeq(to)}, []events.Seq{before[0] + 1, before[1] + 1})
		}
	}
}
