package system

import (
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// flaky is a proxy before a server. It cuts every connection after a number of bytes, which it draws from its
// seed, in either direction.
type flaky struct {
	listener net.Listener
	server   string
	cuts     atomic.Int64
	calm     atomic.Bool // it cuts no more

	mu   sync.Mutex
	rng  *rand.Rand
	live map[net.Conn]bool
	wait sync.WaitGroup
}

// newFlaky starts a proxy that ends with the test.
func newFlaky(t *testing.T, server string, seed uint64) *flaky {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.NoError(t, err)
	f := &flaky{listener: l, server: strings.TrimPrefix(server, "nats://"), rng: rand.New(rand.NewPCG(seed, 1)), live: make(map[net.Conn]bool)}
	f.wait.Go(f.accept)
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		for c := range f.live {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.wait.Wait()
	})
	return f
}

func (f *flaky) url() string { return "nats://" + f.listener.Addr().String() }

func (f *flaky) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", f.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		f.mu.Lock()
		f.live[client], f.live[server] = true, true
		budget := &atomic.Int64{}
		budget.Store(8<<10 + f.rng.Int64N(48<<10)) // more than a greeting
		f.mu.Unlock()
		f.wait.Go(func() { f.copy(client, server, budget) })
		f.wait.Go(func() { f.copy(server, client, budget) })
	}
}

// copy forwards bytes until the budget of the connection is used up.
func (f *flaky) copy(to, from net.Conn, budget *atomic.Int64) {
	buf := make([]byte, 1<<10)
	for {
		n, err := from.Read(buf)
		if !f.calm.Load() && budget.Add(-int64(n)) < 0 {
			if err == nil {
				f.cuts.Add(1)
			}
			n, err = n/2, io.ErrClosedPipe
		}
		if _, writeErr := to.Write(buf[:n]); err != nil || writeErr != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, to)
	delete(f.live, from)
}
