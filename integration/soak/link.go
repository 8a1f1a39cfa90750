package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// link forwards TCP connections to an address, and can be cut.
type link struct {
	listener net.Listener
	target   string
	pumps    sync.WaitGroup

	mu     sync.Mutex
	opened chan struct{} // closed while the link forwards
	refuse bool          // while it is cut: connections are closed and refused
	conns  map[net.Conn]bool
	closed bool
}

func newLink(ctx context.Context, target string) (*link, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open link to %s: %w", target, err)
	}
	l := &link{listener: listener, target: target, opened: make(chan struct{}), conns: make(map[net.Conn]bool)}
	close(l.opened)
	l.pumps.Go(l.accept)
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// cut stops forwarding. refuse true closes connections at both ends, as when a host dies. refuse false drops packets,
// as when a cable is pulled.
func (l *link) cut(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.opened:
		l.opened = make(chan struct{})
	default:
	}
	if l.refuse = refuse; refuse {
		l.dropLocked()
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = false
	select {
	case <-l.opened:
	default:
		close(l.opened)
	}
}

func (l *link) dropLocked() {
	for c := range l.conns {
		_ = c.Close()
	}
}

// close closes the link and all its connections.
func (l *link) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.dropLocked()
	l.mu.Unlock()
	l.heal()
	l.pumps.Wait()
}

func (l *link) accept() {
	for {
		c, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && l.register(c) {
			l.pumps.Go(func() { l.carry(c) })
		}
	}
}

// register registers a connection, unless the link refuses connections.
func (l *link) register(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse || l.closed {
		_ = c.Close()
		return false
	}
	l.conns[c] = true
	return true
}

func (l *link) drop(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// gate waits while the link is cut.
func (l *link) gate() {
	l.mu.Lock()
	opened := l.opened
	l.mu.Unlock()
	<-opened
}

func (l *link) carry(c net.Conn) {
	defer l.drop(c)
	l.gate()
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.target) // the loopback device answers at once
	if err != nil || !l.register(to) {
		return
	}
	defer l.drop(to)
	var restarts sync.WaitGroup
	restarts.Go(func() { l.pump(c, to) })
	l.pump(to, c)
	restarts.Wait()
}

func (l *link) pump(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		l.gate()
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
