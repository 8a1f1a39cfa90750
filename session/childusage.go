package session

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/internal/check"
)

// ChargeChild records the total usage of a child in its parent, then in the parent's parent, up to the root.
func (w Worker) ChargeChild(ctx context.Context, child *projector.State) error {
	above := check.Lineage{child.Session}
	for child.Parent != "" && child.Relation == events.RelationChild {
		if above.Add(child.Parent) != nil {
			return nil // two sessions that were created at the same time can be each other's parent
		}
		parent, err := w.Host.chargeParent(w.as(ctx), child)
		if errors.Is(err, events.ErrNoSession) {
			return nil // the parent and its ledger were erased
		}
		if err != nil || parent == nil {
			return err
		}
		child = parent
	}
	return nil
}

// chargeParent charges one level, and returns the parent's state where the parent is a child itself.
func (h *Host) chargeParent(ctx context.Context, child *projector.State) (*projector.State, error) {
	charge := &events.UsageCharged{Child: child.Session, Source: child.Source, At: child.Seq, Entries: []events.UsageEntry{}}
	if charge.Source == "" {
		charge.Source = "child"
	}
	for model, u := range child.Usage().ByModel {
		charge.Entries = append(charge.Entries, events.UsageEntry{Model: model, Usage: u})
	}
	if len(charge.Entries) == 0 {
		return nil, nil //nolint:nilnil // nothing to charge
	}
	slices.SortFunc(charge.Entries, func(a, b events.UsageEntry) int { return strings.Compare(a.Model, b.Model) })
	above := false
	err := h.decide(ctx, child.Parent, "child usage", func(s *projector.State) ([]events.Event, error) {
		above = s.Parent != ""
		for _, c := range s.Children {
			if c.Session == child.Session && (c.At >= charge.At || slices.Equal(c.Entries, charge.Entries)) {
				return nil, nil
			}
		}
		return []events.Event{events.Of("", charge)}, nil
	})
	if err != nil || !above {
		return nil, err
	}
	return h.State(ctx, child.Parent)
}
