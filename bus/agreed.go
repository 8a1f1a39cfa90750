package bus

import "context"

// Agreed reports whether every replica of the work queue is there and has all
// of it: the servers are whole again after a fault.
func (b *Bus) Agreed(ctx context.Context) bool {
	once, cancel := b.timeout(ctx)
	defer cancel()
	stream, err := b.js.Stream(once, b.names.workStream())
	if err != nil {
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
	return info.Leader != "" && len(info.Replicas) == b.cfg.Replicas-1
}
