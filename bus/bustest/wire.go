package bustest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// breakingConn is a connection that breaks in the middle of a write, and stays broken.
type breakingConn struct {
	net.Conn
	mu     sync.Mutex
	when   func(data []byte) (n int, breaks bool) // whether a write breaks, and after how many bytes of it; nil never does
	cut    func()                                 // called before it breaks
	broken bool
}

var errCut = errors.New("the wire was cut")

func (w *breakingConn) arm(when func([]byte) (int, bool), cut func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.when, w.cut = when, cut
}

func (w *breakingConn) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return 0, errCut
	}
	if w.when == nil {
		return w.Conn.Write(data)
	}
	n, breaks := w.when(data)
	if !breaks {
		return w.Conn.Write(data)
	}
	w.broken = true
	w.cut()
	if n > 0 {
		_, _ = w.Conn.Write(data[:n])
	}
	_ = w.Close()
	return 0, errCut
}

// InProcessConn implements [nats.InProcessConnProvider]. It returns this one connection, and an error once it may
// break.
func (w *breakingConn) InProcessConn() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.when != nil {
		return nil, errCut
	}
	return w, nil
}

// openBreaking opens a bus whose connection can be broken.
func openBreaking(tb testing.TB, server *busembed.Server) (*bus.Bus, *breakingConn) {
	tb.Helper()
	var opts nats.Options
	if err := server.InProcess()(&opts); err != nil {
		tb.Fatal(err)
	}
	inner, err := opts.InProcessServer.InProcessConn()
	runtest.NoError(tb, err)
	w := &breakingConn{Conn: inner}
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	return open(tb, bus.Config{Options: []nats.Option{nats.InProcessServer(w), silent}}), w
}

// KilledAt runs work on a bus whose connection breaks at its k-th write: before the request is sent, or after it if
// late. ctx ends with the connection. It reports whether work ended before that write. After the k-th request servers have what
// they have before the next one: late shows more only of work that also acts here, or at once.
func KilledAt(tb testing.TB, server *busembed.Server, k int, late bool, work func(ctx context.Context, victim *bus.Bus) error) (finished bool) {
	tb.Helper()
	return runKilled(tb, server, func(data []byte) (int, bool) {
		if k--; k > 0 {
			return 0, false
		}
		if late {
			return len(data), true
		}
		return 0, true
	}, work)
}

// KilledIn is KilledAt for the first message that contains a text. at returns after how many bytes of that message,
// of its size, the connection breaks.
func KilledIn(tb testing.TB, server *busembed.Server, text string, at func(size int) int, work func(ctx context.Context, victim *bus.Bus) error) (finished bool) {
	tb.Helper()
	return runKilled(tb, server, func(data []byte) (int, bool) {
		i := bytes.Index(data, []byte(text))
		if i < 0 {
			return 0, false
		}
		from, size, err := enclosingMessage(data, i)
		if err != nil {
			tb.Errorf("what is written is no message: %v", err)
		}
		return from + at(size), true
	}, work)
}

// enclosingMessage finds the message around byte i: HPUB SUBJECT REPLY HEADERS TOTAL, then TOTAL bytes, each part
// with a line end.
func enclosingMessage(data []byte, i int) (from, size int, err error) {
	const eol = "\r\n"
	if from = bytes.LastIndex(data[:i], []byte("HPUB ")); from < 0 {
		return 0, 0, errors.New("it has no beginning")
	}
	line, _, _ := bytes.Cut(data[from:], []byte(eol))
	total, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	if size = len(line) + len(eol) + total + len(eol); err == nil && from+size > len(data) {
		err = errors.New("it has no end")
	}
	return from, size, err
}

func runKilled(tb testing.TB, server *busembed.Server, when func([]byte) (int, bool), work func(ctx context.Context, victim *bus.Bus) error) (finished bool) {
	tb.Helper()
	victim, w := openBreaking(tb, server)
	defer victim.Close()
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	w.arm(when, cancel)
	err := work(ctx, victim)
	if err == nil && ctx.Err() == nil {
		return true
	}
	if err == nil {
		tb.Error("killed: got no error") // the last request is answered before it returns
	}
	return false
}

// Interrupted makes something happen before a request of its bus.
type Interrupted struct {
	Bus  *bus.Bus
	conn interruptedConn
}

// interruptedConn is the connection of an [Interrupted].
type interruptedConn struct {
	net.Conn
	left atomic.Int64 // writes up to do; at 0 or less there is none
	do   func()
}

// OpenInterrupted opens a bus before whose requests something may happen.
func OpenInterrupted(tb testing.TB, server *busembed.Server) *Interrupted {
	tb.Helper()
	var opts nats.Options
	if err := server.InProcess()(&opts); err != nil {
		tb.Fatal(err)
	}
	inner, err := opts.InProcessServer.InProcessConn()
	runtest.NoError(tb, err)
	i := &Interrupted{conn: interruptedConn{Conn: inner}}
	i.Bus = open(tb, bus.Config{Options: []nats.Option{nats.InProcessServer(&i.conn)}})
	return i
}

// At runs work, and do before its k-th write. It reports whether there was such a write.
func (i *Interrupted) At(k int, do, work func()) (done bool) {
	i.conn.do = do
	i.conn.left.Store(int64(k))
	work()
	return i.conn.left.Swap(0) <= 0
}

// Write implements [net.Conn].
func (c *interruptedConn) Write(data []byte) (int, error) {
	if c.left.Add(-1) == 0 {
		c.do()
	}
	return c.Conn.Write(data)
}

// InProcessConn implements [nats.InProcessConnProvider].
func (c *interruptedConn) InProcessConn() (net.Conn, error) { return c, nil }
