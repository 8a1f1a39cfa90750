package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// Limits of the requests of one plugin that a node has at once. Further ones are dropped: an instance
// repeats its registration, and not a fire.
const (
	pluginRequests = 64       // that are handled
	pluginWaiting  = 512      // that wait or are handled
	pluginBytes    = 16 << 20 // of all of them
)

// Limits of the signs of life of one plugin that wait for a node.
const (
	waitingSigns     = 4096
	waitingSignBytes = 4 << 20
)

// Manifests has the last registered manifest of each plugin, by the plugin's name.
func (b *Bus) Manifests() Rows { return Rows{b: b, kv: b.manifests, plain: true} }

// ServePlugins answers the requests of plugins, each at one node of all that serve that plugin, until stop. The server
// lets a plugin use its own name only. A request whose reply subject is no inbox is ignored. Each plugin has limits of
// its own, so that the requests of one do not delay those of another. await, which may be nil, may wait before a request
// counts as handled: a request that waits there delays no other one.
func (b *Bus) ServePlugins(names []string, await func(plugin, op string, data []byte), answer func(plugin, op string, data []byte) []byte) (stop func(), err error) {
	lanes := make(map[string]*lane)
	for _, name := range names {
		lanes[name] = &lane{room: make(chan struct{}, pluginRequests)}
	}
	return b.subscribeEach(names, func(name string, over *nats.Conn) (*nats.Subscription, error) {
		l := lanes[name]
		return over.QueueSubscribe(b.names.pluginRequests(name), b.names.service(), func(m *nats.Msg) {
			if plugin, op := b.names.parsePluginRequest(m.Subject); isReply(m.Reply) {
				l.do(len(m.Data), func() {
					if await != nil {
						await(plugin, op, m.Data)
					}
				}, func() { _ = m.Respond(answer(plugin, op, m.Data)) })
			}
		})
	})
}

// lane bounds the requests of one plugin.
type lane struct {
	room           chan struct{}
	waiting, bytes atomic.Int64
}

// do runs work after await in a goroutine of its own, or drops both.
func (l *lane) do(size int, await, work func()) {
	leave := func() {
		l.waiting.Add(-1)
		l.bytes.Add(-int64(size))
	}
	waiting, bytes := l.waiting.Add(1), l.bytes.Add(int64(size))
	if waiting > pluginWaiting || bytes > pluginBytes {
		leave()
		return
	}
	go func() { // ends with the work
		defer leave()
		await()
		l.room <- struct{}{}
		defer func() { <-l.room }()
		work()
	}()
}

// PluginSigns delivers the signs of life of all instances of plugins, from one goroutine for each plugin, until stop.
// Signs of one plugin do not delay those of another.
func (b *Bus) PluginSigns(plugins []string, deliver func(plugin, instance string, data []byte)) (stop func(), err error) {
	return b.subscribeEach(plugins, func(name string, over *nats.Conn) (*nats.Subscription, error) {
		sub, err := over.Subscribe(b.names.pluginSigns(name), func(m *nats.Msg) {
			plugin, instance := b.names.parsePluginSign(m.Subject)
			deliver(plugin, instance, m.Data)
		})
		if err != nil {
			return nil, err
		}
		return sub, sub.SetPendingLimits(waitingSigns, waitingSignBytes)
	})
}

// AskInstance sends a request to an instance of a plugin. receive gets the answers in order, until it returns true or
// ctx ends. Errors: [ErrNoResponder] if the instance has no subscription, as its process is gone; this is known at once. After
// other errors than that and [events.ErrTooLarge] the instance may have the request.
func (b *Bus) AskInstance(ctx context.Context, plugin, instance, verb string, data []byte, receive func(answer []byte) (last bool)) error {
	if err := errors.Join(events.CheckToken("plugin", plugin), events.CheckToken("instance", instance)); err != nil {
		return err
	}
	conn := b.PluginConn(plugin)
	inbox := conn.NewRespInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, mapError(err))
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := conn.PublishRequest(b.names.instance(plugin, instance, verb), inbox, data); err != nil {
		return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, mapError(err))
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, nats.ErrNoResponders):
			return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, ErrNoResponder)
		case err != nil:
			return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, mapError(err))
		case receive(m.Data):
			return nil
		}
	}
}

// RequestInstance is [Bus.AskInstance] for one answer.
func (b *Bus) RequestInstance(ctx context.Context, plugin, instance, verb string, data []byte) ([]byte, error) {
	if err := errors.Join(events.CheckToken("plugin", plugin), events.CheckToken("instance", instance)); err != nil {
		return nil, err
	}
	m, err := b.PluginConn(plugin).RequestWithContext(ctx, b.names.instance(plugin, instance, verb), data)
	switch {
	case isNoResponder(err):
		return nil, fmt.Errorf("ask instance %s of %s: %w", instance, plugin, ErrNoResponder)
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("ask instance %s of %s: %w", instance, plugin, mapError(err))
	}
	return m.Data, nil
}

// TellInstance sends a message without an answer to an instance of a plugin.
func (b *Bus) TellInstance(plugin, instance, verb string, data []byte) error {
	if err := errors.Join(events.CheckToken("plugin", plugin), events.CheckToken("instance", instance)); err != nil {
		return err
	}
	return mapError(b.PluginConn(plugin).Publish(b.names.instance(plugin, instance, verb), data))
}

// ReceivingTime calls received with the time between two messages of this process to itself, which it sends at the interval over the
// connection of a plugin. It is not called while the process is frozen or has no connection, and the next time is at most twice the
// interval. So the sum is the time for which this process could receive messages of the plugin.
func (b *Bus) ReceivingTime(plugin string, every time.Duration, received func(time.Duration)) (stop func(), err error) {
	inbox := b.nc.NewInbox()
	var mu sync.Mutex
	last := time.Now()
	unsubscribe, err := b.subscribePlugin(plugin, func(over *nats.Conn) (*nats.Subscription, error) {
		return over.Subscribe(inbox, func(*nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			received(min(now.Sub(last), 2*every))
			last = now
		})
	})
	if err != nil {
		return nil, err
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
				_ = b.PluginConn(plugin).Publish(inbox, nil) // the next one follows
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
		unsubscribe()
	}), nil
}
