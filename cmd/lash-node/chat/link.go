package chat

import (
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Link says when the connections to the servers are lost, and when all are back. It is safe for concurrent use.
type Link struct {
	Also nats.Option // another one of each connection; nil: none

	said chan Line

	mu   sync.Mutex
	down map[*nats.Conn]bool
}

// NewLink is a link of connections to be made with its options.
func NewLink() *Link {
	return &Link{said: make(chan Line, 16), down: make(map[*nats.Conn]bool)} // more than the reader shows at once are left out
}

// Said gives what there is to say. It is never closed.
func (l *Link) Said() <-chan Line { return l.said }

// Options of connections.
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

// Write implements [io.Writer] for what servers refuse, as the NATS library tells it: one line a call.
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
