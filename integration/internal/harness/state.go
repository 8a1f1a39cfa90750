package harness

import (
	"encoding/json"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// CallResult is the text that the model reads as the result of a call.
func (b *System) CallResult(id events.SessionID, call string) string {
	b.T.Helper()
	for _, m := range b.ReadView(id).Messages {
		for _, p := range m.Parts {
			if p.Kind == events.PartToolResult && p.Call == events.CallID(call) {
				return p.Text
			}
		}
	}
	b.T.Fatalf("result of %s: got none", call)
	return ""
}

// ReadView is the view of a session.
func (b *System) ReadView(id events.SessionID) projector.ReadView {
	b.T.Helper()
	v, err := b.View(b.Ctx, id)
	runtest.NoError(b.T, err)
	return v
}

// Offered lists the tools of model call n, from 0.
func (m *Model) Offered(n int) []string {
	var names []string
	for _, tool := range m.Requests()[n].Tools {
		names = append(names, tool.Name)
	}
	return names
}

// Act invokes an action of a session's plugins.
func (b *System) Act(id events.SessionID, action, args string) plugin.Result {
	b.T.Helper()
	r, err := b.InvokeAction(b.Ctx, id, action, json.RawMessage(args))
	runtest.NoError(b.T, err)
	return r
}

// Subagents lists the subagents of a session.
func (b *System) Subagents(id events.SessionID) []projector.Task {
	b.T.Helper()
	list, err := b.Tasks(b.Ctx, id)
	runtest.NoError(b.T, err)
	return slices.DeleteFunc(list, func(t projector.Task) bool { return t.Of != events.TaskSubagent })
}

// SetModel changes the name of a session's model.
func (b *System) SetModel(id events.SessionID, name string) error {
	return b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Model = name
		return c
	}})
}

// CancelTurn cancels a turn and compares the receipt.
func (b *System) CancelTurn(id events.SessionID, turn events.TurnID, req api.CancelRequest, want api.CancelReceipt) api.CancelRequest {
	b.T.Helper()
	got, evidence, err := b.Cancel(b.Ctx, id, turn, req)
	runtest.WantError(b.T, "cancel", err, nil)
	runtest.Equal(b.T, "receipt", got, want)
	return evidence
}

// AllNotified reports whether a session is idle and has notified plugins of all its commits.
func AllNotified(s *projector.State) bool { return s.Idle() && len(s.Unnotified) == 0 }
