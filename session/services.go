package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// services are the capabilities of one session, as plugins see them. Every one
// works from any node: it is a decision on the session's history.
type services struct {
	h       *Host
	id      events.SessionID
	current func() *projector.State // the caller's working state; nil asks the history
	effect  events.EffectID         // of the caller, where it is one: names what must not be done twice
}

// Services gives a session's capabilities to its plugins. current, which may be
// nil, is the state that the caller works on; effect names the caller, so that
// what it creates or asks again is the same.
func (h *Host) Services(id events.SessionID, current func() *projector.State, effect events.EffectID) plugin.RuntimeHost {
	return &services{h: h, id: id, current: current, effect: effect}
}

var _ plugin.RuntimeHost = (*services)(nil)

func (s *services) SnapshotCurrent(ctx context.Context) (*projector.State, error) {
	if s.current != nil {
		return s.current().Clone(), nil
	}
	return s.h.State(ctx, s.id)
}

func (s *services) SnapshotSession(ctx context.Context, id events.SessionID) (*projector.State, error) {
	if id == s.id {
		return s.SnapshotCurrent(ctx)
	}
	return s.h.State(ctx, id)
}

func (s *services) ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error) {
	return s.h.ToolCatalog(ctx, id)
}

func (s *services) ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error) {
	return s.h.ToolState(ctx, id)
}

func (s *services) ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (int64, error) {
	return s.h.ApplyToolState(ctx, id, state)
}

func (s *services) SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (int64, error) {
	return s.h.SetToolsAvailability(ctx, id, names, level)
}

func (s *services) SetToolAvailability(ctx context.Context, id events.SessionID, name string, level events.Override) (int64, error) {
	return s.h.SetToolsAvailability(ctx, id, []string{name}, level)
}

func (s *services) CreateSession(ctx context.Context, req api.CreateRequest) (api.Handle, error) {
	return s.h.CreateFrom(ctx, s.id, req)
}

func (s *services) TakeFirstTurnInput(ctx context.Context, id events.SessionID) (*events.Message, error) {
	return s.h.TakeFirstTurnInput(ctx, id)
}

func (s *services) CloseSession(ctx context.Context, id events.SessionID) error {
	if id == s.id {
		return fmt.Errorf("close session %s: %w", id, api.ErrCurrent)
	}
	return s.h.CloseSession(ctx, id, "closed by a plugin")
}

func (s *services) StartTurnStream(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	return s.h.StartTurnStream(ctx, id, req)
}

func (s *services) AwaitTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error) {
	if _, err := s.h.Await(ctx, id, turn); err != nil {
		return api.AssembledTurn{}, err
	}
	return s.ended(ctx, id, turn)
}

// ended puts a turn together that has ended. What a child used is charged
// before that is told, so that the turn which waited for it shows it.
func (s *services) ended(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error) {
	state, err := s.h.State(ctx, id)
	if err == nil && state.Parent == s.id {
		err = s.h.ChargeChild(ctx, state)
	}
	if err != nil {
		return api.AssembledTurn{}, err
	}
	return s.h.AssembledTurn(ctx, id, turn)
}

func (s *services) CancelTurn(ctx context.Context, id events.SessionID, turn events.TurnID) error {
	_, _, err := s.h.Cancel(ctx, id, turn, api.CancelRequest{Origin: "plugin"})
	return err
}

func (s *services) StartTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.AssembledTurn, error) {
	r, err := s.h.Run(ctx, id, req)
	if err != nil {
		return api.AssembledTurn{}, err
	}
	return s.ended(ctx, id, r.ID)
}

func (s *services) AppendNodes(ctx context.Context, id events.SessionID, req api.AppendNodesRequest) (api.AppendedNodes, error) {
	return s.h.AppendNodes(ctx, id, req)
}

func (s *services) ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error) {
	return s.h.ToolOutput(ctx, id, call)
}

func (s *services) ResolveAt(ctx context.Context, id events.SessionID, key events.EffectID, at time.Time, result events.ToolResult) error {
	return s.h.ResolveAt(ctx, id, key, at, result)
}

// ChargeChild tells a parent what its child has used in all, and the parent's own parent then, up to the root.
func (h *Host) ChargeChild(ctx context.Context, child *projector.State) error {
	for child.Parent != "" && child.Relation == events.RelationChild {
		parent, err := h.chargeParent(ctx, child)
		if errors.Is(err, events.ErrNoSession) {
			return nil // the parent is gone, and its ledger with it
		}
		if err != nil || parent == nil {
			return err
		}
		child = parent
	}
	return nil
}

// chargeParent charges one level, and gives the parent where that is a child itself.
func (h *Host) chargeParent(ctx context.Context, child *projector.State) (*projector.State, error) {
	charge := &events.UsageCharged{Child: child.Session, Source: child.Source, At: child.Seq, Entries: []events.UsageEntry{}}
	if charge.Source == "" {
		charge.Source = "child"
	}
	for model, u := range child.Usage().ByModel {
		charge.Entries = append(charge.Entries, events.UsageEntry{Model: model, Usage: u})
	}
	if len(charge.Entries) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to tell
	}
	slices.SortFunc(charge.Entries, func(a, b events.UsageEntry) int { return compare(a.Model, b.Model) })
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

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
