package system

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers"
)

// lossyConn is a connection that receives nothing after it has appended such an event, until it is released.
type faultsLossyConn struct {
	net.Conn
	kind       []byte
	discarding chan struct{} // closed: it is
	receiving  chan struct{} // closed: it receives again

	mu    sync.Mutex
	armed bool
}

func (d *faultsLossyConn) InProcessConn() (net.Conn, error) { return d, nil }

func (d *faultsLossyConn) arm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = true
}

func (d *faultsLossyConn) Write(data []byte) (int, error) {
	d.mu.Lock()
	if d.armed && bytes.Contains(data, d.kind) {
		d.armed = false
		close(d.discarding)
	}
	d.mu.Unlock()
	return d.Conn.Write(data)
}

func (d *faultsLossyConn) Read(data []byte) (int, error) {
	n, err := d.Conn.Read(data)
	select {
	case <-d.discarding:
		<-d.receiving
	default:
	}
	return n, err
}

// release lets it hear for ever.
func (d *faultsLossyConn) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = false
	select {
	case <-d.receiving:
	default:
		close(d.receiving)
	}
}

// openLossy opens a bus over such a connection, with a long timeout.
func faultsOpenLossy(t *testing.T, server *busembed.Server, kind string) (*bus.Bus, *faultsLossyConn) {
	t.Helper()
	var opts nats.Options
	runtest.NoError(t, server.InProcess()(&opts))
	inner, err := opts.InProcessServer.InProcessConn()
	runtest.NoError(t, err)
	d := &faultsLossyConn{Conn: inner, kind: []byte(kind), discarding: make(chan struct{}), receiving: make(chan struct{})}
	b, err := bus.Open(harness.Context(t), bus.Config{Timeout: time.Minute, Options: []nats.Option{nats.InProcessServer(d), nats.PingInterval(time.Minute)}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	t.Cleanup(d.release) // before the connection is closed
	return b, d
}

// TestLateAnswer delays the acknowledgement of an append that starts calls, until another worker has taken the
// turn over, run the calls and ended the turn. The first worker must not start the calls then.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	secondBus, wire := faultsOpenLossy(t, server, "tool.called")
	var journal bytes.Buffer // under the work's lock, and read when no node works any more
	work := &faultsWorkload{journal: &journal, block: func(_ context.Context, effect string) {
		if effect == "s00/t00/2/model" { // whose calls are of every sort
			wire.arm()
		}
	}}
	late := startWorkload(t, work, secondBus)
	b := bustest.Open(t, server)
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	driven := make(chan error, 1)
	go func() { driven <- drive(harness.Context(t), h, 1, 1) }() // ends with driven
	select {
	case <-wire.discarding:
	case err := <-driven:
		t.Fatalf("turn: got its end, %v, before an append that says that calls begin", err)
	}
	other := startWorkload(t, work, b)
	runtest.NoError(t, <-driven)
	wire.release()
	late.Stop(harness.Context(t)) // once it is done with the turn
	other.Stop(harness.Context(t))
	if sum := auditAll(t, b, 1, 1, journal.String()); sum.takeovers != 1 || sum.lost != 2 || sum.again != 0 {
		t.Errorf("got %+v, want one takeover, both calls lost that may not run twice, and nothing run again", sum)
	}
}

// startWorkload starts a node that ends with the test at the latest.
func startWorkload(t *testing.T, work *faultsWorkload, on *bus.Bus) *workers.Node {
	t.Helper()
	node, err := work.node(on)
	runtest.NoError(t, err)
	runtest.NoError(t, node.Start(t.Context()))
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
		cancel()
		node.Stop(now)
	})
	return node
}
