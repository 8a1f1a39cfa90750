package harness

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// Dial is a client on a connection of its own.
func (f *Fleet) Dial() *client.Client {
	f.T.Helper()
	return Dial(f.T, OpenReader(f.T, bus.Config{Options: []nats.Option{f.Server.InProcess()}}))
}

// Fleet is a system with several nodes, whose model records the session of each call.
type Fleet struct {
	*System
	Mu        sync.Mutex
	Requested []events.SessionID // one for each call, over all nodes
	Reply     Step               // instead of "ok"; may be nil
}

// StartFleet starts a fleet without nodes.
func StartFleet(t *testing.T) *Fleet {
	t.Helper()
	return &Fleet{System: StartIdle(t)}
}

// ModelCall is the [scripted.Script] of the model.
func (f *Fleet) ModelCall(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	f.Mu.Lock()
	f.Requested = append(f.Requested, req.Session)
	f.Mu.Unlock()
	if f.Reply != nil {
		return f.Reply(ctx, req)
	}
	return Reply(Text("ok"))(ctx, req)
}

// Join starts a node on a connection of its own that ends with the test.
func (f *Fleet) Join(cfg workers.Config) *workers.Node {
	f.T.Helper()
	return f.JoinOn(bustest.Open(f.T, f.Server), cfg)
}

// JoinOn is [Fleet.Join] on a connection.
func (f *Fleet) JoinOn(on *bus.Bus, cfg workers.Config) *workers.Node {
	f.T.Helper()
	cfg.Bus, cfg.Providers, cfg.Provider = on, map[string]llm.Provider{"scripted": scripted.New(f.ModelCall)}, "scripted"
	n, err := workers.NewNode(cfg)
	runtest.WantError(f.T, "node", err, nil)
	runtest.WantError(f.T, "start", n.Start(f.Ctx), nil)
	f.T.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's context has ended
		cancel()
		n.Stop(now)
	})
	return n
}
