package playback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// Converter makes histories of recordings: it plays them through the runtime, on a server and a node of its own, whose store
// is temporary.
type Converter struct {
	dir    string
	server *busembed.Server
	buses  []*bus.Bus
	node   *workers.Node
	player *Player
}

// convertStop bounds how long the node may take to stop.
const convertStop = 5 * time.Second

// NewConverter starts a server and a node. The caller closes the converter. keys encrypt the histories; nil leaves them
// plain.
func NewConverter(ctx context.Context, keys *bodykey.Keys) (c *Converter, err error) {
	c = &Converter{}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.dir, err = os.MkdirTemp("", "lash-convert-"); err != nil {
		return c, err
	}
	if c.server, err = busembed.Start(busembed.Config{StoreDir: c.dir}); err != nil {
		return c, err
	}
	for range 2 {
		b, err := bus.Open(ctx, bus.Config{Options: []nats.Option{c.server.InProcess()}, Keys: keys})
		if err != nil {
			return c, err
		}
		c.buses = append(c.buses, b)
	}
	host, err := session.New(session.Config{Bus: c.buses[0], Actor: "import", Plugins: session.NoPlugins()})
	if err != nil {
		return c, err
	}
	c.player = NewPlayer(host)
	c.node, err = workers.NewNode(workers.Config{
		Bus: c.buses[1], Provider: "scripted", Tools: c.player.Tools, Providers: map[string]llm.Provider{"scripted": c.player.Provider()},
	})
	if err == nil {
		err = c.node.Start(ctx)
	}
	return c, err
}

// Close stops the node and the server, and removes the store.
func (c *Converter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), convertStop) // also after the caller's context has ended
	defer cancel()
	if c.node != nil {
		c.node.Stop(ctx)
	}
	for _, b := range c.buses {
		b.Close()
	}
	if c.server != nil {
		c.server.Stop()
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}

// Convert plays a plan and returns the history, which equals the recording.
func (c *Converter) Convert(ctx context.Context, plan *Plan) (*events.Archive, error) {
	if err := c.player.Add(plan); err != nil {
		return nil, err
	}
	if err := c.player.Play(ctx, plan, nil); err != nil {
		return nil, err
	}
	s, err := c.player.host.State(ctx, plan.Session)
	if err != nil {
		return nil, err
	}
	diff, err := Compare(ctx, c.buses[0], plan, s)
	if err = errors.Join(err, orNil(diff)); err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if _, err := archive.Write(ctx, c.buses[0].Log(), c.buses[0], plan.Session, &file); err != nil {
		return nil, err
	}
	a, err := events.ReadArchive(&file, math.MaxInt64)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", plan.Session, err)
	}
	return a, nil
}

// orNil is a difference as an error, nil for none.
func orNil(d *Difference) error {
	if d == nil {
		return nil
	}
	return d
}
