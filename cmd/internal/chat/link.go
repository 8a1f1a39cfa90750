package chat

import (
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Link reports when connections to the servers are lost, and when all are restored. It is safe for concurrent use.
type Link struct {
	Also nats.Option // an additional option of each connection; nil: none

	said chan Line

	mu   sync.Mutex
	down map[*nats.Conn]bool
}

// NewLink makes a link without connections. Its options go to new connections.
func NewLink() *Link {
	return &Link{said: make(chan Line, 16), down: make(map[*nats.Conn]bool)} // lines above this number are dropped
}

// Said has the lines to show. It is never closed.
func (l *Link) Said() <-chan Line { return l.said }

// Options are the options of connections that the link reports on.
func (l *Link) Options() []nats.Option {
	list := []nats.Option{
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) { l.set(nc, !nc.IsClosed()) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { l.set(nc, false) }),
	}
	if l.Also != nil {
		list = append(list, l.Also)
	}
	return list
}

func (l *Link) set(nc *nats.Conn, down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.down)
	if down {
		l.down[nc] = true
	} else {
		delete(l.down, nc)
	}
	switch {
	case before == 0 && len(l.down) > 0:
		l.say(noted(Problem, "the connection to the servers is lost: waiting for it, nothing is lost with it"))
	case before > 0 && len(l.down) == 0:
		l.say(noted(Note, "connected again"))
	}
}

// Write implements [io.Writer] for errors of the NATS library: one line a call.
func (l *Link) Write(p []byte) (int, error) {
	l.say(noted(Problem, "%s", strings.TrimSpace(string(p))))
	return len(p), nil
}

func (l *Link) say(line Line) {
	select {
	case l.said <- line:
	default:
	}
}
