package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

type instance struct {
	wire.Sign // the last one

	at time.Duration // of that sign, on the clock of its plugin
}

// maxInstances limits the instances of one plugin that a node knows. Further ones get no calls from it.
const maxInstances = 1024

// Sign handles a sign of life. Its sender is not trusted.
func (r *Registry) Sign(name, id string, data []byte) {
	var s wire.Sign
	switch {
	case len(data) > wire.MaxSignBytes:
		r.Drop(name, signTooLarge)
		return
	case wire.Decode(data, &s) != nil, s.Validate() != nil, len(s.Hash) > hex.EncodedLen(sha256.Size), id == wire.All, events.CheckToken("instance", id) != nil:
		r.Drop(name, signInvalid)
		return
	}
	s.Machine = strings.ToValidUTF8(s.Machine[:min(len(s.Machine), wire.MaxMachine)], "")
	if r.takeSign(name, id, s) && len(s.Withdrawn) > 0 {
		r.node.Withdrawn(name, s.Withdrawn)
	}
}

// takeSign reports whether a sign of life is that of an instance which this node knows from now on.
func (r *Registry) takeSign(name, id string, s wire.Sign) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	if k == nil {
		return false
	}
	now := time.Now()
	if k.instances[id] == nil && len(k.instances) >= maxInstances {
		k.sweepLocked(k.clock())
		if len(k.instances) >= maxInstances {
			r.Drop(name, signTooMany)
			return false
		}
	}
	if !r.winsLocked(name, k, id, s.Term) {
		r.Drop(name, signOther)
		return false
	}
	k.instances[id] = &instance{s, k.clock()}
	select {
	case r.signed <- struct{}{}:
	default: // Start has one to read, or has ended
	}
	if s.Hash != k.row.Hash && !k.row.hasReplaced(s.Hash) && !k.reading && now.Sub(k.read) > rereadEvery {
		k.reading, k.read = true, now
		r.work.Go(func() { r.reread(name, id, s.Hash) })
	}
	return true
}

// sweepLocked drops instances that are silent, at most once per [wire.SignEvery].
func (k *known) sweepLocked(now time.Duration) {
	if k.swept > 0 && now-k.swept < wire.SignEvery {
		return
	}
	k.swept = now
	for old := range k.instances {
		if !k.livesLocked(old) {
			delete(k.instances, old)
		}
	}
}

// LeaseOver reports whether a program counts as gone after a silence.
func LeaseOver(silence time.Duration) bool { return silence > wire.Lease }

// livesLocked reports whether the lease of an instance is not over.
func (k *known) livesLocked(id string) bool {
	i := k.instances[id]
	return i != nil && !LeaseOver(k.clock()-i.at)
}

// takesCallsLocked reports whether an instance gets new calls.
func (k *known) takesCallsLocked(id string) bool {
	return k.livesLocked(id) && !k.instances[id].Draining && k.instances[id].Hash == k.row.Hash
}

// TakesCalls reports whether an instance gets new calls.
func (r *Registry) TakesCalls(name, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name].takesCallsLocked(id)
}

// Lease is how long an instance still counts as alive without a further sign of life, on the clock of its plugin.
func (r *Registry) Lease(name, id string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	if i := k.instances[id]; i != nil {
		return wire.Lease - (k.clock() - i.at)
	}
	return 0
}

// Pick is the instance for a call, or for a session where no call is named; empty if none takes calls.
func (r *Registry) Pick(name string, call wire.CallID, without ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, best, most := r.byName[name], "", uint64(0)
	for id := range k.instances {
		if !k.takesCallsLocked(id) || slices.Contains(without, id) {
			continue
		}
		if rank := rankOf(call, id); best == "" || rank > most || rank == most && id > best {
			best, most = id, rank
		}
	}
	return best
}

// rankOf is the rank of an instance for a call. Each byte of the ids reaches each bit of it: ids of instances often differ in their
// last byte alone.
func rankOf(call wire.CallID, id string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", call.Session, call.Call, id))
	return binary.BigEndian.Uint64(sum[:])
}

// Gone drops an instance that does not answer. Its next sign of life brings it back.
func (r *Registry) Gone(name, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName[name].instances, id)
}
