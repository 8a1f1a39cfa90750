package bustest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// Store is a server whose store can be put back to an earlier copy, as an operator restores a backup.
type Store struct {
	tb     testing.TB
	cfg    busembed.Config
	server *busembed.Server
}

// StartStore boots the server. It ends with the test.
func StartStore(tb testing.TB) *Store {
	tb.Helper()
	ports, err := busembed.FreePorts(1)
	runtest.NoError(tb, err)
	s := &Store{tb: tb, cfg: busembed.Config{StoreDir: filepath.Join(storeDir(tb), "store"), Listen: true, Port: ports[0]}}
	s.server = Server(tb, s.cfg)
	return s
}

// Open opens a bus, which connects again after [Store.Save] and [Store.Restore].
func (s *Store) Open(options ...nats.Option) *bus.Bus {
	s.tb.Helper()
	return s.OpenWith(bus.Config{Options: options})
}

// OpenWith is [Store.Open] with settings.
func (s *Store) OpenWith(cfg bus.Config) *bus.Bus {
	s.tb.Helper()
	cfg.URL = s.server.URL()
	return open(s.tb, cfg)
}

// Save copies the store, of a server that is stopped and started again. The buses are connected again then.
func (s *Store) Save(buses ...*bus.Bus) {
	s.tb.Helper()
	s.restart(buses, func() error { return os.CopyFS(s.cfg.StoreDir+".copy", os.DirFS(s.cfg.StoreDir)) })
}

// Restore puts the copy back, once.
func (s *Store) Restore(buses ...*bus.Bus) {
	s.tb.Helper()
	s.restart(buses, func() error {
		if err := os.RemoveAll(s.cfg.StoreDir); err != nil {
			return err
		}
		return os.Rename(s.cfg.StoreDir+".copy", s.cfg.StoreDir)
	})
}

func (s *Store) restart(buses []*bus.Bus, stopped func() error) {
	s.tb.Helper()
	before := make([]uint64, len(buses))
	for i, b := range buses {
		before[i] = b.Reconnects()
	}
	s.server.Stop()
	if err := stopped(); err != nil {
		s.tb.Fatal(err)
	}
	s.server = Server(s.tb, s.cfg)
	for i, b := range buses {
		Eventually(s.tb, "the bus is connected again", func() bool { return b.Reconnects() > before[i] && b.Conn().IsConnected() })
	}
}

// Gate is a dialer that refuses new connections while it is closed. It is open at first.
type Gate struct{ closed atomic.Bool }

var errGateClosed = errors.New("the gate is closed")

// Option has a bus dial through the gate.
func (g *Gate) Option() nats.Option { return nats.SetCustomDialer(g) }

// Close closes the gate until open is called. Clients that have no connection then try again and again.
func (g *Gate) Close() (open func()) {
	g.closed.Store(true)
	return func() { g.closed.Store(false) }
}

// Dial implements [nats.CustomDialer].
func (g *Gate) Dial(network, address string) (net.Conn, error) {
	if g.closed.Load() {
		return nil, errGateClosed
	}
	return net.Dial(network, address) //nolint:noctx // the interface has no context
}

// Write appends n commits to a session after a sequence. The id of each is the prefix with its sequence: no two prefixes give equal states.
func Write(tb testing.TB, b *bus.Bus, id events.SessionID, after events.Seq, n int, prefix string) {
	tb.Helper()
	for at := after; at < after+events.Seq(n); at++ {
		list := []events.Event{events.Of("", &events.SessionConfigured{})}
		if at == 0 {
			list = []events.Event{events.Of("", &events.SessionOpened{})}
		}
		c := &events.Commit{
			ID: events.CommitID(fmt.Sprint(prefix, "-", at+1)), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: list,
		}
		if _, err := b.Log().Append(tb.Context(), c, at); err != nil {
			tb.Fatal(err)
		}
	}
}
