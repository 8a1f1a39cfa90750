package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Limits of what is kept of earlier manifests of one plugin.
const (
	maxReplaced   = 64      // versions that are known to be replaced
	maxOlder      = 8       // earlier manifests, for turns that began with them
	maxOlderBytes = 2 << 20 // of the JSON of those that a node has in memory
)

// Times of reads of a plugin's row.
const (
	rereadEvery = 200 * time.Millisecond // at most, for instances that show an unknown manifest
	checkEvery  = 5 * time.Second        // whether the row is still there
	offerWait   = 2 * time.Second        // for the earlier manifest of a turn that another node began
	storeWait   = 5 * time.Second        // for a row that other instances and nodes write at the same time
)

// Offer is a registered manifest with its compiled tools.
type Offer struct {
	Hash     string
	Manifest *wire.Manifest
	Tools    *plugin.Tools
	bytes    int
}

// NoOffer is that of a plugin without a manifest.
func NoOffer() *Offer { return &Offer{Manifest: new(wire.Manifest), Tools: plugin.NewTools()} }

// restored is the row of a plugin as it should be stored: the one that was read, or where the table was lost, the one that this node knows.
func (r *Registry) restored(name string, read *row) *row {
	r.mu.Lock()
	mine := r.byName[name].row
	r.mu.Unlock()
	if read.Hash != "" || mine.Hash == "" {
		return read
	}
	mine.Table = ulid.Make().String()
	return &mine
}

// change replaces the row of a plugin by what edit makes of it, and returns it with its revision, 0 where there is
// none. edit may be called again with a newer row. A row that was lost is written again.
func (r *Registry) change(ctx context.Context, name string, edit func(now *row) (*row, error)) (made *row, revision uint64, err error) {
	lost := false
	stored, err := r.bus.Manifests().Update(ctx, events.SessionID(name), func(got bus.Row) ([]byte, error) {
		read := new(row)
		if got.Revision > 0 {
			if err := json.Unmarshal(got.Value, read); err != nil {
				return nil, err
			}
		}
		now := r.restored(name, read)
		lost = now != read
		var err error
		if made, err = edit(now); err != nil || made == read {
			return nil, err
		}
		return json.Marshal(made)
	})
	if err != nil {
		return nil, 0, err
	}
	if lost {
		r.log.Warn("the lost row of a plugin is written again", zap.String("plugin", name), zap.String("version", made.Manifest.Version))
	}
	return made, stored.Revision, nil
}

// stored reads the row of a plugin.
func (r *Registry) stored(ctx context.Context, name string) (*row, uint64, error) {
	return r.change(ctx, name, func(now *row) (*row, error) { return now, nil })
}

// Read takes over the stored manifest of a plugin, if there is one. A manifest that is above the limits of this version, which
// another version stored, is none: a program registers again.
func (r *Registry) Read(ctx context.Context, name string) error {
	now, revision, err := r.stored(ctx, name)
	if err != nil || revision == 0 || r.knows(name, now, revision) || !r.byName[name].settings.Admits(now.Hash) || r.checkOwners(name, &now.Manifest) != nil {
		return err // one that the operator admits is registered later
	}
	o, err := r.compile(name, &now.Manifest)
	if err != nil {
		r.skip(name, now.Hash, err)
		return nil
	}
	r.take(name, now, o, revision)
	return nil
}

// skip logs a stored manifest that this version refuses, once.
func (r *Registry) skip(name, hash string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.byName[name]; k.skipped != hash {
		k.skipped = hash
		r.log.Warn("the stored manifest is refused: the plugin has none until it registers again", zap.String("plugin", name), zap.String("hash", hash), zap.Error(err))
	}
}

func (r *Registry) knows(name string, now *row, revision uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	return k.row.Table == now.Table && k.revision >= revision
}

func (r *Registry) compile(name string, m *wire.Manifest) (*Offer, error) {
	tools, err := r.node.Compile(name, m)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	return &Offer{m.Hash(), m, tools, len(data)}, err
}

// take makes a row the known one, unless a later one of the same table is known.
func (r *Registry) take(name string, now *row, o *Offer, revision uint64) {
	if m := r.replace(name, now, o, revision); m != nil {
		r.node.Known(name, m)
	}
}

// replace returns the manifest of the row that is known now; nil where a later one is.
func (r *Registry) replace(name string, now *row, o *Offer, revision uint64) *wire.Manifest {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	if now.Table == k.row.Table && revision <= k.revision {
		return nil // revisions of one table only grow
	}
	if k.row.Hash != "" && k.row.Hash != now.Hash {
		k.keepLocked(k.current)
	}
	if k.row.Hash == now.Hash {
		o = k.current
	}
	k.current, k.row, k.revision = o, *now, revision
	return o.Manifest
}

// keepLocked puts an earlier manifest in front of those that turns may still have.
func (k *known) keepLocked(o *Offer) {
	k.older = slices.DeleteFunc(k.older, func(old *Offer) bool { return old.Hash == o.Hash })
	k.older = slices.Insert(k.older, 0, o)
	size := 0
	for i, old := range k.older {
		if size += old.bytes; i > 0 && (i >= maxOlder || size > maxOlderBytes) {
			k.older = slices.Clip(k.older[:i])
			return
		}
	}
}

