package external

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

// offer is a registered manifest with its compiled tools.
type offer struct {
	hash     string
	manifest *wire.Manifest
	tools    *plugin.Tools
	bytes    int
}

func noOffer() *offer { return &offer{manifest: new(wire.Manifest), tools: plugin.NewTools()} }

// restored is the row of a plugin as it should be stored: the one that was read, unless the table was lost since this
// node read it. Then it has what this node knows of before.
func (p *Plugins) restored(name string, read *row) *row {
	p.mu.Lock()
	mine := p.byName[name].row
	p.mu.Unlock()
	switch {
	case mine.Hash == "", read.Hash != "" && read.Life == mine.Life:
		return read
	case read.Hash == "":
		mine.Life = ulid.Make().String()
		return &mine
	}
	if known := merge(&mine, read); !known.same(read) {
		return known
	}
	return read
}

// change replaces the row of a plugin by what edit makes of it, and returns it with its revision, 0 where there is
// none. edit may be called again with a newer row. A row that was lost is written again.
func (p *Plugins) change(ctx context.Context, name string, edit func(now *row) (*row, error)) (r *row, revision uint64, err error) {
	lost := false
	stored, err := p.bus.Manifests().Update(ctx, events.SessionID(name), func(got bus.Row) ([]byte, error) {
		read := new(row)
		if got.Revision > 0 {
			if err := json.Unmarshal(got.Value, read); err != nil {
				return nil, err
			}
		}
		now := p.restored(name, read)
		lost = now != read
		var err error
		if r, err = edit(now); err != nil || r == read {
			return nil, err
		}
		return json.Marshal(r)
	})
	if err != nil {
		return nil, 0, err
	}
	if lost {
		p.log.Warn("the lost row of a plugin is written again", zap.String("plugin", name), zap.String("version", r.Manifest.Version))
	}
	return r, stored.Revision, nil
}

// stored reads the row of a plugin.
func (p *Plugins) stored(ctx context.Context, name string) (*row, uint64, error) {
	return p.change(ctx, name, func(now *row) (*row, error) { return now, nil })
}

// read takes over the stored manifest of a plugin, if there is one. A manifest that is above the limits of this version, which
// another version stored, is none: a program registers again.
func (p *Plugins) read(ctx context.Context, name string) error {
	r, revision, err := p.stored(ctx, name)
	if err != nil || revision == 0 || p.knows(name, r, revision) || !p.byName[name].settings.admits(r.Hash) || p.checkOwners(name, &r.Manifest) != nil {
		return err // one that the operator admits is registered later
	}
	o, err := p.compile(name, &r.Manifest)
	if err != nil {
		p.skip(name, r.Hash, err)
		return nil
	}
	p.take(name, r, o, revision)
	return nil
}

// skip logs a stored manifest that this version refuses, once.
func (p *Plugins) skip(name, hash string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.byName[name]; k.skipped != hash {
		k.skipped = hash
		p.log.Warn("the stored manifest is refused: the plugin has none until it registers again", zap.String("plugin", name), zap.String("hash", hash), zap.Error(err))
	}
}

func (p *Plugins) knows(name string, r *row, revision uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	return k.row.Life == r.Life && k.revision >= revision
}

func (p *Plugins) compile(name string, m *wire.Manifest) (*offer, error) {
	tools, err := p.toolsOf(name, m)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	return &offer{m.Hash(), m, tools, len(data)}, err
}

// take makes a row the known one, unless a later one of the same table is known.
func (p *Plugins) take(name string, r *row, o *offer, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	if r.Life == k.row.Life && revision <= k.revision {
		return // revisions of one table only grow
	}
	if k.row.Hash != "" && k.row.Hash != r.Hash {
		k.keepLocked(k.current)
	}
	if k.row.Hash == r.Hash {
		o = k.current
	}
	k.current, k.row, k.revision = o, *r, revision
	p.observeLocked(name, k)
}

