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
// The server accepts each new connection. Where a limit is reached it closes another one: the oldest anonymous one of
// the same address or of all, else the known one that is idle for the longest time. It refuses a new connection only
// where all connections are known and have requests, which [Config.MaxRequests] and [Config.MaxStreams] limit.
type connections struct {
	max, maxAnonymous, maxPerAddress, maxPerCaller int
	timeout                                        time.Duration  // of anonymous ones
	proxies                                        []netip.Prefix // see Config.Proxies
	report                                         func(reason string)

	mu        sync.Mutex
	open      int
	anonymous *list.List           // of *conn, oldest first
	idle      *list.List           // of *conn that are known, the longest idle first
	byAddress map[netip.Prefix]int // number of anonymous ones
	byCaller  map[string]int       // number of known ones, by the caller of the last request
}

// Reasons of [Config.Refused].
const (
	RefusedLimit      = "limit"      // of connections: a new one, or the one that was closed for it
	RefusedTimeout    = "timeout"    // [Config.AnonymousTimeout]
	RefusedTLS        = "tls"        // the handshake failed, or did not end
	RefusedUnreadable = "unreadable" // no request could be read from what the client sent
	RefusedHTTP2      = "http2"      // an error of the protocol HTTP/2, or a connection of it that ended without a request
)

// RefusedConnections lists the reasons of [Config.Refused].
func RefusedConnections() []string {
	return []string{RefusedLimit, RefusedTimeout, RefusedTLS, RefusedUnreadable, RefusedHTTP2}
}

func newConnections(cfg *Config) *connections {
	return &connections{
		max: cfg.MaxConnections, maxAnonymous: max(cfg.MaxConnections/2, 1), maxPerAddress: cfg.MaxConnectionsPerAddress,
		maxPerCaller: cfg.MaxConnectionsPerCaller, timeout: cfg.AnonymousTimeout, report: cfg.refused, proxies: cfg.Proxies,

		anonymous: list.New(), idle: list.New(), byAddress: make(map[netip.Prefix]int), byCaller: make(map[string]int),
	}
}

// conn is an accepted connection.
type conn struct {
	net.Conn
	all      *connections
	address  netip.Prefix
	proxy    bool        // a trusted one, see Config.Proxies
	timer    *time.Timer // closes it while it is anonymous
	accepted time.Time
	unread   unread

	// Guarded by all.mu.
	known   bool
	caller  string // of the last request of a known connection
	refused bool   // a request was not authenticated; no further response is sent
	closed  bool
	wasCut  bool          // by a limit
	element *list.Element // of anonymous or idle; nil: in neither
}

// limitedListener accepts connections within the limits.
type limitedListener struct {
	net.Listener
	all *connections
	log *zap.Logger
}

// Accept returns the next connection within the limits.
func (l *limitedListener) Accept() (net.Conn, error) {
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
		_ = accepted.Close() // above the limits
	}
}

// admit adds a connection, and closes another one where a limit needs it; nil where none can be closed.
func (a *connections) admit(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, all: a, address: addressOf(accepted.RemoteAddr().String()), accepted: time.Now()}
	if peer, err := netip.ParseAddrPort(accepted.RemoteAddr().String()); err == nil {
		c.proxy = trusts(a.proxies, peer.Addr())
	}
	a.mu.Lock()
	victim, fits := a.findVictim(c)
	if victim != nil {
		a.remove(victim)
	}
	if fits {
		a.open++
		a.byAddress[c.address]++
		c.element = a.anonymous.PushBack(c)
		c.timer = time.AfterFunc(a.timeout, c.expire)
	}
	a.mu.Unlock()
	if victim != nil {
		victim.cut()
	}
	if !fits || victim != nil && !victim.known {
		a.report(RefusedLimit)
	}
	if !fits {
		return nil
	}
	return c
}

// findVictim finds the connection to close for a new one. The caller holds mu.
func (a *connections) findVictim(c *conn) (victim *conn, fits bool) {
	switch {
	case a.byAddress[c.address] >= a.maxPerAddress && !c.proxy:
		for e := a.anonymous.Front(); e != nil; e = e.Next() {
			if other := e.Value.(*conn); other.address == c.address {
				return other, true
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

// remove removes a connection, once. The caller holds mu.
func (a *connections) remove(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	a.open--
	a.removeFromList(c)
	a.uncount(c)
}

// uncount removes a known connection from its caller's count. The caller of the method holds mu.
func (a *connections) uncount(c *conn) {
	if !c.known {
		return
	}
	if a.byCaller[c.caller]--; a.byCaller[c.caller] == 0 {
		delete(a.byCaller, c.caller)
	}
}

// removeFromList removes a connection from its list. The caller holds mu.
func (a *connections) removeFromList(c *conn) {
	if c.element == nil {
		return
	}
	if c.known {
		a.idle.Remove(c.element)
	} else {
		a.anonymous.Remove(c.element)
		if a.byAddress[c.address]--; a.byAddress[c.address] == 0 {
			delete(a.byAddress, c.address)
		}
	}
	c.element = nil
}

// authenticate makes a connection known, and counts it for a caller. It is false where the caller has too many, or
// the connection is spent.
func (c *conn) authenticate(caller string) bool {
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
		a.removeFromList(c)
		c.timer.Stop()
	}
	a.uncount(c)
	c.known, c.caller = true, caller
	a.byCaller[caller]++
	return true
}

// isRefused reports whether a request was refused on a connection that was anonymous: it sends no further response.
func (c *conn) isRefused() bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	return c.refused
}

// refuse records a request that was not authenticated. On an anonymous connection only the first such request is
// answered, and the connection ends: concurrent requests, as in HTTP/2, get no answer. A known connection continues,
// because a proxy may send requests of many clients on it.
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

// endedByItself reports whether a connection was closed for no limit.
func (c *conn) endedByItself() bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	return !c.wasCut
}

// setIdle records whether a known connection is idle.
func (c *conn) setIdle(idle bool) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if !c.known || c.closed {
		return
	}
	c.all.removeFromList(c)
	if idle {
		c.element = c.all.idle.PushBack(c)
	}
}

// expire cuts a connection that is anonymous for too long.
func (c *conn) expire() {
	c.all.mu.Lock()
	known := c.known
	if !known {
		c.all.remove(c)
	}
	c.all.mu.Unlock()
	if !known {
		c.cut()
		c.all.report(RefusedTimeout)
	}
}

// cut closes the connection without waiting for unsent data.
func (c *conn) cut() {
	c.all.mu.Lock()
	c.wasCut = true
	c.all.mu.Unlock()
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the kernel drops unsent data too
	}
	_ = c.Close() // a repeated Close does nothing
}

// Write implements [net.Conn].
func (c *conn) Write(data []byte) (int, error) {
	c.unread.wrote(data)
	return c.Conn.Write(data)
}

func (c *conn) Close() error {
	c.all.mu.Lock()
	c.all.remove(c)
	c.all.mu.Unlock()
	c.timer.Stop()
	return c.Conn.Close()
}

// addressOf is the address range of one client: an IPv4 address, or an IPv6 /64.
func addressOf(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{} // shared by connections without an IP address
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // the bits are always valid
	return p
}

type connKey struct{}

// connOf is the connection of a request; nil where another server accepted it.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// unwrapConn unwraps a TLS connection.
func unwrapConn(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	tracked, _ := c.(*conn)
	return tracked
}

// connContext puts the connection into the context of its requests.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, unwrapConn(c))
}
