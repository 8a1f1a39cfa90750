package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// commitMeta is the actor, the cause and the request of a commit.
type commitMeta struct {
	actor       events.Actor
	cause       string
	key, digest string  // of the request; empty: it has no key
	byID        bool    // the request creates something with an id, and a repeat finds it by that id
	log         bus.Log // has the salt of the request's commit; set with a key
}

// ownMeta returns the metadata of the commit of a decision of the host itself, or of its worker.
func (h *Host) ownMeta(ctx context.Context, cause string) commitMeta {
	return commitMeta{actor: h.actorOf(ctx, api.RequestMeta{}), cause: cause}
}

// actorOf returns the actor of a request's commit: the authenticated caller, else the worker of ctx, else the host.
func (h *Host) actorOf(ctx context.Context, reqMeta api.RequestMeta) events.Actor {
	if reqMeta.Actor != "" {
		return events.Actor{Kind: events.ActorClient, ID: reqMeta.Actor}
	}
	if worker, ok := ctx.Value(actorKey{}).(events.Actor); ok {
		return worker
	}
	return h.actor
}

// followingMeta returns the metadata of a commit that follows from the request of ctx: its actor is the caller of that
// request. Without a request it is the host.
func (h *Host) followingMeta(ctx context.Context, cause string) commitMeta {
	_, reqMeta := api.TakeRequestMeta(ctx)
	return commitMeta{actor: h.actorOf(ctx, reqMeta), cause: cause}
}

// chooseID returns the id of what a request creates: the id in the request, else its key, else a new id.
func chooseID[ID ~string](requested ID, reqMeta api.RequestMeta) ID {
	return cmp.Or(requested, ID(reqMeta.Key), ID(ulid.Make().String()))
}

// requestContent is the content of a request. Equal requests have equal bodies.
type requestContent struct {
	op    operation.Name
	cause string // of the commit
	body  any    // target and arguments, of types that events can encode; the digest covers it
}

// keyedMeta returns the commit metadata of a request. The cause contains the key. The digest distinguishes the request from other
// requests with that key.
func (h *Host) keyedMeta(ctx context.Context, c requestContent, reqMeta api.RequestMeta) (commitMeta, error) {
	m := commitMeta{actor: h.actorOf(ctx, reqMeta), cause: c.cause}
	if reqMeta.Key == "" {
		return m, nil
	}
	body, err := events.EncodePayload(c.body)
	if err != nil {
		return m, fmt.Errorf("%s: %w", c.op, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", reqMeta.Actor, c.op, body)) // the same at every host
	m.key, m.digest, m.log = reqMeta.Key, hex.EncodeToString(sum[:16]), h.log
	m.cause += " " + reqMeta.Key
	return m, nil
}

// keyedMetaByID is keyedMeta for a request that creates something with an id. A repeat finds it by the id, and decides on the
// current state.
func (h *Host) keyedMetaByID(ctx context.Context, c requestContent, reqMeta api.RequestMeta) (commitMeta, error) {
	m, err := h.keyedMeta(ctx, c, reqMeta)
	m.cause, m.byID = c.cause, true
	return m, err
}

// checkDigest refuses a key that an earlier, different request of the session used. The salt of a digest is in the commit of that
// request. A commit with redacted payloads has it no more, so that no request equals its own.
func (m *commitMeta) checkDigest(ctx context.Context, id events.SessionID, r projector.Request) error {
	e, err := m.log.CommitAt(ctx, id, r.Seq)
	if err != nil {
		return fmt.Errorf("key %s: compare with the earlier request: %w", m.key, err)
	}
	if r.Digest != events.SaltDigest(e.Commit.Salt, m.digest) {
		return fmt.Errorf("key %s: %w", m.key, api.ErrDifferent)
	}
	return nil
}

// committedAt returns the sequence of the request's commit; 0 where the history has none. [Host.tryDecide] searches for
// it in every state that guards an append.
func (m *commitMeta) committedAt(ctx context.Context, s *projector.State) (events.Seq, error) {
	if m.key == "" {
		return 0, nil
	}
	r, ok, err := s.FindRequest(m.key)
	if err != nil || !ok {
		return 0, err
	}
	return r.Seq, m.checkDigest(ctx, s.Session, r)
}

// decideOrRepeat returns the events of a request on a state. Where the history already has the request's commit, the decision
// runs on the state before that commit, for its answer, and appends nothing. Two copies of a request at once:
//
//  1. Both decide on the state at sequence n.
//  2. One append commits n+1.
//  3. The other append expects n and conflicts; its next try finds the commit in the newer state.
func (h *Host) decideOrRepeat(ctx context.Context, s *projector.State, meta commitMeta, d decideFunc, fresh bool) ([]events.Event, error) {
	seq, err := meta.committedAt(ctx, s)
	switch {
	case err != nil || seq != 0 && !fresh:
		return nil, err
	case seq == 0:
		return d(s)
	}
	api.RecordSeq(ctx, s.Session, seq)
	if meta.byID {
		return d(s)
	}
	before, err := h.stateBeforeCommit(ctx, s, seq)
	if err == nil {
		_, err = d(before)
	}
	return nil, err
}

// repeatOf returns the sequence of the request's commit, and records it for the response; 0 where the history has none.
// Code that prepares a decision uses it to find a repeat first.
func (m *commitMeta) repeatOf(ctx context.Context, s *projector.State) (events.Seq, error) {
	seq, err := m.committedAt(ctx, s)
	if err == nil && seq != 0 {
		api.RecordSeq(ctx, s.Session, seq)
	}
	return seq, err
}

// stateBeforeCommit returns the state before a commit.
func (h *Host) stateBeforeCommit(ctx context.Context, s *projector.State, seq events.Seq) (*projector.State, error) {
	return follow.ReadAt(ctx, h.log, h.b, s.Session, seq-1)
}
