package integration

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// notedState counts what hosts ask of it, in a state that is recorded.
type notedState struct{ plugin.State[int] }

// notedProtocol counts extensions.
type notedProtocol struct {
	protocol
	n *notedState
}

func (p notedProtocol) ApplyExtension(context.Context, events.Extension) error {
	p.n.Update(func(n *int) { *n++ })
	return nil
}

func (p *notedState) Register(r *plugin.Registrar) error {
	r.Protocol(notedProtocol{n: p})
	r.Driver(protocol{})
	plugin.AddAction(r, plugin.ActionDef{Name: "note"}, func(context.Context, plugin.ActionContext, struct{}) (string, error) {
		p.Update(func(n *int) { *n++ })
		return "noted", nil
	})
	return nil
}

// TestPluginsAskedOnce has two hosts ask plugins for what changes their state,
// one after the other and at once, with the same key: the state changes once.
func TestPluginsAskedOnce(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	factory := plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) { return &notedState{}, nil })
	hosts := make([]*session.Host, 2)
	for i := range hosts {
		stack, err := plugin.NewHost(plugin.HostConfig{Factories: []plugin.Factory{factory}})
		must(t, "plugins", err, nil)
		hosts[i], err = session.New(session.Config{Bus: bustest.Open(t, b.server), Plugins: stack})
		must(t, "host", err, nil)
	}
	asks := map[string]struct {
		ask      func(ctx context.Context, h *session.Host, id events.SessionID) error
		repeated error
	}{
		"extension": {func(ctx context.Context, h *session.Host, id events.SessionID) error {
			return h.ApplyExtension(ctx, id, events.Extension{Type: "x"})
		}, nil},
		"action": {func(ctx context.Context, h *session.Host, id events.SessionID) error {
			_, err := h.InvokeAction(ctx, id, "note", []byte("{}"))
			return err
		}, events.ErrOutcomeUnknown},
	}
	for name, a := range asks {
		t.Run(name, func(t *testing.T) {
			id := b.open(api.CreateRequest{})
			keyed := func(key string) context.Context {
				return api.WithAsked(b.ctx, api.Asked{Actor: "one", Key: key})
			}
			must(t, "first", a.ask(keyed("k1"), hosts[0], id), nil)
			before := b.last(id)
			must(t, "again", a.ask(keyed("k1"), hosts[1], id), a.repeated)
			equal(t, "commits", b.last(id), before)
			equal(t, "state", string(b.state(id).Plugin(standard.ID).State), "1")

			errs := make([]error, 2)
			var asking sync.WaitGroup
			for i, h := range hosts {
				asking.Go(func() { errs[i] = a.ask(keyed("k2"), h, id) })
			}
			asking.Wait()
			for _, err := range errs {
				if err != nil && !errors.Is(err, a.repeated) && !errors.Is(err, plugin.ErrStateMoved) {
					t.Errorf("at once: got %v", err)
				}
			}
			equal(t, "state after both", string(b.state(id).Plugin(standard.ID).State), "2")
			must(t, "without a key", a.ask(b.ctx, hosts[0], id), nil)
			equal(t, "state without a key", string(b.state(id).Plugin(standard.ID).State), "3")
			_, err := hosts[0].AppendNodes(b.ctx, id, api.AppendNodesRequest{IdempotencyKey: "k1", Nodes: says("x")})
			must(t, "the key in another request", err, api.ErrDifferent)
		})
	}
}
