// Package bustest gives each test its own JetStream, or a cluster of three, and breaks connections to it.
package bustest

import (
	"cmp"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/internal/runtest"
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
	runtest.NoError(tb, err)
	tb.Cleanup(s.Stop)
	return s
}

// Open opens another bus on the same server, as another process would.
func Open(tb testing.TB, s *busembed.Server) *bus.Bus {
	tb.Helper()
	return open(tb, bus.Config{Options: []nats.Option{s.InProcess()}})
}

// requestLimit bounds a request to a server that shares its processors with many tests.
const requestLimit = 30 * time.Second

func open(tb testing.TB, cfg bus.Config) *bus.Bus {
	tb.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, requestLimit)
	b, err := bus.Open(tb.Context(), WithKeys(tb, cfg))
	runtest.NoError(tb, err)
	tb.Cleanup(b.Close)
	return b
}

// EncryptedFile names the file with the keys of bodies of a run whose every bus has keys. It is for the tests of turns,
// histories, clients, plugins and the catalogue in integration, which read nothing as it is stored.
func EncryptedFile() string { return os.Getenv("LASH_TEST_BODIES_KEY") } //nolint:forbidigo // a switch of tests

// Encrypted reports whether every bus of this run has [Keys]: LASH_TEST_BODIES_KEY names a file of them.
func Encrypted() bool { return EncryptedFile() != "" }

// WithKeys adds [Keys] to a configuration without keys, if every bus of this run has them.
func WithKeys(tb testing.TB, cfg bus.Config) bus.Config {
	tb.Helper()
	if cfg.Keys == nil && Encrypted() {
		cfg.Keys = Keys(tb)
	}
	return cfg
}

// Keys are the keys of bodies that all tests of a process share.
func Keys(tb testing.TB) *bodykey.Keys {
	tb.Helper()
	keys, err := sharedKeys()
	runtest.NoError(tb, err)
	return keys
}

var sharedKeys = sync.OnceValues(func() (*bodykey.Keys, error) {
	if !Encrypted() {
		return bodykey.New()
	}
	text, err := os.ReadFile(EncryptedFile())
	if err != nil {
		return nil, err
	}
	return bodykey.Parse(text)
})

// Cluster is three servers that replicate everything.
type Cluster struct {
	Servers []*busembed.Server
	URL     string // of all three
}

// StartCluster boots three servers on loopback ports. They end with the test.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	servers, err := busembed.StartCluster(storeDir(tb))
	runtest.NoError(tb, err)
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

// OpenWith is [Open] with keys of bodies.
func OpenWith(tb testing.TB, s *busembed.Server, keys *bodykey.Keys) *bus.Bus {
	tb.Helper()
	return open(tb, bus.Config{Options: []nats.Option{s.InProcess()}, Keys: keys})
}
