package bustest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
)

// wire is a connection that breaks at its k-th write: before it, or after it
// when the request arrives and its answer does not.
type wire struct {
	net.Conn
	mu   sync.Mutex
	left int // writes until it breaks; 0 never does
	late bool
	cut  func()
}

var errCut = errors.New("the wire was cut")

func (w *wire) arm(left int, late bool, cut func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.late, w.cut = left, late, cut
}

func (w *wire) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		return w.Conn.Write(data)
	}
	if w.left--; w.left > 0 {
		return w.Conn.Write(data)
	}
	w.left = 1 // every write from here on
	w.cut()
	if w.late {
		w.late = false
		_, _ = w.Conn.Write(data)
	}
	_ = w.Close()
	return 0, errCut
}

// InProcessConn implements [nats.InProcessConnProvider]: there is one connection and never another.
func (w *wire) InProcessConn() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left > 0 {
		return nil, errCut
	}
	return w, nil
}

// openWire opens a bus whose wire can be cut.
func openWire(tb testing.TB, server *busembed.Server) (*bus.Bus, *wire) {
	tb.Helper()
	var opts nats.Options
	if err := server.InProcess()(&opts); err != nil {
		tb.Fatal(err)
	}
	inner, err := opts.InProcessServer.InProcessConn()
	if err != nil {
		tb.Fatal(err)
	}
	w := &wire{Conn: inner}
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	return open(tb, bus.Config{Options: []nats.Option{nats.InProcessServer(w), silent}}), w
}

// KilledAt does work on a bus of its own whose wire is cut at its k-th write:
// before the request arrives, or after it where late. ctx ends with the cut.
// It reports whether the work was done before that many.
func KilledAt(tb testing.TB, server *busembed.Server, k int, late bool, work func(ctx context.Context, victim *bus.Bus) error) (finished bool) {
	tb.Helper()
	victim, w := openWire(tb, server)
	defer victim.Close()
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	w.arm(k, late, cancel)
	err := work(ctx, victim)
	if err == nil && ctx.Err() == nil {
		return true
	}
	if err == nil {
		tb.Errorf("killed at request %d: got no error", k) // the last request is answered before it returns
	}
	return false
}
