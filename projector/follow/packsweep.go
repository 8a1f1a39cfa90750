package follow

import (
	"context"
	"errors"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
)

// removeUnlistedPacks removes the packs that are not listed, as of a packer that died. It writes the list, so that a packer that runs
// lists none of them.
func removeUnlistedPacks(ctx context.Context, b *bus.Bus) error {
	rows, _ := b.Index()
	stored, err := rows.StoredPacks(ctx)
	if err != nil {
		return err
	}
	list, err := rows.Packs(ctx)
	if errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrMalformed) {
		return nil // a node with the key does it; a packer replaces a damaged list
	}
	if err != nil {
		return err
	}
	for _, pack := range list.Packs {
		delete(stored, pack.Name)
	}
	if len(stored) == 0 || b.Writable() != nil {
		return nil
	}
	if err = rows.PutPacks(ctx, list); errors.Is(err, bus.ErrStale) {
		return nil // another process wrote the list, and removed them
	}
	return err
}

// removeErasedPacked removes the packs that have erased sessions, as after an erasure by a node of a version without packs.
func removeErasedPacked(ctx context.Context, b *bus.Bus, erased map[events.SessionID]bool) error {
	rows, _ := b.Index()
	list, err := rows.Packs(ctx)
	if errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrMalformed) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, pack := range list.Packs {
		maybe := false
		for id := range erased {
			maybe = maybe || bus.PackFilter(pack.Filter).Has(id)
		}
		if !maybe {
			continue
		}
		id, err := erasedIn(ctx, rows, pack.Name, erased)
		if err == nil && id != "" {
			err = b.RemovePacksOf(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// erasedIn is one of the erased sessions that a pack has; empty for none.
func erasedIn(ctx context.Context, rows bus.Rows, name string, erased map[events.SessionID]bool) (events.SessionID, error) {
	data, err := rows.Pack(ctx, name)
	if err != nil || data == nil {
		return "", err
	}
	pack, err := index.DecodePack(data)
	if err != nil {
		return "", nil //nolint:nilerr // a packer makes it again
	}
	for _, id := range pack.Sessions() {
		if erased[id] {
			return id, nil
		}
	}
	return "", nil
}
