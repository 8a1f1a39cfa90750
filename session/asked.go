package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// stamp is the actor, the cause and the request of a commit.
type stamp struct {
	actor       events.Actor
	cause       string
	key, digest string // of the request; empty: it has no key
	older       string // the cause that an earlier version recorded in place of the key
	byID        bool   // the request creates something with an id, and a repeat finds it by that id
}

// stamp returns the stamp of a decision without a key.
func (h *Host) stamp(cause string, a api.Asked) stamp {
	s := stamp{actor: h.actor, cause: cause}
	if a.Actor != "" {
		s.actor = events.Actor{Kind: events.ActorClient, ID: a.Actor}
	}
	return s
}

// named returns the id of what a request creates: the id in the request, else its key, else a new id.
func named[ID ~string](given ID, a api.Asked) ID {
	return cmp.Or(given, ID(a.Key), ID(ulid.Make().String()))
}

// command is the content of a request. Equal commands have equal bodies.
type command struct {
	op    operation.Name
	cause string // of the commit
	body  any    // of the format: the target and all arguments
}

// keyed returns the stamp of a request. The cause contains the key. The digest distinguishes the request from other
// requests with that key.
func (h *Host) keyed(c command, a api.Asked) (stamp, error) {
	s := h.stamp(c.cause, a)
	if a.Key == "" {
		return s, nil
	}
	body, err := events.EncodePayload(c.body)
	if err != nil {
		return s, fmt.Errorf("%s: %w", c.op, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", a.Actor, c.op, body)) // the same at every host
	s.key, s.digest = a.Key, hex.EncodeToString(sum[:16])
	s.cause += " " + a.Key
	s.older = s.cause
	return s, nil
}

// keyedByID is keyed for a request that creates something with an id. A repeat finds it by the id, and decides on the
// current state.
func (h *Host) keyedByID(c command, a api.Asked) (stamp, error) {
	s, err := h.keyed(c, a)
	s.cause, s.byID = c.cause, true
	return s, err
}

// same refuses a key that an earlier, different request used.
func (by *stamp) same(r projector.Request) error {
	if r.Key != "" && r.Digest != by.digest { // earlier versions recorded no digest
		return fmt.Errorf("key %s: %w", by.key, api.ErrDifferent)
	}
	return nil
}

// landed returns the sequence of the request's commit; 0 where the history has none. [Host.decideOnce] searches for
// it in every state that guards an append.
func (by *stamp) landed(s *projector.State) (events.Seq, error) {
	if by.key == "" {
		return 0, nil
	}
	r, ok, err := s.FindRequest(by.key, by.older)
	if err != nil || !ok {
		return 0, err
	}
	return r.Seq, by.same(r)
}

// decideOn is the events of a request on a state. Where the history already has the request's commit, the decision
// runs on the state before that commit, for its answer, and appends nothing. Two copies of a request at once:
//
//  1. Both decide on the state at sequence n.
//  2. One append commits n+1.
//  3. The other append expects n and conflicts; its next try finds the commit in the newer state.
func (h *Host) decideOn(ctx context.Context, s *projector.State, by stamp, d decision, fresh bool) ([]events.Event, error) {
	seq, err := by.landed(s)
	switch {
	case err != nil || seq != 0 && !fresh:
		return nil, err
	case seq == 0:
		return d(s)
	case by.byID:
		api.Note(ctx, s.Session, seq)
		return d(s)
	}
	before, err := h.beforeLanding(ctx, s, by)
	if err == nil {
		_, err = d(before)
	}
	return nil, err
}

// decideAsked is decideAs for a request.
func (h *Host) decideAsked(ctx context.Context, id events.SessionID, c command, a api.Asked, d decision) error {
	by, err := h.keyed(c, a)
	if err != nil {
		return err
	}
	return h.decideAs(ctx, id, by, d)
}

// beforeLanding returns the state before the request's commit; nil where the history has no such commit. Code that
// prepares a decision uses it to find a repeat first.
func (h *Host) beforeLanding(ctx context.Context, s *projector.State, by stamp) (*projector.State, error) {
	seq, err := by.landed(s)
	if err != nil || seq == 0 {
		return nil, err
	}
	api.Note(ctx, s.Session, seq)
	return follow.At(ctx, h.log, h.b, s.Session, seq-1)
}
