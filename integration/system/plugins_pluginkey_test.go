package system

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// countedState counts the requests of hosts, in a state that is recorded.
type countedState struct{ plugin.State[int] }

// countedProtocol counts extensions.
type countedProtocol struct {
	harness.Protocol
	n *countedState
}

func (p countedProtocol) ApplyExtension(context.Context, events.Extension) error {
	p.n.Update(func(n *int) { *n++ })
	return nil
}

func (p *countedState) Register(r *plugin.Registrar) error {
	r.Protocol(countedProtocol{n: p})
	r.Driver(harness.Protocol{})
	plugin.AddAction(r, plugin.ActionDef{Name: "note"}, func(context.Context, plugin.ActionContext, struct{}) (string, error) {
		p.Update(func(n *int) { *n++ })
		return "noted", nil
	})
	return nil
}

// TestPluginsAreCalledOncePerKey has two hosts call plugins for a change of their state, one after the other and at once,
// with the same key: the state changes once.
func TestPluginsAreCalledOncePerKey(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	factory := plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) { return &countedState{}, nil })
	hosts := make([]*session.Host, 2)
	for i := range hosts {
		builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{factory}})
		runtest.WantError(t, "plugins", err, nil)
		hosts[i], err = session.New(session.Config{Bus: bustest.Open(t, b.Server), Plugins: session.WithPlugins(builder)})
		runtest.WantError(t, "host", err, nil)
	}
	callers := map[string]struct {
		call     func(ctx context.Context, h *session.Host, id events.SessionID) error
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
	for name, a := range callers {
		t.Run(name, func(t *testing.T) {
			id := b.Open(api.CreateRequest{})
			keyed := func(key string) context.Context {
				return api.WithRequestMeta(b.Ctx, api.RequestMeta{Actor: "one", Key: key})
			}
			runtest.WantError(t, "first", a.call(keyed("k1"), hosts[0], id), nil)
			before := b.LastSeq(id)
			runtest.WantError(t, "again", a.call(keyed("k1"), hosts[1], id), a.repeated)
			runtest.Equal(t, "commits", b.LastSeq(id), before)
			runtest.Equal(t, "state", string(b.StateOf(id).Plugin(standard.ID).State), "1")

			errs := make([]error, 2)
			var callingPlugins sync.WaitGroup
			for i, h := range hosts {
				callingPlugins.Go(func() { errs[i] = a.call(keyed("k2"), h, id) })
			}
			callingPlugins.Wait()
			for _, err := range errs {
				if err != nil && !errors.Is(err, a.repeated) && !errors.Is(err, api.ErrStateMoved) {
					t.Errorf("at once: got %v", err)
				}
			}
			runtest.Equal(t, "state after both", string(b.StateOf(id).Plugin(standard.ID).State), "2")
			runtest.WantError(t, "without a key", a.call(b.Ctx, hosts[0], id), nil)
			runtest.Equal(t, "state without a key", string(b.StateOf(id).Plugin(standard.ID).State), "3")
			_, err := hosts[0].AppendNodes(b.Ctx, id, api.AppendNodesRequest{IdempotencyKey: "k1", Nodes: harness.UserMessages("x")})
			runtest.WantError(t, "the key in another request", err, api.ErrDifferent)
		})
	}
}
