package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/check"
	"github.com/lash-go/lash/session/operation"
)

// Grant says what a caller may do in a session that is not its own; without
// rights it takes back what was granted. The same again appends nothing. A
// session that is closed takes grants too, as it can still be read. Errors:
// [*api.LimitError], [*events.FieldError].
func (h *Host) Grant(ctx context.Context, id events.SessionID, req api.GrantRequest) error {
	ctx, asked := api.TakeAsked(ctx)
	p := &events.SessionGranted{To: req.To, Rights: sortedRights(req.Rights), By: h.stamp("", asked).actor.ID}
	err := p.Validate()
	if err == nil {
		err = h.decideAsked(ctx, id, command{operation.Grant.Name, "grant", &api.GrantRequest{To: p.To, Rights: p.Rights}}, asked, func(s *projector.State) ([]events.Event, error) {
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

// sortedRights puts rights in one order, so that the same ones are the same grant.
func sortedRights(list []events.SessionRight) []events.SessionRight {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// ownership is who owns a session that is about to be, and the grants that it
// begins with. What begins from another session belongs to the owner of what it
// copies, else to its parent's. The caller that made it and is not the owner
// keeps the rights that it has there: else it could not reach what it made.
func (o *opening) ownership() (owner string, grants []events.Event) {
	from := o.creator
	if o.base != nil && o.req.Start != api.StartSnapshot { // a snapshot is what the caller says
		from = o.base
	}
	if from == nil {
		return o.asked.Actor, nil
	}
	for _, maker := range o.makers {
		if rights := cmp.Or(o.granting, from).Granted(maker); len(rights) > 0 {
			grants = append(grants, events.Of("", &events.SessionGranted{To: maker, Rights: rights, By: from.Owner}))
		}
	}
	return from.Owner, grants
}
