package harness

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// StartPending returns a system whose turn t1 waits for the result of a call from outside the fleet. No worker runs
// the turn.
func StartPending(t *testing.T, script ...Step) (b *System, id events.SessionID, kill func()) {
	t.Helper()
	b = StartIdle(t, append([]Step{Reply(Call("k", "later", "{}"))}, script...)...)
	AddPending(b.Tools)
	kill = b.StartWorker(b.Bus)
	id = b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", Text("go"))
	b.AwaitState(id, "pending call", HasPending)
	b.AwaitUnqueued(id)
	return b, id, kill
}

// AddPending adds the tool "later", whose result comes from outside the fleet.
func AddPending(to plugin.ToolAdder) {
	plugin.AddTool(to, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
		c.CompletionKey()
		return plugin.Result{Pending: true}, nil
	})
}

// HasPending reports whether the only call of the turn waits for a result from outside.
func HasPending(s *projector.State) bool {
	return s.Turn() != nil && len(s.Turn().Calls) == 1 && s.Turn().Calls[0].Pended
}

// Approver is a plugin whose tool "add" needs approval. The other tools of the test need none.
type Approver struct {
	Requests atomic.Int64                    // number of hook calls
	Runs     atomic.Int64                    // of the tool
	Tool     func(ctx context.Context) error // the first step of a run; may be nil
}

// Factory is the plugin, whose tool "add" has these effects.
func (g *Approver) Factory(effects events.Effects) plugin.Factory {
	return PluginOf("gate", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "add" {
				return nil, nil
			}
			g.Requests.Add(1)
			return []plugin.Directive{plugin.Ask("really add?")}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "add", Effects: effects}, func(ctx context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) {
			g.Runs.Add(1)
			if g.Tool != nil {
				if err := g.Tool(ctx); err != nil {
					return 0, err
				}
			}
			return in.A + in.B, nil
		})
	})
}

// CallAdd is a reply that calls the tool "add".
func CallAdd() Step { return Reply(Call("k", "add", `{"A":1,"B":2}`)) }

// AddEffect is the effect of the call of [CallAdd] in turn t1.
const AddEffect = events.EffectID("t1/0/0")

// ParkTurn starts turn t1. It returns when the turn waits for an approval and no worker runs it.
func (b *System) ParkTurn(id events.SessionID) {
	b.T.Helper()
	b.StartTurn(id, "t1", Text("1+2?"))
	b.AwaitState(id, "question", HasAsk)
	b.AwaitUnqueued(id)
}

// AnswerApproval answers the approval of [AddEffect] through a host, as "yes" or "no".
func (b *System) AnswerApproval(h *session.Host, id events.SessionID, granted bool) error {
	by := map[bool]string{true: "yes", false: "no"}[granted]
	return h.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: AddEffect, Granted: granted, By: by})
}

// ToolResults lists the tool results of a session's history.
func ToolResults(b *System, id events.SessionID) []events.ToolResult {
	var list []events.ToolResult
	for _, p := range Find[*events.ToolReturned](b, id) {
		list = append(list, p.Results...)
	}
	return list
}

// HasAsk reports whether the turn waits for an approval.
func HasAsk(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) > 0 }
