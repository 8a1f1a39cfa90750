package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
)

// Grant sets the rights of a caller in a session of another owner; an empty list revokes them. Equal rights append
// nothing. A closed session accepts grants too, because it can still be read. Errors: [*api.LimitError],
// [*events.FieldError].
func (h *Host) Grant(ctx context.Context, id events.SessionID, req api.GrantRequest) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	p := &events.SessionGranted{To: req.To, Rights: sortedRights(req.Rights), By: h.actorOf(ctx, reqMeta).ID}
	err := p.Validate()
	if err == nil {
		err = h.decideByKey(ctx, id, requestContent{operation.Grant.Name, "grant", &api.GrantRequest{To: p.To, Rights: p.Rights}}, reqMeta, func(s *projector.State) ([]events.Event, error) {
			if err := check.Open(s); err != nil && !errors.Is(err, api.ErrClosed) {
				return nil, err
			}
			return grant(s, p)
		})
	}
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	return nil
}

func grant(s *projector.State, p *events.SessionGranted) ([]events.Event, error) {
	before := s.Granted(p.To)
	switch {
	case p.To == s.Owner:
		return nil, &events.FieldError{Field: "to", Reason: "is the owner, who may everything", Err: events.ErrInvalid}
	case slices.Equal(before, p.Rights):
		return nil, nil
	case len(before) == 0 && len(s.Grants) >= check.MaxGrants:
		return nil, &api.LimitError{What: "grants of the session", Limit: check.MaxGrants}
	}
	return []events.Event{events.Of("", p)}, nil
}

// sortedRights returns the rights in a fixed order, so that equal sets are equal lists.
func sortedRights(list []events.SessionRight) []events.SessionRight {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