// findLocked is a manifest in memory; nil without it.
func (k *known) findLocked(hash string) *Offer {
	if hash == k.row.Hash {
		return k.current
	}
	for _, o := range k.older {
		if o.Hash == hash {
			return o
		}
	}
	return nil
}

// Offer is the manifest for a session: the current one, or that of the running turn. A manifest that is too old to be
// kept is replaced by the current one.
func (r *Registry) Offer(name string, inTurn bool, hash string) (*Offer, error) {
	r.mu.Lock()
	k := r.byName[name]
	found := k.current
	if inTurn {
		found = k.findLocked(hash)
	}
	r.mu.Unlock()
	if inTurn && hash == "" {
		return NoOffer(), nil
	}
	if found != nil {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, offerWait)
	defer cancel()
	if err := r.Read(ctx, name); err != nil {
		return nil, err
	}
	return r.find(ctx, name, hash)
}

// find is a manifest in memory, or of the rows of earlier ones; the current one where it is in neither.
func (r *Registry) find(ctx context.Context, name, hash string) (*Offer, error) {
	r.mu.Lock()
	k := r.byName[name]
	found, current, entries := k.findLocked(hash), k.current, k.row.Replaced
	r.mu.Unlock()
	if found != nil {
		return found, nil
	}
	for _, entry := range entries {
		if entry.Hash != hash || !k.settings.Admits(hash) {
			continue
		}
		old, err := r.olderRow(ctx, name, entry.Count)
		if err != nil {
			return nil, err
		}
		if old.Hash != hash || r.checkOwners(name, &old.Manifest) != nil {
			break
		}
		if found, err = r.compile(name, &old.Manifest); err != nil {
			r.skip(name, hash, err)
			break
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		k.keepLocked(found)
		return found, nil
	}
	r.log.Warn("a turn's manifest is no longer kept: the turn continues with the current one", zap.String("plugin", name), zap.String("hash", hash))
	return current, nil
}

// olderKey is the key of the row that has a plugin's manifest of a count. No plugin has its form as a name by accident.
func olderKey(name string, count uint64) events.SessionID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", name, count%maxOlder))
	return events.SessionID(hex.EncodeToString(sum[:]))
}

func (r *Registry) olderRow(ctx context.Context, name string, count uint64) (old older, err error) {
	got, err := r.bus.Manifests().Get(ctx, olderKey(name, count))
	if err == nil && got.Revision > 0 {
		err = json.Unmarshal(got.Value, &old)
	}
	return old, err
}

// keepRow stores the manifest of a row before another one replaces it. A later one of this place stays.
func (r *Registry) keepRow(ctx context.Context, name string, now *row) error {
	_, err := r.bus.Manifests().Update(ctx, olderKey(name, now.Count), func(got bus.Row) ([]byte, error) {
		var old older
		if got.Revision > 0 {
			if err := json.Unmarshal(got.Value, &old); err != nil {
				return nil, err
			}
		}
		if old.Hash == now.Hash && old.Count == now.Count || old.Count > now.Count {
			return nil, nil
		}
		return json.Marshal(&older{now.Count, now.Hash, now.Manifest})
	})
	return err
}

// reread reads the row of a plugin after an instance showed a manifest that is not known. If the row has not that
// manifest either, the instance registers again.
func (r *Registry) reread(name, id, hash string) {
	if err := r.Read(r.ctx, name); err != nil {
		r.log.Warn("read manifest", zap.String("plugin", name), zap.Error(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	k.reading = false
	if k.row.Hash != hash && !k.row.hasReplaced(hash) && k.settings.Admits(hash) {
		_ = r.bus.TellInstance(name, id, wire.VerbRegister, nil) // the next sign of life leads here again
	}
}

// check reads the rows from time to time: a table that was lost is written again while a node knows its contents.
func (r *Registry) check() {
	for delay.Sleep(r.ctx, checkEvery) {
		for _, name := range r.names {
			if err := r.Read(r.ctx, name); err != nil && r.ctx.Err() == nil {
				r.log.Warn("read manifest", zap.String("plugin", name), zap.Error(err))
			}
		}
	}
}

// Serves reports whether the instances of the current manifest have a tool as another manifest declares it.
func (r *Registry) Serves(name, hash string, from *plugin.Tools, tool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.byName[name]
	if hash == k.row.Hash {
		return true
	}
	old, had := from.Find(tool)
	now, has := k.current.Tools.Find(tool)
	return had && has && old.Effects == now.Effects && bytes.Equal(old.SchemaText(), now.SchemaText())
}

// Hash is that of a plugin's current manifest; empty where none is registered.
func (r *Registry) Hash(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name].row.Hash
}

// Hooks lists the hooks at a point of the known manifest.
func (r *Registry) Hooks(name, point string) []wire.Hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return At(r.byName[name].current.Manifest, point)
}

// At lists the hooks of a manifest at a point.
func At(m *wire.Manifest, point string) (list []wire.Hook) {
	for i := range m.Hooks {
		if m.Hooks[i].Point == point {
			list = append(list, m.Hooks[i])
		}
	}
	return list
}

// IsCurrent reports whether this node has the plugin's registered manifest.
func (r *Registry) IsCurrent(ctx context.Context, name string) bool {
	now, _, err := r.stored(ctx, name)
	return err == nil && now.Hash == r.Hash(name)
}
