package proof

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// KeptLeaves is the number of commits without a head after which the next commit gets one, whatever it is. A head
// names these commits one by one, and older ones only together.
const KeptLeaves = 32

// State is what a session's fold keeps for the next head.
type State struct {
	Tree Tree       `msgpack:"t,omitempty"`
	Head events.Seq `msgpack:"h,omitempty"` // of the last commit with a head; 0 without one
	Due  bool       `msgpack:"d,omitempty"` // a turn has ended since
}

// Clone returns a copy to which commits can be added.
func (s State) Clone() State {
	s.Tree = s.Tree.Clone()
	return s
}

// IsZero reports whether the history has no commit.
func (s State) IsZero() bool { return s.Tree.IsZero() }

// Apply folds an event of a commit.
func (s *State) Apply(ev *events.Event, at events.Seq) {
	if ev.Kind == events.KindAuditHeadSigned {
		s.Head, s.Due = at, false
	} else if endsTurn(ev.Kind) {
		s.Due = true
	}
}

// Commit adds the leaf of a commit whose events were applied.
func (s *State) Commit(at events.Seq, leaf Hash) {
	s.Tree.Append(leaf)
	switch {
	case s.Head == at:
		s.Tree.Keep(1)
	case len(s.Tree.Leaves) >= 2*KeptLeaves*hashBytes: // many at once, which is cheaper
		s.Tree.Keep(KeptLeaves)
	}
}

// Needs reports whether a commit on this state gets a head: it ends a turn or the session, an earlier one did and has
// none, or many have none.
func (s *State) Needs(c *events.Commit) bool {
	return s.Due || s.Tree.Size() >= int64(s.Head)+KeptLeaves-1 || slices.ContainsFunc(c.Events, func(ev events.Event) bool { return endsTurn(ev.Kind) })
}

// endsTurn reports whether an event ends a turn, or the session.
func endsTurn(kind events.Kind) bool {
	return kind == events.KindTurnCompleted || kind == events.KindTurnDiverted || kind == events.KindSessionClosed
}

// Signer signs heads with a node's key.
type Signer struct {
	key  crypto.Signer
	cert *Certificate
}

// NewSigner makes a signer of a certified Ed25519 key.
func NewSigner(key crypto.Signer, cert *Certificate) (*Signer, error) {
	if public, ok := key.Public().(ed25519.PublicKey); !ok || !public.Equal(cert.Key) {
		return nil, errors.New("new signer: the certificate is of another key")
	}
	return &Signer{key: key, cert: cert}, nil
}

// Certificate is the certificate of the key.
func (s *Signer) Certificate() *Certificate { return s.cert }

// Sign returns a copy of the commit with a head, for an append to a history with that state. Errors: those of
// [events.Encode] for the commit, [events.ErrTooLarge] also where it has no place for the head; those of the key.
func (s *Signer) Sign(c *events.Commit, on *State) (*events.Commit, *Head, error) {
	head := &events.AuditHeadSigned{
		Key: s.cert.Digest[:], Certificate: s.cert.Text, Before: on.Tree.Before, Edge: on.Tree.Edge, Leaves: on.Tree.Leaves,
		Signature: make([]byte, ed25519.SignatureSize),
	}
	if len(c.Events) >= events.MaxEvents {
		return nil, nil, fmt.Errorf("sign head of %s: %w: the commit has %d events", c.Session, events.ErrTooLarge, len(c.Events))
	}
	signed := *c
	signed.Events = append(slices.Clip(c.Events), events.Of("", head))
	leaf, _, err := events.HashOf(&signed)
	if err != nil {
		return nil, nil, fmt.Errorf("sign head of %s: %w", c.Session, err)
	}
	h := &Head{Session: c.Session, Size: events.Seq(on.Tree.Size() + 1), Root: on.Tree.Root(leaf), Origin: s.cert.Origin(c.Session)}
	text := checkpoint(h.Origin, int64(h.Size), h.Root)
	if head.Signature, err = s.key.Sign(nil, []byte(text), crypto.Hash(0)); err != nil {
		return nil, nil, fmt.Errorf("sign head of %s: %w", c.Session, err)
	}
	h.Note = signedNote(s.cert, h.Origin, text, head.Signature)
	return &signed, h, nil
}
