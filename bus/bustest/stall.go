package bustest

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// StallingProxy forwards connections to a server until a client has opened its bus and makes another request. From then
// on it forwards nothing, for good: clients wait, and connect again to a proxy that accepts and says nothing.
type StallingProxy struct {
	URL string

	address string // of the server
	mu      sync.Mutex
	opening map[string]bool // subjects of the requests of an opening
	learns  bool            // an opening is being recorded
	stalled chan struct{}   // closed: it forwards nothing
	conns   []net.Conn
}

// StallAfterOpen starts a proxy of a server that listens. It ends with the test.
func StallAfterOpen(tb testing.TB, server *busembed.Server) *StallingProxy {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	runtest.NoError(tb, err)
	_, address, _ := strings.Cut(server.URL(), "://")
	p := &StallingProxy{
		URL: "nats://" + listener.Addr().String(), address: address, opening: make(map[string]bool), learns: true, stalled: make(chan struct{}),
	}
	var running sync.WaitGroup
	running.Go(func() { p.accept(listener, &running) })
	tb.Cleanup(func() {
		_ = listener.Close()
		p.closeAll()
		running.Wait()
	})
	b, err := bus.OpenReader(tb.Context(), WithKeys(tb, bus.Config{URL: p.URL}))
	runtest.NoError(tb, err)
	b.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learns = false
	return p
}

// Stalled reports whether the proxy has stopped forwarding.
func (p *StallingProxy) Stalled() bool {
	select {
	case <-p.stalled:
		return true
	default:
		return false
	}
}

func (p *StallingProxy) accept(listener net.Listener, running *sync.WaitGroup) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.keep(client)
		if p.Stalled() {
			continue
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.address)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.keep(server)
		running.Go(func() { p.requests(client, server) })
		running.Go(func() { p.responses(server, client) })
	}
}

func (p *StallingProxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
}

func (p *StallingProxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// responses forwards from the server. The end of one side ends the other.
func (p *StallingProxy) responses(server, client net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if p.Stalled() {
			return
		}
		if n > 0 {
			_, _ = client.Write(buf[:n])
		}
		if err != nil {
			_ = client.Close()
			return
		}
	}
}

// requests forwards from the client, message by message.
func (p *StallingProxy) requests(client, server net.Conn) {
	r := bufio.NewReader(client)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if !p.Stalled() {
				_ = server.Close()
			}
			return
		}
		data := []byte(line)
		if subject, size, ok := published(line); ok {
			payload := make([]byte, size)
			if _, err := io.ReadFull(r, payload); err != nil || p.stalls(subject) {
				continue
			}
			data = append(data, payload...)
		}
		if !p.Stalled() {
			_, _ = server.Write(data)
		}
	}
}

// stalls reports whether the proxy has stopped forwarding, which it does at a subject that no opening has.
func (p *StallingProxy) stalls(subject string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.learns {
		p.opening[subject] = true
	}
	if !p.opening[subject] && !p.Stalled() {
		close(p.stalled)
	}
	return p.Stalled()
}

// published is the subject of a line that begins a message, and the size of the rest: [H]PUB SUBJECT [REPLY] [HEADERS] TOTAL.
func published(line string) (subject string, size int, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 3 || fields[0] != "PUB" && fields[0] != "HPUB" {
		return "", 0, false
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	return fields[1], size + len("\r\n"), err == nil
}
