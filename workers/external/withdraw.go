package external

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// maxClosed is how many withdrawn questions of a plugin a node remembers as closed: signs of life repeat them.
const maxClosed = 1024

// closeEvery is how often a node closes questions of a plugin at most, as each costs a read of its session.
const closeEvery = time.Second

// Withdrawn implements [registry.Node]. It closes questions that instances of a plugin no longer wait for, in one goroutine for each
// plugin.
func (n node) Withdrawn(name string, list []wire.Question) {
	p := n.p
	p.mu.Lock()
	defer p.mu.Unlock()
	a, w := p.api.Load(), p.works[name]
	list = slices.DeleteFunc(list, func(q wire.Question) bool { return w.closed[q] })
	if a == nil || w.closing || len(list) == 0 || p.ctx.Err() != nil {
		return
	}
	w.closing = true
	p.work.Go(func() {
		var closed []wire.Question
		var failed error
		for _, q := range list {
			done, err := a.CloseQuestion(p.ctx, name, q)
			if err != nil {
				failed = fmt.Errorf("session %s: %w", events.Clip(string(q.Session), events.MaxTokenBytes, ""), err)
			}
			if done {
				closed = append(closed, q)
			}
		}
		if failed != nil {
			p.log.Warn("withdrawn questions are not closed", zap.String("plugin", name), zap.Int("closed", len(closed)), zap.Int("of", len(list)), zap.NamedError("last", failed))
		}
		delay.Sleep(p.ctx, closeEvery)
		p.mu.Lock()
		defer p.mu.Unlock()
		w.closing = false
		if w.closed == nil || len(w.closed) >= maxClosed {
			w.closed = make(map[wire.Question]bool)
		}
		for _, q := range closed {
			w.closed[q] = true
		}
	})
}
