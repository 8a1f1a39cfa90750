package bus_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// limitedConns gives a bus its connections, up to a limit.
type limitedConns struct {
	server nats.InProcessConnProvider
	limit  int

	mu      sync.Mutex
	conns   []net.Conn
	refuses bool
	refused int // attempts
}

var errNoConn = errors.New("no line is free")

func (l *limitedConns) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses || len(l.conns) >= l.limit {
		l.refused++
		return nil, errNoConn
	}
	c, err := l.server.InProcessConn()
	l.conns = append(l.conns, c)
	return c, err
}

// refuse makes further attempts fail, or not.
func (l *limitedConns) refuse(refuses bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses = refuses
}

// count is the number of connections, and of the attempts that failed.
func (l *limitedConns) count() (conns, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns), l.refused
}

// cut breaks one of the connections.
func (l *limitedConns) cut(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conns[i].Close()
}

func openLimited(tb testing.TB, server *busembed.Server, most int) (*bus.Bus, *limitedConns) {
	tb.Helper()
	var opts nats.Options
	runtest.NoError(tb, server.InProcess()(&opts))
	l := &limitedConns{server: opts.InProcessServer, limit: most}
	b, err := bus.Open(tb.Context(), bus.Config{Options: []nats.Option{
		nats.InProcessServer(l), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}})
	runtest.NoError(tb, err)
	tb.Cleanup(b.Close)
	return b, l
}

// appendLarge appends n commits of a size.
func appendLarge(tb testing.TB, b *bus.Bus, id events.SessionID, n, size int) {
	tb.Helper()
	for i := range n {
		c := commit(id, i+1)
		c.Events = []events.Event{events.Of("", &events.SessionClosed{Reason: strings.Repeat("x", size)})}
		_, err := b.Log().Append(tb.Context(), c, events.Seq(i))
		runtest.NoError(tb, err)
	}
}

// TestLongBulk reads histories and bodies of all sizes, hot and cold, over one connection, over two, and over two that
// break. The content is the same. With two connections, little of a large body uses the first one, read or written.
func TestLongBulk(t *testing.T) {
	t.Parallel()
	const n, size = 500, 20 << 10
	server := bustest.Server(t, busembed.Config{})
	maker := bustest.Open(t, server)
	appendLarge(t, maker, "hot", n, size)
	appendLarge(t, maker, "cold", n, size)
	runtest.NoError(t, makeCold(t.Context(), maker, "cold", n))
	appendLarge(t, maker, "short", 30, 100)
	body := []byte(strings.Repeat("0123456789abcdef", 400<<10/16*8))
	ref, err := maker.PutBlob(t.Context(), body)
	runtest.NoError(t, err)
	want := map[events.SessionID][]string{"hot": history(t, maker, "hot", 1), "cold": history(t, maker, "cold", 1), "short": history(t, maker, "short", 1)}
	for name, c := range map[string]struct {
		most int
		cut  bool
	}{"one": {1, false}, "two": {2, false}, "broken": {2, true}, "made_again": {9, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, l := openLimited(t, server, c.most)
			if got := history(t, b, "short", 1); !slices.Equal(got, want["short"]) || b.Connections() != 1 {
				t.Errorf("short: got %d commits over %d connections, want %d over 1", len(got), b.Connections(), len(want["short"]))
			}
			before := b.Conn().Stats().InBytes
			for id := range want {
				if c.cut && b.Connections() == 2 {
					l.cut(1)
				}
				if got := history(t, b, id, 1); !slices.Equal(got, want[id]) {
					t.Errorf("%s: got %d commits, want %d", id, len(got), len(want[id]))
				}
			}
			if got, err := b.Blob(t.Context(), ref); err != nil || len(got) != len(body) {
				t.Errorf("body: got %d bytes, %v, want %d", len(got), err, len(body))
			}
			sent := b.Conn().Stats().OutBytes
			own, err := b.PutBlob(t.Context(), append([]byte(name), body...))
			runtest.NoError(t, err)
			if over := b.Conn().Stats().OutBytes - sent; c.most == 2 && !c.cut && over > 1<<20 {
				t.Errorf("put: got %d bytes over the first connection, want at most 1 MiB", over)
			}
			if got, err := maker.Blob(t.Context(), own); err != nil || len(got) != len(name)+len(body) {
				t.Errorf("body that was put: got %d bytes, %v, want %d", len(got), err, len(name)+len(body))
			}
			if over := b.Conn().Stats().InBytes - before; c.most == 2 && !c.cut && over > 1<<20 {
				t.Errorf("got %d bytes over the first connection, want at most 1 MiB", over)
			}
			if wantConns := min(c.most, 2); b.Connections() != wantConns {
				t.Errorf("got %d connections, want %d", b.Connections(), wantConns)
			}
		})
	}
}

