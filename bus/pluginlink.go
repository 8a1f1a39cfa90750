package bus

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// pluginLinks are the connections for what plugins send, one for each plugin. A server closes a connection on which more
// arrives than its client reads: a plugin that floods loses its own, and the others, with all sessions, go on. Where a connection
// cannot be made, as where the server allows few, the primary one is used until the next attempt.
type pluginLinks struct {
	mu     sync.Mutex
	byName map[string]*extraLink
}

func (p *pluginLinks) of(plugin string) *extraLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byName[plugin]
	if e == nil {
		e = new(extraLink)
		if p.byName == nil {
			p.byName = make(map[string]*extraLink)
		}
		p.byName[plugin] = e
	}
	return e
}

// PluginConn is the connection of a plugin, which is made at its first use. Callers of other packages are measurements and tests.
func (b *Bus) PluginConn(plugin string) *nats.Conn {
	if b.closing.Load() {
		return b.nc
	}
	if l := b.pluginLinks.of(plugin).of(b, "plugin "+plugin); l != nil {
		return l.nc
	}
	return b.nc
}

// all are the links that were used.
func (p *pluginLinks) all() []*extraLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.byName))
}

// linkCheck is how often a subscription looks whether its plugin has another connection.
const linkCheck = time.Second

// subscribePlugin makes a subscription over the connection of a plugin, and again over each one that replaces it, until stop.
func (b *Bus) subscribePlugin(plugin string, subscribe func(*nats.Conn) (*nats.Subscription, error)) (stop func(), err error) {
	conn := b.PluginConn(plugin)
	sub, err := subscribe(conn)
	if err != nil {
		return nil, fmt.Errorf("subscribe to plugin %s: %w", plugin, mapError(err))
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		ticks := time.NewTicker(linkCheck)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				_ = sub.Unsubscribe()
				return
			case <-ticks.C:
			}
			now := b.PluginConn(plugin)
			if now == conn {
				continue
			}
			if moved, err := subscribe(now); err == nil { // else at the next tick
				_ = now.FlushTimeout(b.cfg.Timeout) // the server has the new one before the old one ends
				_ = sub.Unsubscribe()
				conn, sub = now, moved
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
	}), nil
}

// subscribeEach is subscribePlugin for each of some plugins.
func (b *Bus) subscribeEach(plugins []string, subscribe func(plugin string, over *nats.Conn) (*nats.Subscription, error)) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	for _, name := range plugins {
		one, err := b.subscribePlugin(name, func(over *nats.Conn) (*nats.Subscription, error) { return subscribe(name, over) })
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, one)
	}
	return stop, nil
}