// keepLocked puts an earlier manifest in front of those that turns may still have.
func (k *known) keepLocked(o *offer) {
	k.older = slices.DeleteFunc(k.older, func(old *offer) bool { return old.hash == o.hash })
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
func (k *known) findLocked(hash string) *offer {
	if hash == k.row.Hash {
		return k.current
	}
	for _, o := range k.older {
		if o.hash == hash {
			return o
		}
	}
	return nil
}

// offer is the manifest for a session: the current one, or that of the running turn. A manifest that is too old to be
// kept is replaced by the current one.
func (p *Plugins) offer(name string, inTurn bool, hash string) (*offer, error) {
	p.mu.Lock()
	k := p.byName[name]
	found := k.current
	if inTurn {
		found = k.findLocked(hash)
	}
	p.mu.Unlock()
	if inTurn && hash == "" {
		return noOffer(), nil
	}
	if found != nil {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, offerWait)
	defer cancel()
	if err := p.read(ctx, name); err != nil {
		return nil, err
	}
	return p.find(ctx, name, hash)
}

// find is a manifest in memory, or of the rows of earlier ones; the current one where it is in neither.
func (p *Plugins) find(ctx context.Context, name, hash string) (*offer, error) {
	p.mu.Lock()
	k := p.byName[name]
	found, current, entries := k.findLocked(hash), k.current, k.row.Replaced
	p.mu.Unlock()
	if found != nil {
		return found, nil
	}
	for _, entry := range entries {
		if entry.Hash != hash || !k.settings.admits(hash) {
			continue
		}
		old, err := p.olderRow(ctx, name, entry.Count)
		if err != nil {
			return nil, err
		}
		if old.Hash != hash || p.checkOwners(name, &old.Manifest) != nil {
			break
		}
		if found, err = p.compile(name, &old.Manifest); err != nil {
			p.skip(name, hash, err)
			break
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		k.keepLocked(found)
		return found, nil
	}
	p.log.Warn("a turn's manifest is no longer kept: the turn continues with the current one", zap.String("plugin", name), zap.String("hash", hash))
	return current, nil
}

// olderKey is the key of the row that has a plugin's manifest of a count. No plugin has its form as a name by accident.
func olderKey(name string, count uint64) events.SessionID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", name, count%maxOlder))
	return events.SessionID(hex.EncodeToString(sum[:]))
}

func (p *Plugins) olderRow(ctx context.Context, name string, count uint64) (old older, err error) {
	got, err := p.bus.Manifests().Get(ctx, olderKey(name, count))
	if err == nil && got.Revision > 0 {
		err = json.Unmarshal(got.Value, &old)
	}
	return old, err
}

// keepRow stores the manifest of a row before another one replaces it. A later one of this place stays.
func (p *Plugins) keepRow(ctx context.Context, name string, r *row) error {
	_, err := p.bus.Manifests().Update(ctx, olderKey(name, r.Count), func(got bus.Row) ([]byte, error) {
		var old older
		if got.Revision > 0 {
			if err := json.Unmarshal(got.Value, &old); err != nil {
				return nil, err
			}
		}
		if old.Hash == r.Hash && old.Count == r.Count || old.Count > r.Count {
			return nil, nil
		}
		return json.Marshal(&older{r.Count, r.Hash, r.Manifest})
	})
	return err
}

// reread reads the row of a plugin after an instance showed a manifest that is not known. If the row has not that
// manifest either, the instance registers again.
func (p *Plugins) reread(name, id, hash string) {
	if err := p.read(p.ctx, name); err != nil {
		p.log.Warn("read manifest", zap.String("plugin", name), zap.Error(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	k.reading = false
	if k.row.Hash != hash && !k.row.hasReplaced(hash) && k.settings.admits(hash) {
		_ = p.bus.TellInstance(name, id, wire.VerbRegister, nil) // the next sign of life leads here again
	}
}

// check reads the rows from time to time: a table that was lost is written again while a node knows its contents.
func (p *Plugins) check() {
	for delay.Sleep(p.ctx, checkEvery) {
		for _, name := range p.names {
			if err := p.read(p.ctx, name); err != nil && p.ctx.Err() == nil {
				p.log.Warn("read manifest", zap.String("plugin", name), zap.Error(err))
			}
		}
	}
}

// serves reports whether the instances of the current manifest have a tool as another manifest declares it.
func (p *Plugins) serves(name, hash string, from *plugin.Tools, tool string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	if hash == k.row.Hash {
		return true
	}
	old, had := from.Find(tool)
	now, has := k.current.tools.Find(tool)
	return had && has && old.Effects == now.Effects && bytes.Equal(old.SchemaText(), now.SchemaText())
}

// served refuses a call of an earlier manifest whose tool the current one declares otherwise. A call that an instance
// has is not new.
func (p *Plugins) served(name, hash string, from *plugin.Tools, tool string, run plugin.Handler) plugin.Handler {
	return func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
		if call.Holder == "" && !p.serves(name, hash, from, tool) {
			return plugin.Result{}, &plugin.Failure{
				Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
				Message: fmt.Sprintf("a new version of plugin %s has another tool %q: the call did not start", name, tool),
			}
		}
		return run(ctx, call, args)
	}
}
