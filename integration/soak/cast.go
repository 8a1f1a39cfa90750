package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/playback"
)

// CastSpec is the common part of the [Spec] of a node and of a process of the plugin.
type CastSpec struct {
	ID       events.WorkerID `json:"id"` // of this process: a worker, or an instance of the plugin
	URL      string          `json:"url"`
	Replicas int             `json:"replicas"`
	Chats    []string        `json:"chats"`
	Ledger   string          `json:"ledger"`
	Think    time.Duration   `json:"think"` // a model call takes 0.5 to 1.5 times this, a tool a third of that
}

// cast has the models and tools of a process.
type cast struct {
	spec    *CastSpec
	ctx     context.Context //nolint:containedctx // of the process
	bus     *bus.Bus
	chats   *chats
	host    *session.Host
	player  *playback.Player
	ledger  *os.File
	log     *zap.Logger
	cancels sync.WaitGroup

	mu    sync.Mutex
	added map[events.SessionID]bool
}

// open connects the process. The caller closes the cast.
func (s *CastSpec) open(ctx context.Context) (*cast, error) {
	log, err := zap.NewProduction()
	if err != nil {
		return nil, err
	}
	c := &cast{spec: s, ctx: ctx, log: log, added: make(map[events.SessionID]bool)}
	if c.chats, err = readChats(s.Chats); err != nil {
		return nil, err
	}
	if c.ledger, err = os.OpenFile(s.Ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if c.bus, err = openBus(ctx, s.URL, s.Replicas, log); err != nil {
		return nil, errors.Join(err, c.ledger.Close())
	}
	if c.host, err = session.New(session.Config{Bus: c.bus, Actor: "soak", Plugins: session.NoPlugins()}); err != nil {
		c.close()
		return nil, err
	}
	c.player = playback.NewPlayer(c.host)
	c.player.Watch(playback.Watch{
		Asked: c.recordCall, Hung: c.hung,
		Effects: func(_ *playback.Plan, tool string) events.Effects { return c.chats.effects(tool) },
	})
	return c, nil
}

func (c *cast) close() {
	c.cancels.Wait()
	c.bus.Close()
	_ = c.ledger.Close() // it is only appended to
}

// openBus connects through links only. It ignores the addresses that servers announce, because those bypass the links.
func openBus(ctx context.Context, url string, replicas int, log *zap.Logger) (*bus.Bus, error) {
	return bus.Open(ctx, bus.Config{
		URL: url, Replicas: replicas, Logger: log,
		Options: []nats.Option{nats.IgnoreDiscoveredServers(), nats.RetryOnFailedConnect(true)},
	})
}

// tools are the tools of a session. The process requests them before the model.
func (c *cast) tools(id events.SessionID) *plugin.Tools {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.added[id] {
		plan, err := c.chats.plan(id)
		if err == nil {
			err = c.player.Add(plan)
		}
		if err != nil {
			c.log.Error("plan", zap.String("session", string(id)), zap.Error(err))
		}
		c.added[id] = true
	}
	return c.player.Tools(id)
}

// recordCall writes a line to the ledger, and then waits for the duration of the effect.
func (c *cast) recordCall(ctx context.Context, id events.SessionID, effect events.EffectID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	line := entry{Session: id, Effect: effect, Worker: c.spec.ID, At: time.Now().UnixMilli()}
	if _, err := c.ledger.WriteString(line.String()); err != nil {
		return err
	}
	took := c.spec.Think/2 + time.Duration(hash(string(id)+string(effect)))%max(c.spec.Think, 1)
	if !strings.HasSuffix(string(effect), "/model") {
		took /= 3
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hung cancels the turn, as the client in the recording did.
func (c *cast) hung(id events.SessionID, turn events.TurnID) {
	c.cancels.Go(func() {
		for c.ctx.Err() == nil {
			_, _, err := c.host.Cancel(c.ctx, id, turn, api.CancelRequest{ID: "abort-" + string(turn), Origin: "recording"})
			if err == nil || !errors.Is(err, events.ErrOutcomeUnknown) {
				return
			}
		}
	})
}
