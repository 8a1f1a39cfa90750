package external

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

// nodeOf starts a node with external plugins of these names, and with plugins of its own before and after them.
func (s *setting) nodeOf(names []string, own ...plugin.Factory) (p *external.Plugins, kill func()) {
	s.T.Helper()
	var list []external.Plugin
	for _, name := range names {
		list = append(list, external.Plugin{Name: name, ChangesOthers: s.changesOthers})
	}
	on := s.on.open(s.T)
	p, err := external.New(external.Config{Bus: on, Plugins: list})
	runtest.WantError(s.T, "plugins", err, nil)
	runtest.WantError(s.T, "start", p.Start(s.Ctx), nil)
	s.T.Cleanup(p.Stop)
	n, kill := s.StartNodeOn(on, slices.Concat(own, p.Factories(), s.after)...)
	s.Host = n.Host()
	s.first = p
	return p, kill
}

// known waits until a node knows n instances of a plugin that have its manifest.
func (s *setting) known(p *external.Plugins, name string, n int) {
	s.T.Helper()
	s.AwaitPolling("an instance of "+name, func() bool {
		for _, status := range p.Status() {
			if status.Name != name {
				continue
			}
			current := 0
			for _, i := range status.Instances {
				if i.Current {
					current++
				}
			}
			return current == n
		}
		return false
	})
}

// instance runs the only instance of a plugin of the SDK on a connection of its own, until kill closes that.
func (s *setting) instance(cfg remote.Config) (i *remote.Instance, kill func()) {
	s.T.Helper()
	return s.instanceOf(cfg, 1)
}

// instanceOf runs one more instance of a plugin, so that n of them live.
func (s *setting) instanceOf(cfg remote.Config, n int) (i *remote.Instance, kill func()) {
	s.T.Helper()
	conn, err := nats.Connect(s.on.url)
	runtest.WantError(s.T, "connect", err, nil)
	cfg.Conn, cfg.Prefix = conn, s.on.prefix
	if cfg.Version == "" {
		cfg.Version = "1"
	}
	i, err = remote.Start(s.Ctx, cfg)
	runtest.WantError(s.T, "start "+cfg.Plugin.ID(), err, nil)
	kill = sync.OnceFunc(func() {
		conn.Close()
		_ = i.Stop(s.Ctx) // on a closed connection
	})
	s.T.Cleanup(kill)
	s.known(s.first, cfg.Plugin.ID(), n)
	return i, kill
}

// bare is an instance of a plugin that has no SDK. It records the requests for its hooks.
type bare struct {
	mu    sync.Mutex
	calls []wire.HookCall
}

func (b *bare) requests() []wire.HookCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// hooks are the names of the hooks that were called, in order.
func (b *bare) hooks() (names []string) {
	for _, in := range b.requests() {
		names = append(names, in.Hook)
	}
	return names
}

// bare registers a manifest and lives until the test ends. answer runs in a goroutine for each request for a hook; nil
// sends no answer, and []byte is sent as it is.
func (s *setting) bare(name string, m wire.Manifest, answer func(in wire.HookCall) any) *bare {
	s.T.Helper()
	c := s.client()
	if m.Version == "" {
		m.Version = "1"
	}
	if got := c.request(name, "register", &wire.Registration{Protocol: wire.Version, Instance: "b1", Manifest: m}); got.Error != nil {
		s.T.Fatalf("register %s: %+v", name, got.Error)
	}
	b := &bare{}
	_, err := c.nc.Subscribe(c.prefix+".plugin."+name+".b1.hook", func(msg *nats.Msg) {
		var in wire.HookCall
		runtest.WantError(s.T, "request for a hook", json.Unmarshal(msg.Data, &in), nil)
		b.mu.Lock()
		b.calls = append(b.calls, in)
		b.mu.Unlock()
		go func() { // ends with the answer
			out := answer(in)
			data, raw := out.([]byte)
			if !raw {
				data, _ = json.Marshal(out)
			}
			if out != nil {
				_ = msg.Respond(data)
			}
		}()
	})
	runtest.WantError(s.T, "subscribe", err, nil)
	s.signing(c, name, "b1", m.Hash())
	s.known(s.first, name, 1)
	return b
}

// signing sends the signs of life of an instance until stop, or the end of the test.
func (s *setting) signing(c *client, name, instance, hash string) (stop func()) {
	s.T.Helper()
	sign, err := json.Marshal(&wire.Sign{Hash: hash})
	runtest.WantError(s.T, "sign", err, nil)
	done := make(chan struct{})
	stop = sync.OnceFunc(func() { close(done) })
	var signs sync.WaitGroup
	signs.Go(func() {
		every := time.NewTicker(wire.SignEvery)
		defer every.Stop()
		for {
			_ = c.nc.Publish(c.prefix+".plugin-live."+name+"."+instance, sign)
			select {
			case <-done:
				return
			case <-every.C:
			}
		}
	})
	s.T.Cleanup(func() { stop(); signs.Wait() })
	return stop
}

// turn runs a turn of a new session.
func (s *setting) turn() events.SessionID {
	s.T.Helper()
	id := s.Open(api.CreateRequest{})
	s.RunTurn(id, "t1", harness.Text("go"))
	return id
}

// nothing is the answer of a hook that directs nothing.
func nothing(wire.HookCall) any { return wire.HookResult{} }

func directs(list ...wire.Directive) wire.HookResult { return wire.HookResult{Directives: list} }

func says(text string) wire.Directive {
	return wire.Directive{Kind: events.DirectiveEnqueue, Messages: []wire.Said{{Role: events.RoleSystem, Text: text}}}
}

// pending is the number of stored events for plugins. The first one makes their stream.
func (s *setting) pending(t *testing.T) uint64 {
	t.Helper()
	js, err := jetstream.New(s.Bus.Conn())
	runtest.WantError(t, "jetstream", err, nil)
	stream, err := js.Stream(s.Ctx, s.on.prefix+"-plugin-events")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0
	}
	runtest.WantError(t, "stream", err, nil)
	return stream.CachedInfo().State.Msgs
}
