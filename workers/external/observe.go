package external

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

const (
	observeTries = 5                // calls of one hook for one event, before the event is dropped
	observeFetch = 10 * time.Second // one wait for events
	observePause = 200 * time.Millisecond
)

// registerObservers stores the events that the manifest's hooks observe. A plugin whose program is down gets them later.
func (o *sessionPlugin) registerObservers(r *plugin.Registrar) {
	wanted := make(map[plugin.LifecycleKind]bool)
	for i := range o.manifest.Hooks {
		if point := o.manifest.Hooks[i].Point; wire.KindOf(point) == wire.PointObserves {
			wanted[plugin.LifecycleKind(point)] = true
		}
	}
	if len(wanted) == 0 {
		return
	}
	r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
		if !wanted[e.Kind] {
			return nil
		}
		in := eventOf(&e)
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		return o.p.bus.StorePluginEvent(ctx, o.name, in.Invocation, data)
	})
}

// eventOf is an event of a session as it is stored. The events of turns have the same id wherever they are repeated.
func eventOf(e *plugin.Lifecycle) *wire.HookCall {
	in := &wire.HookCall{Point: string(e.Kind), Session: e.Session, Turn: e.Turn, Invocation: newInvocation()}
	if e.Turn != "" {
		in.Invocation = string(e.Session) + "/" + string(e.Turn) + "/" + string(e.Kind)
	}
	switch e.Kind {
	case plugin.TurnFinalized:
		if t := e.State.Turn(); t != nil {
			in.Ending = ending(t.Ending.End, t.Ending.Issue, t.Ending.Tool)
		}
	case plugin.TurnPersisted:
		if t, err := e.State.Record(e.Turn); err == nil {
			in.Ending = ending(t.End, t.Issue, t.Tool)
		}
	case plugin.SessionConfigChanged:
		in.Data, _ = json.Marshal(map[string]model{"previous": modelOf(e.Change.Previous), "current": modelOf(e.Change.Current)}) // strings only
	case plugin.SessionRestored:
	}
	return in
}

// newInvocation names a call of hooks that nothing repeats.
func newInvocation() string { return ulid.Make().String() }

// model is what an event says of a configuration.
type model struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Effort   string `json:"effort,omitempty"`
	Protocol string `json:"protocol,omitempty"`
}

func modelOf(c events.Config) model { return model{c.Provider, c.Model, c.Effort, c.Protocol} }

// Known implements [registry.Node]. It starts the delivery of events to a plugin whose manifest observes.
func (n node) Known(name string, m *wire.Manifest) {
	p := n.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range m.Hooks {
		if w := p.works[name]; !w.observes && wire.KindOf(m.Hooks[i].Point) == wire.PointObserves {
			w.observes = true
			p.work.Go(func() { p.deliverEvents(name) }) // ends with Stop
		}
	}
}

// deliverEvents delivers the events of a plugin, one after the other. All nodes do so: the consumer gives one event to
// one of them. A node without an instance to deliver to fetches nothing.
func (p *Plugins) deliverEvents(name string) {
	var queue *bus.PluginEvents
	for p.ctx.Err() == nil {
		var event *bus.PluginEvent
		var err error
		switch {
		case queue == nil:
			queue, err = p.bus.PluginEvents(p.ctx, name)
		case p.registry.Pick(name, wire.CallID{}) == "":
			delay.Sleep(p.ctx, observePause)
		default:
			event, err = queue.Fetch(p.ctx, observeFetch)
		}
		if event != nil {
			p.deliver(name, event)
		}
		if err != nil && p.ctx.Err() == nil {
			p.log.Warn("deliver events", zap.String("plugin", name), zap.Error(err))
			delay.Sleep(p.ctx, observePause)
		}
	}
}

// deliver calls the hooks for one event until each has returned. Meanwhile no node delivers the plugin's next event.
func (p *Plugins) deliver(name string, event *bus.PluginEvent) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	p.work.Go(func() { // ends with the delivery
		for delay.Sleep(ctx, bus.AckWait/4) {
			_ = event.Progress() // the next one follows
		}
	})
	var in wire.HookCall
	if err := json.Unmarshal(event.Data, &in); err != nil {
		p.log.Warn("an event is no JSON", zap.String("plugin", name), zap.Error(err))
	}
	list := p.registry.Hooks(name, in.Point)
	if len(list) == 0 && !p.registry.IsCurrent(ctx, name) {
		delay.Sleep(ctx, observePause)
		_ = event.Nak() // another node knows the manifest that observes
		return
	}
	for _, h := range list {
		in.Redelivered = event.Deliveries > 1
		if !p.observed(ctx, name, &h, in) {
			_ = event.Nak() // the node stops: another one delivers the event
			return
		}
	}
	_ = event.Ack() // without it the event comes again
}

// observed calls a hook for an event until it returns, or has failed too often. It returns false if the node stops.
func (p *Plugins) observed(ctx context.Context, name string, h *wire.Hook, in wire.HookCall) bool {
	for failed := 0; failed < observeTries; {
		_, err := p.callHook(ctx, name, "", h, in)
		if err == nil {
			return true
		}
		if !errors.Is(err, errNotCalled) {
			failed++
			in.Redelivered = true
			p.log.Warn("an observing hook failed", zap.String("plugin", name), zap.String("hook", h.Name), zap.String("session", string(in.Session)), zap.Error(err))
		}
		if !delay.Sleep(ctx, observePause) {
			return false
		}
	}
	p.log.Error("an event is skipped: its hook failed too often", zap.String("plugin", name), zap.String("hook", h.Name), zap.String("session", string(in.Session)), zap.Int("calls", observeTries))
	return true
}
