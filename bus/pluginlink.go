package bus

import (
	"sync"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// pluginLinks are the connections for what plugins send, one for each plugin. A server closes a connection on which more
// arrives than its client reads: a plugin that floods loses its own, and the others, with all sessions, go on. Where a connection
// cannot be made, as where the server allows few, the primary one is used.
type pluginLinks struct {
	mu     sync.Mutex
	byName map[string]*nats.Conn
	closed bool
}

// PluginConn is the connection of a plugin, which is made at its first use. Callers of other packages are measurements and tests.
func (b *Bus) PluginConn(plugin string) *nats.Conn {
	p := &b.pluginLinks
	p.mu.Lock()
	defer p.mu.Unlock()
	switch conn := p.byName[plugin]; {
	case conn != nil:
		return conn
	case p.closed:
		return b.nc
	}
	l, err := b.cfg.connect()
	if err != nil {
		b.log.Warn("no connection of its own for a plugin: it shares that of the sessions", zap.String("plugin", plugin), zap.Error(err))
		l = b.primary()
	}
	if p.byName == nil {
		p.byName = make(map[string]*nats.Conn)
	}
	p.byName[plugin] = l.nc
	return l.nc
}

func (b *Bus) closePluginLinks() {
	p := &b.pluginLinks
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, conn := range p.byName {
		conn.Close()
	}
}
