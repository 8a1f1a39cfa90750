package blob

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// contractsAtOnce is how many contracts are stored or read at once.
const contractsAtOnce = 8

// storeContracts stores the contracts of an event's tools that this process has. The others are stored already: their entries are from a
// history.
func storeContracts(ctx context.Context, blobs Store, p events.Payload) error {
	var tools []events.ToolEntry
	switch p := p.(type) {
	case *events.ToolStateApplied:
		tools = p.Tools
	case *events.SessionOverlaid:
		tools = p.Tools
	default:
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(contractsAtOnce)
	for i := range tools {
		if t := &tools[i]; len(t.Look().Text()) > 0 {
			group.Go(func() error {
				if _, err := blobs.PutBlob(ctx, t.Look().Text()); err != nil {
					return fmt.Errorf("contract of tool %s: %w", t.Name, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// Contracts returns tools with their contracts: those of the same digest in known, and else the stored ones. A tool whose contract is lost,
// or is none, has none: it must not hold up the session. Each is read once, as a history may name one for thousands of tools. It returns the list itself where it has all.
func Contracts(ctx context.Context, blobs Reader, tools, known []events.ToolEntry) ([]events.ToolEntry, error) {
	if !slices.ContainsFunc(tools, func(t events.ToolEntry) bool { return t.LacksContract() }) {
		return tools, nil
	}
	have := make(map[events.BlobRef]*events.ToolEntry, len(known))
	for i := range known {
		have[known[i].Contract] = &known[i]
	}
	tools = slices.Clone(tools)
	read := make(map[events.BlobRef]*events.ToolEntry)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(contractsAtOnce)
	for i := range tools {
		t := &tools[i]
		if with := have[t.Contract]; with != nil {
			t.ShareContract(with)
		}
		if !t.LacksContract() || t.Contract.Size > events.MaxContractBytes || read[t.Contract] != nil {
			continue
		}
		read[t.Contract] = t
		group.Go(func() error {
			text, err := blobs.Blob(ctx, t.Contract)
			switch {
			case err == nil:
				_ = t.ReadContract(text)
			case !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, events.ErrMalformed):
				return fmt.Errorf("contract of tool %s: %w", t.Name, err)
			}
			return nil
		})
	}
	err := group.Wait()
	for i := range tools {
		if with := read[tools[i].Contract]; with != nil {
			tools[i].ShareContract(with)
		}
	}
	return tools, err
}
