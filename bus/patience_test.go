package bus_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// dialer counts connections.
type dialer struct{ n atomic.Int64 }

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.n.Add(1)
	return net.Dial(network, address)
}

// TestRefusedUserComesBack has a server refuse the user of an open bus several times, and then take it again: the bus works, and the handler
// of errors got one refusal.
func TestRefusedUserComesBack(t *testing.T) {
	t.Parallel()
	options := func(password string) *server.Options {
		return &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, Username: "node", Password: password}
	}
	good := options("right")
	s, err := server.NewServer(good)
	runtest.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	bustest.Eventually(t, "the server listens", func() bool { return s.Addr() != nil })
	var dials dialer
	var refusals atomic.Int64
	b, err := bus.Open(t.Context(), bus.Config{URL: s.ClientURL(), Options: []nats.Option{
		nats.UserInfo("node", "right"), nats.SetCustomDialer(&dials),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrAuthorization) {
				refusals.Add(1)
			}
		}),
	}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	reload := func(password string) {
		changed := good.Clone()
		changed.Password = password
		runtest.NoError(t, s.ReloadOptions(changed))
	}
	before := dials.n.Load()
	reload("another")
	bustest.Eventually(t, "five refusals", func() bool { return dials.n.Load() >= before+5 })
	reload("right")
	bustest.Eventually(t, "the bus is back", b.Connected)
	if b.Closed() || refusals.Load() == 0 || refusals.Load() > 2 { // one for each of its connections
		t.Errorf("got closed %t and %d refusals, want an open connection and one told", b.Closed(), refusals.Load())
	}
}

// TestMaxHotOfAccount has an account with fewer streams than the configuration allows: the limit is the account's.
func TestMaxHotOfAccount(t *testing.T) {
	t.Parallel()
	s := limitedServer(t, 14)
	b, err := bus.Open(t.Context(), bus.Config{URL: s.ClientURL(), Options: []nats.Option{nats.UserInfo("node", "right")}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	room, limit := b.Room(t.Context())
	if b.MaxHot() != 14 || limit != 14 || room < 1 || room > 13 {
		t.Errorf("got %d, %d and room for %d, want the 14 of the account", b.MaxHot(), limit, room)
	}
}

// limitedServer is a server with an account that may have some streams.
func limitedServer(t *testing.T, streams int) *server.Server {
	t.Helper()
	nodes := server.NewAccount("nodes")
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Accounts: []*server.Account{nodes}, Users: []*server.User{{Username: "node", Password: "right", Account: nodes}},
	})
	runtest.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	bustest.Eventually(t, "the server listens", func() bool { return s.Addr() != nil })
	account, err := s.LookupAccount("nodes")
	runtest.NoError(t, err)
	limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: streams, MaxConsumers: -1}
	runtest.NoError(t, account.EnableJetStream(map[string]server.JetStreamAccountLimits{"": limits}, nil))
	return s
}
