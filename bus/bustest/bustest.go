// Package bustest gives each test its own JetStream, or a cluster of three, and breaks connections to it.
package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
)

// Start boots a server and opens a bus on it, in process. Both end with the test.
func Start(tb testing.TB) *bus.Bus {
	tb.Helper()
	return Open(tb, Server(tb, busembed.Config{}))
}

// Server boots a server that ends with the test.
func Server(tb testing.TB, cfg busembed.Config) *busembed.Server {
	tb.Helper()
	if cfg.StoreDir == "" {
		cfg.StoreDir = storeDir(tb)
	}
	s, err := busembed.Start(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// Open opens another bus on the same server, as another process would.
func Open(tb testing.TB, s *busembed.Server) *bus.Bus {
	tb.Helper()
	return open(tb, bus.Config{Options: []nats.Option{s.InProcess()}})
}

func open(tb testing.TB, cfg bus.Config) *bus.Bus {
	tb.Helper()
	b, err := bus.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	return b
}

// Cluster is three servers that replicate everything.
type Cluster struct {
	Servers []*busembed.Server
	URL     string // of all three
}

// StartCluster boots three servers on loopback ports. They end with the test.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	servers, err := busembed.StartCluster(storeDir(tb))
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range servers {
		tb.Cleanup(s.Stop)
	}
	return &Cluster{Servers: servers, URL: busembed.URLs(servers)}
}

// Open opens a bus with three replicas.
func (c *Cluster) Open(tb testing.TB) *bus.Bus {
	tb.Helper()
	return open(tb, bus.Config{URL: c.URL, Replicas: 3})
}
