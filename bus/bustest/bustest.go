// Package bustest gives tests a real JetStream of their own.
package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
)

// Start boots a server in the test's directory and opens a bus on it, in
// process. Both end with the test.
func Start(t testing.TB) *bus.Bus {
	t.Helper()
	return Open(t, Server(t, busembed.Config{}))
}

// Server boots a server that ends with the test.
func Server(t testing.TB, cfg busembed.Config) *busembed.Server {
	t.Helper()
	if cfg.StoreDir == "" {
		cfg.StoreDir = t.TempDir()
	}
	s, err := busembed.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Open opens another bus on the same server, as another process would.
func Open(t testing.TB, s *busembed.Server) *bus.Bus {
	t.Helper()
	return open(t, bus.Config{Options: []nats.Option{s.InProcess()}})
}

func open(t testing.TB, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Cluster is three servers that replicate everything.
type Cluster struct {
	Servers []*busembed.Server
	URL     string // of all three
}

// StartCluster boots three servers on loopback ports. They end with the test.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	servers, err := busembed.StartCluster(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(s.Stop)
	}
	return &Cluster{Servers: servers, URL: busembed.URLs(servers)}
}

// Open opens a bus with three replicas.
func (c *Cluster) Open(t testing.TB) *bus.Bus {
	t.Helper()
	return open(t, bus.Config{URL: c.URL, Replicas: 3})
}
