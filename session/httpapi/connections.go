package httpapi

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

// connections are the open ones of a server. A connection is anonymous until a
// request on it was authenticated.
//
//	accept ──► anonymous ──authenticated request──► known
//	               │                                  │ idle, and a new one needs its place
//	               ├── a request was refused          │
//	               ├── Config.AnonymousTimeout        ▼
//	               └── a new one needs its place ──► closed
//
// A new connection always gets in, at the cost of the oldest anonymous one of
// its address or of all, or else of the known one that is idle for the longest
// time. It is refused only where all connections are of known callers that work,
// of whom [Config.MaxRequests] and [Config.MaxStreams] bound how many there are.
type connections struct {
	max, maxAnonymous, maxPerAddress, maxPerCaller int
	timeout                                        time.Duration // of anonymous ones

	mu        sync.Mutex
	open      int
	anonymous *list.List           // of *conn, in the order in which they came
	idle      *list.List           // of *conn that are known, those that are idle for the longest time first
	byAddress map[netip.Prefix]int // anonymous ones
	byCaller  map[string]int       // known ones, by the caller of the last request
}

func newConnections(cfg *Config) *connections {
	return &connections{
		max: cfg.MaxConnections, maxAnonymous: max(cfg.MaxConnections/2, 1), maxPerAddress: cfg.MaxConnectionsPerAddress,
		maxPerCaller: cfg.MaxConnectionsPerCaller, timeout: cfg.AnonymousTimeout,
		anonymous: list.New(), idle: list.New(), byAddress: make(map[netip.Prefix]int), byCaller: make(map[string]int),
	}
}

// conn is an accepted connection.
type conn struct {
	net.Conn
	all     *connections
	address netip.Prefix
	timer   *time.Timer // closes it while it is anonymous

	// of all.mu
	known   bool
	caller  string // of the last request, where it is known
	refused bool   // one request that was not authenticated; nothing else is answered
	closed  bool
	in      *list.Element // of anonymous or idle; nil: in neither
}

// limited accepts connections within the limits.
type limited struct {
	net.Listener
	all *connections
	log *zap.Logger
}

// Accept waits for a connection that gets in.
func (l *limited) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.log.Warn("accept", zap.Error(err))
			}
			return nil, err
		}
		if c := l.all.admit(accepted); c != nil {
			return c, nil
		}
		_ = accepted.Close() // it is refused
	}
}

// admit takes a connection in, and closes another one where that is needed; nil where none can be.
func (a *connections) admit(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, all: a, address: addressOf(accepted.RemoteAddr())}
	a.mu.Lock()
	victim, fits := a.place(c.address)
	if victim != nil {
		a.forget(victim)
	}
	if fits {
		a.open++
		a.byAddress[c.address]++
		c.in = a.anonymous.PushBack(c)
		c.timer = time.AfterFunc(a.timeout, c.expire)
	}
	a.mu.Unlock()
	if victim != nil {
		victim.cut()
	}
	if !fits {
		return nil
	}
	return c
}

// place finds the connection that makes way for one of an address. The caller holds mu.
func (a *connections) place(address netip.Prefix) (victim *conn, fits bool) {
	switch {
	case a.byAddress[address] >= a.maxPerAddress:
		for e := a.anonymous.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*conn); c.address == address {
				return c, true
			}
		}
	case a.open < a.max && a.anonymous.Len() < a.maxAnonymous:
		return nil, true
	}
	if e := a.anonymous.Front(); e != nil {
		return e.Value.(*conn), true
	}
	if e := a.idle.Front(); e != nil {
		return e.Value.(*conn), true
	}
	return nil, false
}

// forget takes a connection out, once. The caller holds mu.
func (a *connections) forget(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	a.open--
	a.leave(c)
	a.disown(c)
}

// disown takes a known connection from its caller. The caller of this holds mu.
func (a *connections) disown(c *conn) {
	if !c.known {
		return
	}
	if a.byCaller[c.caller]--; a.byCaller[c.caller] == 0 {
		delete(a.byCaller, c.caller)
	}
}

// leave takes a connection out of its list. The caller holds mu.
func (a *connections) leave(c *conn) {
	if c.in == nil {
		return
	}
	if c.known {
		a.idle.Remove(c.in)
	} else {
		a.anonymous.Remove(c.in)
		if a.byAddress[c.address]--; a.byAddress[c.address] == 0 {
			delete(a.byAddress, c.address)
		}
	}
	c.in = nil
}

// authenticated makes a connection known, and one of a caller; false where that has too many, or the connection is spent.
func (c *conn) authenticated(caller string) bool {
	a := c.all
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case c.refused:
		return false
	case c.closed || c.known && c.caller == caller:
		return true
	case a.byCaller[caller] >= a.maxPerCaller:
		return false
	case !c.known:
		a.leave(c)
		c.timer.Stop()
	}
	a.disown(c)
	c.known, c.caller = true, caller
	a.byCaller[caller]++
	return true
}

// spent reports whether a request was refused on a connection that was anonymous: it answers nothing else.
func (c *conn) spent() bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	return c.refused
}

// refuse is told of a request that was not authenticated. On an anonymous
// connection the first one is answered, and is the last: of those at the same
// time, as HTTP/2 has them, all others are not. A caller's connection goes on,
// as a proxy may have many clients on one.
func (c *conn) refuse() (answer, last bool) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.known {
		return true, false
	}
	first := !c.refused
	c.refused = true
	return first, true
}

// rests says whether a known connection has no request.
func (c *conn) rests(idle bool) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if !c.known || c.closed {
		return
	}
	c.all.leave(c)
	if idle {
		c.in = c.all.idle.PushBack(c)
	}
}

// expire cuts a connection that is anonymous for too long.
func (c *conn) expire() {
	c.all.mu.Lock()
	known := c.known
	if !known {
		c.all.forget(c)
	}
	c.all.mu.Unlock()
	if !known {
		c.cut()
	}
}

// cut closes the connection without waiting for what is not sent.
func (c *conn) cut() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the system has no use of it either
	}
	_ = c.Close() // a second time does nothing
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.all.mu.Lock()
	c.all.forget(c)
	c.all.mu.Unlock()
	c.timer.Stop()
	return c.Conn.Close()
}

// addressOf is what one client has: an IPv4 address, or the /64 of an IPv6 one.
func addressOf(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{} // of all that have no address
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // they fit
	return p
}

type connKey struct{}

// connOf is the connection of a request; nil where another server accepted it.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// accepted is below what TLS makes of it.
func accepted(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	tracked, _ := c.(*conn)
	return tracked
}

// track puts the connection into the context of its requests.
func track(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, accepted(c))
}

// changed follows what the HTTP server knows of a connection.
func changed(c net.Conn, state http.ConnState) {
	if tracked := accepted(c); tracked != nil {
		tracked.rests(state == http.StateIdle)
	}
}
