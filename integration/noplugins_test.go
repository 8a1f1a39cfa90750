package integration

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// picky is the standard protocol, which takes no node that says "no", and no turn either.
type picky struct{ protocol }

func (picky) AppendNodes(_ context.Context, _ plugin.ProtocolSession, nodes []api.AppendNode) error {
	for _, n := range nodes {
		if n.Message != nil && n.Message.Text() == "no" {
			return errors.New("the protocol says no")
		}
	}
	return nil
}

// sessions is what a host and a client have in common in which plugins have a say.
type sessions interface {
	api.Service
	Actions(ctx context.Context, id events.SessionID) ([]plugin.ActionDef, error)
	InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (plugin.Result, error)
	Compact(ctx context.Context, id events.SessionID) (bool, error)
}

// haveASay is every method of a host in which plugins have a say before something is recorded, or that lists what they offer.
var haveASay = map[string]func(ctx context.Context, h sessions, id events.SessionID) error{
	"Configure": func(ctx context.Context, h sessions, id events.SessionID) error {
		return h.Configure(ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Effort = "any"; return c }})
	},
	"AppendNodes": func(ctx context.Context, h sessions, id events.SessionID) error {
		_, err := h.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: says("yes")})
		return err
	},
	"Rewrite": func(ctx context.Context, h sessions, id events.SessionID) error {
		return h.Rewrite(ctx, id, []api.RewriteMessage{{Message: events.Message{ID: "m", Role: events.RoleUser, Parts: []events.Part{text("new")}}}})
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

// opinionated is a node whose plugins have a say in everything.
func opinionated(t *testing.T) (*bundle, events.SessionID) {
	t.Helper()
	b := setupIdle(t, reply(text("hi")), reply(text("hi")))
	n, _ := b.nodeOn(bustest.Open(t, b.server), declares("boss", func(r *plugin.Registrar) {
		r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
			now.Effort = "as the boss says"
			return now, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "tool"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
		plugin.AddAction(r, plugin.ActionDef{Name: "act"}, func(context.Context, plugin.ActionContext, struct{}) (string, error) { return "acted", nil })
	}), declares(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(picky{})
		r.Driver(protocol{})
	}))
	b.Host = n.Host()
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	return b, id
}

// TestHostWithoutPlugins has a host without plugins be asked for everything in
// which a session's plugins have a say. It refuses, and the history stays as it is; a client has nodes decide.
func TestHostWithoutPlugins(t *testing.T) {
	t.Parallel()
	for name, ask := range haveASay {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, id := opinionated(t)
			b.await(id, "rest", toldAll)
			without, err := session.New(session.Config{Bus: bustest.Open(t, b.server)})
			must(t, "host", err, nil)
			before := b.last(id)
			err = ask(b.ctx, without, id)
			must(t, name, err, plugin.ErrUnavailable)
			if code, class := api.Code(err); class != api.ClassUnavailable {
				t.Errorf("got code %s of class %s, want unavailable", code, class)
			}
			equal(t, "sequence", b.last(id), before)
			c, err := client.New(client.Config{Bus: bustest.Open(t, b.server)})
			must(t, "client", err, nil)
			if err := ask(b.ctx, c, id); errors.Is(err, plugin.ErrUnavailable) && name != "Compact" { // there is no compactor
				t.Errorf("client: got %v, want what the nodes decide", err)
			}
		})
	}
}

// TestNodesDecide has a client ask, which has no plugins either: what these have a say in is as they say.
func TestNodesDecide(t *testing.T) {
	t.Parallel()
	b, id := opinionated(t)
	c, err := client.New(client.Config{Bus: bustest.Open(t, b.server)})
	must(t, "client", err, nil)
	must(t, "configure", haveASay["Configure"](b.ctx, c, id), nil)
	equal(t, "effort", b.state(id).Config.Effort, "as the boss says")
	_, err = c.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("no")})
	if err == nil {
		t.Error("append: got nil, want what the protocol says")
	}
}
