package system

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// picky is the standard protocol, which refuses a node that says "no", and a turn that does.
type picky struct{ harness.Protocol }

func (picky) AppendNodes(_ context.Context, _ plugin.ProtocolSession, nodes []api.AppendNode) error {
	for _, n := range nodes {
		if n.Message != nil && n.Message.Text() == "no" {
			return errors.New("the protocol says no")
		}
	}
	return nil
}

// sessions is what a host and a client have in common, of the methods in which plugins decide.
type sessions interface {
	api.Service
	Actions(ctx context.Context, id events.SessionID) ([]plugin.ActionDef, error)
	InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (plugin.Result, error)
	Compact(ctx context.Context, id events.SessionID) (bool, error)
}

// pluginDecisions has every method of a host in which plugins decide before something is recorded, or that lists what
// they offer.
var pluginDecisions = map[string]func(ctx context.Context, h sessions, id events.SessionID) error{
	"Configure": func(ctx context.Context, h sessions, id events.SessionID) error {
		return h.Configure(ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Effort = "any"; return c }})
	},
	"AppendNodes": func(ctx context.Context, h sessions, id events.SessionID) error {
		_, err := h.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("yes")})
		return err
	},
	"Rewrite": func(ctx context.Context, h sessions, id events.SessionID) error {
		return h.Rewrite(ctx, id, []api.RewriteMessage{{Message: events.Message{ID: "m", Role: events.RoleUser, Parts: []events.Part{harness.Text("new")}}}})
	},
	"InvokeAction": func(ctx context.Context, h sessions, id events.SessionID) error {
		_, err := h.InvokeAction(ctx, id, "act", json.RawMessage(`{}`))
		return err
	},
	"Actions": func(ctx context.Context, h sessions, id events.SessionID) error {
		_, err := h.Actions(ctx, id)
		return err
	},
	"ApplyExtension": func(ctx context.Context, h sessions, id events.SessionID) error {
		return h.ApplyExtension(ctx, id, events.Extension{Type: "t", Body: []byte(`{}`)})
	},
	"Compact": func(ctx context.Context, h sessions, id events.SessionID) error {
		_, err := h.Compact(ctx, id)
		return err
	},
	"SetToolsAvailability": func(ctx context.Context, h sessions, id events.SessionID) error {
		_, err := h.SetToolsAvailability(ctx, id, []string{"tool"}, events.Overridden(events.AvailOff))
		return err
	},
	"ApplyToolState": func(ctx context.Context, h sessions, id events.SessionID) error {
		state, err := h.ToolState(ctx, id)
		if err == nil {
			_, err = h.ApplyToolState(ctx, id, state)
		}
		return err
	},
}

// opinionated is a node whose plugins decide in all of these methods.
func opinionated(t *testing.T) (*harness.System, events.SessionID) {
	t.Helper()
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("hi")))
	n, _ := b.StartNodeOn(bustest.Open(t, b.Server), harness.PluginOf("boss", func(r *plugin.Registrar) {
		r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
			now.Effort = "as the boss says"
			return now, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "tool"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
		plugin.AddAction(r, plugin.ActionDef{Name: "act"}, func(context.Context, plugin.ActionContext, struct{}) (string, error) { return "acted", nil })
	}), harness.PluginOf(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(picky{})
		r.Driver(harness.Protocol{})
	}))
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	return b, id
}

// TestHostWithoutPlugins calls on a host without plugins every method in which a session's plugins decide. The
// host refuses, and the history is unchanged; a client sends the request to a node.
func TestHostWithoutPlugins(t *testing.T) {
	t.Parallel()
	for name, call := range pluginDecisions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, id := opinionated(t)
			b.AwaitState(id, "rest", harness.AllNotified)
			without, err := session.New(session.Config{Bus: bustest.Open(t, b.Server)})
			runtest.WantError(t, "host", err, nil)
			before := b.LastSeq(id)
			err = call(b.Ctx, without, id)
			runtest.WantError(t, name, err, plugin.ErrUnavailable)
			if code, class := api.Code(err); class != api.ClassUnavailable {
				t.Errorf("got code %s of class %s, want unavailable", code, class)
			}
			runtest.Equal(t, "sequence", b.LastSeq(id), before)
			c, err := client.New(client.Config{Bus: bustest.Open(t, b.Server)})
			runtest.WantError(t, "client", err, nil)
			if err := call(b.Ctx, c, id); errors.Is(err, plugin.ErrUnavailable) && name != "Compact" { // there is no compactor
				t.Errorf("client: got %v, want what the nodes decide", err)
			}
		})
	}
}

// TestNodesDecide has a client, which has no plugins, send these requests: the node's plugins decide.
func TestNodesDecide(t *testing.T) {
	t.Parallel()
	b, id := opinionated(t)
	c, err := client.New(client.Config{Bus: bustest.Open(t, b.Server)})
	runtest.WantError(t, "client", err, nil)
	runtest.WantError(t, "configure", pluginDecisions["Configure"](b.Ctx, c, id), nil)
	runtest.Equal(t, "effort", b.StateOf(id).Config.Effort, "as the boss says")
	_, err = c.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("no")})
	if err == nil {
		t.Error("append: got nil, want what the protocol says")
	}
}
