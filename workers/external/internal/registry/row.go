package registry

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/session/plugin/wire"
)

// row is what is stored of a plugin: its current manifest, and which versions were replaced.
type row struct {
	Hash     string        `json:"hash"`
	Manifest wire.Manifest `json:"manifest"`
	Table    string        `json:"life,omitempty"`  // names the table that the row is of: new each time the row is made where none was
	Count    uint64        `json:"count,omitempty"` // of changes
	Replaced []replaced    `json:"replaced,omitempty"`
}

// replaced is a version that a later one replaced, the newest first.
type replaced struct {
	Version string `json:"version"`
	Hash    string `json:"hash"`
	Count   uint64 `json:"count"` // the row's, while it was the current one
}

// older is the row of an earlier manifest. It is overwritten after [maxOlder] changes.
type older struct {
	Count    uint64        `json:"count"`
	Hash     string        `json:"hash"`
	Manifest wire.Manifest `json:"manifest"`
}

func (r *row) hasReplaced(hash string) bool {
	return slices.ContainsFunc(r.Replaced, func(old replaced) bool { return old.Hash == hash })
}

// next is the row with another manifest; the row itself if it has that manifest. Errors: a [*wire.Error].
func (r *row) next(m *wire.Manifest, rollback bool) (*row, error) {
	hash := m.Hash()
	at := slices.IndexFunc(r.Replaced, func(old replaced) bool { return old.Version == m.Version })
	switch {
	case r.Hash == hash:
		return r, nil
	case r.Hash != "" && r.Manifest.Version == m.Version, at >= 0 && r.Replaced[at].Hash != hash:
		return nil, &wire.Error{Code: wire.CodeConflict, Field: "manifest", Message: fmt.Sprintf("version %q is registered with other contents: give the plugin a new version", m.Version)}
	case at >= 0 && !rollback:
		return nil, &wire.Error{Code: wire.CodeConflict, Field: "manifest.version", Message: fmt.Sprintf("version %q was replaced by version %q: register it as a rollback to make it the current one again", m.Version, r.Manifest.Version)}
	}
	next := &row{Hash: hash, Manifest: *m, Table: r.Table, Count: r.Count + 1, Replaced: slices.Clone(r.Replaced)}
	if r.Hash != "" {
		next.Replaced = slices.Insert(next.Replaced, 0, replaced{r.Manifest.Version, r.Hash, r.Count})
	}
	next.trim()
	return next, nil
}

// trim drops the current version, repeated ones and the oldest from those that were replaced.
func (r *row) trim() {
	seen := map[string]bool{r.Hash: true}
	r.Replaced = slices.DeleteFunc(r.Replaced, func(old replaced) bool {
		again := seen[old.Hash]
		seen[old.Hash] = true
		return again
	})
	r.Replaced = r.Replaced[:min(len(r.Replaced), maxReplaced)]
}
