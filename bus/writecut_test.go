package bus_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// writeCut makes connections of a server, over TCP or in the process, that break once they have written a number of bytes together.
type writeCut struct {
	pipes nats.InProcessConnProvider
	left  atomic.Int64 // bytes up to the next break
	cuts  atomic.Int64
}

func (w *writeCut) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &writeCutConn{c, w}, err
}

func (w *writeCut) InProcessConn() (net.Conn, error) {
	c, err := w.pipes.InProcessConn()
	return &writeCutConn{c, w}, err
}

type writeCutConn struct {
	net.Conn
	w *writeCut
}

func (c *writeCutConn) Write(p []byte) (int, error) {
	before := c.w.left.Add(-int64(len(p))) + int64(len(p))
	if before <= 0 || before > int64(len(p)) {
		return c.Conn.Write(p)
	}
	c.w.cuts.Add(1)
	n, err := c.Conn.Write(p[:before])
	if err != nil {
		return n, err
	}
	_ = c.Close()
	more, err := c.Conn.Write(p[before:])
	return n + more, err
}

// TestWriteCut breaks connections in the middle of writes that are larger than the client's buffer, so that the request gets the error of the
// connection. Every body is stored, and every commit once.
func TestWriteCut(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	for name, option := range map[string]func(*writeCut) []nats.Option{
		"tcp":        func(w *writeCut) []nats.Option { return []nats.Option{nats.SetCustomDialer(w)} },
		"in_process": func(w *writeCut) []nats.Option { return []nats.Option{nats.InProcessServer(w)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts nats.Options
			runtest.NoError(t, server.InProcess()(&opts))
			w := &writeCut{pipes: opts.InProcessServer}
			silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
			b, err := bus.Open(t.Context(), bus.Config{URL: server.URL(), Timeout: 200 * time.Millisecond, Options: append(option(w), silent, nats.Timeout(time.Minute))})
			runtest.NoError(t, err)
			t.Cleanup(b.Close)
			id, rnd := events.SessionID("s-"+name), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable cases
			const size, tries = 200 << 10, 6
			for i := range tries {
				body := bytes.Repeat(fmt.Appendf(nil, "%s-%03d ", name, i), size/8)
				w.left.Store(1 + rnd.Int64N(size))
				ref, err := b.PutBlob(t.Context(), body)
				if err != nil {
					t.Fatalf("body %d: %v", i, err)
				}
				if got, err := b.Blob(t.Context(), ref); err != nil || !bytes.Equal(got, body) {
					t.Errorf("body %d: got %d bytes, %v, want %d", i, len(got), err, len(body))
				}
				c := commit(id, i+1)
				c.Events = []events.Event{events.Of("", &events.SessionClosed{Reason: string(body[:100<<10])})}
				w.left.Store(1 + rnd.Int64N(100<<10))
				if _, err := b.Log().Append(t.Context(), c, events.Seq(i)); err != nil {
					t.Fatalf("commit %d: %v", i+1, err)
				}
			}
			w.left.Store(0)
			if got := history(t, b, id, 1); len(got) != tries {
				t.Errorf("got %d commits, want %d", len(got), tries)
			}
			if cuts := w.cuts.Load(); cuts < tries {
				t.Errorf("the connection broke %d times, want %d at least", cuts, tries)
			}
		})
	}
}
