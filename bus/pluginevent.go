package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// Limits of events for plugins. Beyond them the oldest events of a plugin are dropped.
const (
	pluginEventAge   = 24 * time.Hour
	pluginEventCount = 1 << 14 // of one plugin
	maxPluginEvent   = 16<<10 + bodykey.OverheadBytes
)

// pluginEventConfig is the stream of events for plugins that observe sessions: one subject of each plugin, until an
// instance has the event. Only a fleet with such a plugin has the stream.
func (b *Bus) pluginEventConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.pluginEventStream(), Subjects: []string{b.names.pluginEvent("*")},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: int32(maxPluginEvent),
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld, MaxMsgsPerSubject: pluginEventCount,
		MaxAge: pluginEventAge,
	}
}

// StorePluginEvent stores an event for a plugin, and returns when it is stored or ctx ends. An event with an id that
// was stored within two minutes is not stored again.
func (b *Bus) StorePluginEvent(ctx context.Context, plugin, id string, data []byte) error {
	if err := events.CheckToken("plugin", plugin); err != nil {
		return err
	}
	stored, err := b.storeBody(data, b.names.pluginEvent(plugin))
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: b.names.pluginEvent(plugin), Data: stored}
	return b.retry(ctx, "store an event for "+plugin, func(ctx context.Context) error {
		err := b.publishOnce(b.names.pluginEventStream(), msg, jetstream.WithMsgID(id))(ctx)
		if isNoResponder(err) {
			return errors.Join(err, b.ensurePluginEvents(ctx))
		}
		return err
	})
}

// ensurePluginEvents creates the stream again where it is gone.
func (b *Bus) ensurePluginEvents(ctx context.Context) error {
	cfg := b.pluginEventConfig()
	b.pluginEvents.Store(true)
	if _, err := b.js.Stream(ctx, cfg.Name); !isNoAsset(err) {
		return nil // it exists, without a leader
	}
	if !delay.Sleep(ctx, recreateWait) {
		return context.Cause(ctx)
	}
	_, err := b.js.CreateOrUpdateStream(ctx, cfg)
	return err
}

// PluginEvent is an event that was delivered to a node, for an instance of the plugin. While the node confirms
// progress, no node gets the plugin's events.
type PluginEvent struct {
	Data       []byte
	Deliveries int // 1 the first time; more where a node may have sent it to an instance
	msg        jetstream.Msg
}

// Ack removes the event.
func (e *PluginEvent) Ack() error { return mapError(e.msg.Ack()) }

// Progress restarts [AckWait] of the event.
func (e *PluginEvent) Progress() error { return mapError(e.msg.InProgress()) }

// Nak returns the event, for redelivery to another node.
func (e *PluginEvent) Nak() error { return mapError(e.msg.Nak()) }

// PluginEvents is the nodes' consumer of the events of one plugin.
type PluginEvents struct {
	b        *Bus
	consumer *consumer
}

// PluginEvents joins the nodes' consumer of the events of one plugin, and creates the stream where it is missing.
func (b *Bus) PluginEvents(ctx context.Context, plugin string) (*PluginEvents, error) {
	if err := events.CheckToken("plugin", plugin); err != nil {
		return nil, err
	}
	cfg := b.pluginEventConfig()
	b.pluginEvents.Store(true)
	if err := b.ensureStream(ctx, cfg); err != nil {
		return nil, err
	}
	c, err := b.joinConsumer(ctx, cfg, jetstream.ConsumerConfig{
		Durable: plugin, FilterSubject: b.names.pluginEvent(plugin), AckWait: AckWait, MaxAckPending: 1,
	})
	if err != nil {
		return nil, err
	}
	return &PluginEvents{b, c}, nil
}

// Fetch returns the oldest event, or nil where none arrives within wait. The consumers of a plugin have one event at a
// time. A deleted stream is created again, and the events in it are lost.
func (e *PluginEvents) Fetch(ctx context.Context, wait time.Duration) (event *PluginEvent, err error) {
	var failed error
	_, err = e.consumer.fetch(ctx, 1, wait, func(msg jetstream.Msg) {
		meta, err := msg.Metadata()
		if err != nil {
			_ = msg.Term() // not an event
			return
		}
		data, err := e.b.loadBody(msg.Data(), msg.Subject())
		if err != nil {
			failed = err
			refuse(msg, meta, err)
			return
		}
		event = &PluginEvent{Data: data, Deliveries: int(meta.NumDelivered), msg: msg} //nolint:gosec // a count of deliveries
	})
	if err = cmp.Or(err, failed); err != nil {
		err = fmt.Errorf("events for plugins: %w", err)
	}
	return event, err
}

// keylessDeliveries is how often an event whose key is not here is offered to nodes that may have it: a minute or two. Until then
// the plugin gets no other event.
const keylessDeliveries = 30

// refuse returns an event that cannot be read, for a node with the key. One that is malformed, or that no node could read, is removed.
func refuse(msg jetstream.Msg, meta *jetstream.MsgMetadata, err error) {
	if errors.Is(err, events.ErrLocked) && meta.NumDelivered < keylessDeliveries {
		_ = msg.NakWithDelay(AckWait)
		return
	}
	_ = msg.Term()
}