// TestBulkCloses: Close closes both connections, and no new one is made after it.
func TestBulkCloses(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, _ := openLimited(t, server, 9)
	appendLarge(t, b, "s", 100, 10)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { history(t, b, "s", 1) })
	}
	wait.Wait()
	if got := server.Clients(); got != 2 || b.Connections() != 2 {
		t.Errorf("got %d clients, %d connections, want 2", got, b.Connections())
	}
	b.Close()
	bustest.Eventually(t, "no connection is left", func() bool { return server.Clients() == 0 })
	if err := readError(t, b, "s", 1); err == nil {
		t.Error("read after the close: got no error, want one")
	}
}

// TestSecondConnectionIsMadeAgain reads while the second connection is refused, once it is not, and after it was closed for good.
func TestSecondConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	b, l := openLimited(t, bustest.Server(t, busembed.Config{}), 9)
	b.SetLinkRetry(0)
	appendLarge(t, b, "s", 100, 10)
	reads := func(want int) {
		t.Helper()
		if got := history(t, b, "s", 1); len(got) != 100 || b.Connections() != want {
			t.Errorf("got %d commits over %d connections, want 100 over %d", len(got), b.Connections(), want)
		}
	}
	l.refuse(true)
	reads(1)
	if _, refused := l.count(); refused == 0 {
		t.Error("no second connection was tried")
	}
	l.refuse(false)
	reads(2)
	b.CloseSecondary()
	reads(2)
	if made, _ := l.count(); made != 3 {
		t.Errorf("got %d connections in all, want 3", made)
	}
}

// TestAttemptsHaveATime: an attempt to make the second connection that failed is not repeated at once.
func TestAttemptsHaveATime(t *testing.T) {
	t.Parallel()
	b, l := openLimited(t, bustest.Server(t, busembed.Config{}), 1)
	b.SetLinkRetry(time.Hour)
	appendLarge(t, b, "s", 100, 10)
	for range 3 {
		if got := history(t, b, "s", 1); len(got) != 100 {
			t.Errorf("got %d commits, want 100", len(got))
		}
	}
	if _, refused := l.count(); refused != 1 {
		t.Errorf("got %d attempts, want one", refused)
	}
}

// BenchmarkNeighbour appends to a small session, and reads its end, with and without a concurrent reader of a history
// of 120 MB on the same bus.
func BenchmarkNeighbour(b *testing.B) {
	server := bustest.Server(b, busembed.Config{})
	appendLarge(b, bustest.Open(b, server), "large", 600, 200<<10)
	for _, readers := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("readers_%d", readers), func(b *testing.B) {
			own := bustest.Open(b, server)
			stop := make(chan struct{})
			var wait sync.WaitGroup
			for range readers {
				wait.Go(func() { readUntil(b, own, stop) })
			}
			id := events.SessionID(fmt.Sprintf("small-%d-%d", readers, b.N))
			var took []time.Duration
			n := 0
			for b.Loop() {
				began := time.Now()
				_, err := own.Log().Append(b.Context(), commit(id, n+1), events.Seq(n))
				runtest.NoError(b, err)
				took = append(took, time.Since(began))
				n++
			}
			close(stop)
			wait.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

func readUntil(b *testing.B, own *bus.Bus, stop chan struct{}) {
	for {
		for _, err := range own.Log().Read(b.Context(), "large", 1) {
			if err != nil {
				b.Error(err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}
