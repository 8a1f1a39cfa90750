package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// pluginRequests is how many requests of plugins a node handles at once. Later ones wait.
const pluginRequests = 64

// Manifests has the last registered manifest of each plugin, by the plugin's name.
func (b *Bus) Manifests() Rows { return Rows{b, b.manifests} }

// ServePlugins answers the requests of plugins, each at one node of all that serve them, until stop. The server lets
// a plugin use its own name only. A request whose reply subject is no inbox is ignored.
func (b *Bus) ServePlugins(answer func(plugin, op string, data []byte) []byte) (stop func(), err error) {
	room := make(chan struct{}, pluginRequests)
	sub, err := b.nc.QueueSubscribe(b.names.pluginRequests(), b.names.service(), func(m *nats.Msg) {
		plugin, op := b.names.parsePluginRequest(m.Subject)
		if !isReply(m.Reply) {
			return
		}
		room <- struct{}{}
		go func() { // ends with the answer
			defer func() { <-room }()
			_ = m.Respond(answer(plugin, op, m.Data))
		}()
	})
	if err != nil {
		return nil, fmt.Errorf("serve plugins: %w", mapError(err))
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// PluginSigns delivers the signs of life of all instances of plugins, from one goroutine, until stop.
func (b *Bus) PluginSigns(deliver func(plugin, instance string, data []byte)) (stop func(), err error) {
	return b.listen(b.names.pluginSigns(), func(m *nats.Msg) {
		plugin, instance := b.names.parsePluginSign(m.Subject)
		deliver(plugin, instance, m.Data)
	})
}

// AskInstance sends a request to an instance of a plugin. receive gets the answers in order, until it returns true or
// ctx ends. Errors: [ErrNotFound] if the instance has no subscription, as its process is gone; this is known at once.
func (b *Bus) AskInstance(ctx context.Context, plugin, instance, verb string, data []byte, receive func(answer []byte) (last bool)) error {
	if err := errors.Join(events.CheckToken("plugin", plugin), events.CheckToken("instance", instance)); err != nil {
		return err
	}
	inbox := b.nc.NewRespInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, mapError(err))
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := b.nc.PublishRequest(b.names.instance(plugin, instance, verb), inbox, data); err != nil {
		return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, mapError(err))
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, mapError(err))
		case len(m.Data) == 0 && m.Header.Get("Status") == "503":
			return fmt.Errorf("ask instance %s of %s: %w", instance, plugin, ErrNotFound)
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
	m, err := b.nc.RequestWithContext(ctx, b.names.instance(plugin, instance, verb), data)
	switch {
	case isNoResponder(err):
		return nil, fmt.Errorf("ask instance %s of %s: %w", instance, plugin, ErrNotFound)
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
	return mapError(b.nc.Publish(b.names.instance(plugin, instance, verb), data))
}
