package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// stamp is how commits name who made them and why.
type stamp struct {
	actor events.Actor
	cause string
	keyed bool // no other request has the cause
}

// stamp of a decision for a request. The key makes the cause one that no other request has.
func (h *Host) stamp(cause string, a api.Asked) stamp {
	s := stamp{actor: h.actor, cause: cause}
	if a.Actor != "" {
		s.actor = events.Actor{Kind: events.ActorClient, ID: a.Actor}
	}
	if a.Key != "" {
		s.cause, s.keyed = s.cause+" "+a.Key, true
	}
	return s
}

// decideAsked is decide for a request. A commit that has the request's key is
// not decided again: the decision runs once more on the state as it was
// then, for what it answers.
//
// The history is looked at before every try, up to the state that the try is
// made on. Who decides the same meanwhile, because a request came twice, makes
// the append conflict, and is found by the next look.
func (h *Host) decideAsked(ctx context.Context, id events.SessionID, cause string, a api.Asked, d decision) error {
	by := h.stamp(cause, a)
	if a.Key == "" {
		return h.decideAs(ctx, id, by, d)
	}
	looked, landed := a.Since, false
	return h.decideAs(ctx, id, by, func(s *projector.State) ([]events.Event, error) {
		if landed {
			return nil, nil
		}
		if s.Seq > looked {
			before, err := h.beforeLanding(ctx, id, by.cause, looked)
			if err != nil {
				return nil, err
			}
			if landed = before != nil; landed {
				_, err := d(before)
				return nil, err
			}
			looked = s.Seq
		}
		return d(s)
	})
}

// landed is the state before the commit that the request made; nil where there is none.
func (h *Host) landed(ctx context.Context, id events.SessionID, cause string, a api.Asked) (*projector.State, error) {
	if a.Key == "" {
		return nil, nil //nolint:nilnil // every request is a new one
	}
	if err := h.reached(ctx, id); err != nil {
		return nil, err
	}
	return h.beforeLanding(ctx, id, h.stamp(cause, a).cause, a.Since)
}

// beforeLanding is the state before the first commit of that cause after seq; nil where there is none.
func (h *Host) beforeLanding(ctx context.Context, id events.SessionID, cause string, seq events.Seq) (*projector.State, error) {
	for entry, err := range h.log.Read(ctx, id, seq+1) {
		if err != nil {
			return nil, err
		}
		if entry.Commit.Cause == cause {
			return h.StateAt(ctx, id, entry.Seq-1)
		}
	}
	return nil, nil //nolint:nilnil // it did not land
}
