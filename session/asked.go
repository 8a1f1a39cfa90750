package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// stamp is how commits name who made them, why, and for which request.
type stamp struct {
	actor       events.Actor
	cause       string
	key, digest string     // of the request; empty: it has no key
	since       events.Seq // the request was made after that
}

// stamp of a decision that no key is looked for of.
func (h *Host) stamp(cause string, a api.Asked) stamp {
	s := stamp{actor: h.actor, cause: cause}
	if a.Actor != "" {
		s.actor = events.Actor{Kind: events.ActorClient, ID: a.Actor}
	}
	return s
}

// command is what a request asks for. The same command has the same body.
type command struct {
	op    api.Operation
	cause string // what its decision calls itself
	body  any    // of the format: the target and all arguments
}

// keyed is the stamp of a request: its key in the cause, and the digest that
// tells it from other requests with that key.
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
	s.key, s.digest, s.since = a.Key, hex.EncodeToString(sum[:16]), a.Since
	s.cause += " " + a.Key
	return s, nil
}

// same refuses a commit whose key another request used. Earlier versions recorded no digest.
func (s stamp) same(c *events.Commit) error {
	if c.Key != "" && c.Digest != s.digest {
		return fmt.Errorf("key %s: %w", s.key, ErrDifferent)
	}
	return nil
}

// decideAsked is decide for a request. A commit that has the request's key is
// not decided again: the decision runs once more on the state as it was
// then, for what it answers. A key that another request used is [ErrDifferent].
//
// The history is looked at before every try, up to the state that the try is
// made on. Who decides the same meanwhile, because a request came twice, makes
// the append conflict, and is found by the next look.
func (h *Host) decideAsked(ctx context.Context, id events.SessionID, c command, a api.Asked, d decision) error {
	by, err := h.keyed(c, a)
	if err != nil {
		return err
	}
	if by.key == "" {
		return h.decideAs(ctx, id, by, d)
	}
	looked, landed := by.since, false
	return h.decideAs(ctx, id, by, func(s *projector.State) ([]events.Event, error) {
		if landed {
			return nil, nil
		}
		if s.Seq > looked {
			before, err := h.beforeLanding(ctx, id, by, looked)
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

// landed is the state before the commit that the request made; nil where there
// is none. It is for what has to be known before the request is decided.
func (h *Host) landed(ctx context.Context, id events.SessionID, by stamp) (*projector.State, error) {
	if by.key == "" {
		return nil, nil //nolint:nilnil // every request is a new one
	}
	if err := h.reached(ctx, id); err != nil {
		return nil, err
	}
	return h.beforeLanding(ctx, id, by, by.since)
}

// beforeLanding is the state before the commit after seq that the request made; nil where there is none.
func (h *Host) beforeLanding(ctx context.Context, id events.SessionID, by stamp, seq events.Seq) (*projector.State, error) {
	c, before, err := h.find(ctx, id, by, seq)
	if err == nil && c != nil {
		err = by.same(c)
	}
	if err != nil {
		return nil, err
	}
	return before, nil
}

// find is the first commit after seq that has the request's key, and the state
// before it; nil where there is none. A commit of an earlier version has the key in its cause alone.
func (h *Host) find(ctx context.Context, id events.SessionID, by stamp, seq events.Seq) (*events.Commit, *projector.State, error) {
	for entry, err := range h.log.Read(ctx, id, seq+1) {
		if err != nil {
			return nil, nil, err
		}
		if c := entry.Commit; c.Key == by.key || c.Key == "" && c.Cause == by.cause {
			api.Note(ctx, id, entry.Seq)
			before, err := follow.At(ctx, h.log, id, entry.Seq-1)
			return c, before, err
		}
	}
	return nil, nil, nil
}
