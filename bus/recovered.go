package bus

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// Recovered reports whether the servers have recovered from a fault: every replica of the work queue is current, and
// every stream, and every consumer of the queue, has a leader. It requests the state of each stream within one
// timeout, so it is for tests, with some hundreds of streams.
func (b *Bus) Recovered(ctx context.Context) bool {
	once, cancel := b.timeout(ctx)
	defer cancel()
	if !b.queueRecovered(once) {
		return false
	}
	left := make(map[string]bool)
	for name, err := range listStreams[string](once, b, apiStreamNames, "") {
		if err != nil {
			return false
		}
		left[name] = true
	}
	for info, err := range listStreams[jetstream.StreamInfo](once, b, apiStreamList, "") { // without the streams that have no leader
		if err != nil {
			return false
		}
		if c := info.Cluster; c == nil || c.Leader != "" {
			delete(left, info.Config.Name)
		}
	}
	return len(left) == 0
}

func (b *Bus) queueRecovered(ctx context.Context) bool {
	stream, err := b.js.Stream(ctx, b.names.workStream())
	if err != nil {
		return false
	}
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if _, err := stream.Consumer(ctx, name); err != nil { // only a leader answers
			return false
		}
	}
	if names.Err() != nil {
		return false
	}
	info := stream.CachedInfo().Cluster
	if info == nil {
		return true // one server
	}
	for _, r := range info.Replicas {
		if !r.Current || r.Offline {
			return false
		}
	}
	return info.Leader != "" && len(info.Replicas) == b.replicas-1
}
