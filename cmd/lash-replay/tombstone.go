package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session/transcript"
)

// tombstone is the tombstone of an erased session, for output.
type tombstone struct {
	Session   events.SessionID `json:"session"`
	At        string           `json:"at"`
	By        string           `json:"by"`
	Retention bool             `json:"retention,omitempty"` // its retention had ended; otherwise a caller requested it
	Reason    string           `json:"reason"`
	Commits   events.Seq       `json:"commits"`
	Signed    bool             `json:"signed"`
	Root      string           `json:"root,omitempty"`      // of all commits; once the signature is checked
	Head      events.Seq       `json:"head,omitempty"`      // number of commits under the last signed head; likewise
	SignedBy  string           `json:"signed_by,omitempty"` // key and tenant; likewise
	at        events.Millis
}

func tombstoneOf(id events.SessionID, t bus.Tombstone) *tombstone {
	return &tombstone{
		Session: id, At: eventjson.Clock(t.At), By: t.By, Retention: t.Retention, Reason: t.Reason, Commits: t.Last, Signed: t.Note != "", at: t.At,
	}
}

func (g *tombstone) String() string {
	on := "on request"
	if g.Retention {
		on = "at the end of its retention"
	}
	text := transcript.VisibleLine(fmt.Sprintf("%s: erased at %s by %s, %s: %s; its history had %s", g.Session, g.At, g.By, on, g.Reason, program.Number(int64(g.Commits), "commit")))
	switch {
	case g.SignedBy == "" && g.Signed:
		return text + "; the signature of the tombstone is not verified"
	case g.SignedBy == "":
		return text + "; the tombstone is not signed"
	}
	if g.Root != "" {
		text += " with the root " + g.Root
	}
	if g.Head > 0 {
		text += fmt.Sprintf(", its last head covers %d", g.Head)
	}
	return text + "; signed by " + g.SignedBy
}

// withTombstone adds to the error of an erased session that its tombstone is signed.
func (e *env) withTombstone(ctx context.Context, src source, id events.SessionID, erased error) error {
	t, err := src.Tombstone(ctx, id)
	if err != nil || t.Note == "" {
		return erased
	}
	return fmt.Errorf("%w; its history had %s: lash-replay verify %s%s checks the signed tombstone", erased, program.Number(int64(t.Last), "commit"), id, e.source.where())
}

// tombstone checks what stays of an erased session.
func (v *verification) tombstone(ctx context.Context) error {
	t, err := v.src.Tombstone(ctx, v.id)
	if err != nil {
		return err
	}
	g := tombstoneOf(v.id, t)
	v.found.Tombstones = append(v.found.Tombstones, g)
	switch {
	case len(v.trust.tenants) == 0:
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: its tombstone is not checked: --key gives the tenant's public key", v.id))
		return nil
	case t.Note == "":
		v.addFault(proof.Finding{Fault: proof.FaultUnsigned, Problem: "the session was erased, and its tombstone is not signed"})
		return nil
	}
	signed, cert, err := proof.ReadTombstone([]byte(t.Note), v.trust.tenants)
	switch {
	case errors.Is(err, proof.ErrUnknownKey):
		v.addFault(proof.Finding{Fault: proof.FaultKey, Problem: err.Error()})
		return nil
	case err != nil:
		v.addFault(proof.Finding{Fault: proof.FaultAltered, Problem: err.Error()})
		return nil
	}
	if signed.Session != v.id || signed.At != t.At || signed.By != t.By || signed.Reason != t.Reason || signed.Size != t.Last || signed.Retention != t.Retention {
		v.addFault(proof.Finding{Fault: proof.FaultAltered, Problem: "the tombstone is not the one that was signed"})
		return nil
	}
	g.SignedBy = cert.Name + " of " + cert.Tenant
	if signed.Root != nil {
		g.Root = base64.StdEncoding.EncodeToString(signed.Root[:])
	}
	v.compareHeads(g, signed)
	return nil
}

// compareHeads checks the last head of an erased history, and compares the tombstone with the heads of other places.
func (v *verification) compareHeads(g *tombstone, t *proof.Tombstone) {
	last, err := t.LastHead(v.trust.tenants)
	switch {
	case errors.Is(err, proof.ErrContradiction):
		v.addFault(proof.Finding{Fault: proof.FaultConflicting, Problem: err.Error()})
	case err != nil:
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: the tombstone is signed; the %v", v.id, err))
	case last != nil:
		g.Head, v.found.lastHead = last.Size, last
	}
	for _, h := range v.trust.heads[v.id] {
		v.compareHead(t, last, h)
	}
}

// compareHead compares a tombstone, and the last head of the erased history, with a head of another place. The history
// had every head that signs a part of it, so the last one covers at least as much as each other.
func (v *verification) compareHead(t *proof.Tombstone, last, h *proof.Head) {
	conflict := func(format string, args ...any) {
		v.addFault(proof.Finding{Fault: proof.FaultConflicting, Seq: h.Size, Problem: fmt.Sprintf(format, args...)})
	}
	switch {
	case h.Size > t.Size:
		v.addFault(proof.Finding{Fault: proof.FaultRolledBack, Seq: t.Size + 1, Problem: fmt.Sprintf(
			"the given head covers %s, the erased history had %d: commits were cut off before the erasure", program.Number(int64(h.Size), "commit"), t.Size)})
	case h.Size == t.Size && t.Root != nil, last != nil && h.Size == last.Size:
		if h.Size == t.Size && t.Root != nil && h.Root != *t.Root || last != nil && h.Size == last.Size && h.Root != last.Root {
			conflict("the erased history is not the one that the given head of %s signs", program.Number(int64(h.Size), "commit"))
		}
	case last != nil && h.Size < last.Size:
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: the given head of %s cannot be compared with the root of an erased history of %d", v.id, program.Number(int64(h.Size), "commit"), t.Size))
	case t.Root == nil:
		conflict("the erased history could not be read to its end, and nothing shows that it was the one that the given head of %s signs", program.Number(int64(h.Size), "commit"))
	case last != nil:
		conflict("the last head of the erased history covers %s, the given one %d: it was of another history", program.Number(int64(last.Size), "commit"), h.Size)
	case t.Head == "":
		conflict("the erased history had no head, and the given one covers %s: it was of another history", program.Number(int64(h.Size), "commit"))
	default: // the last head is of an unknown key
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: the given head of %s cannot be compared: the last head of the erased history is not verified", v.id, program.Number(int64(h.Size), "commit")))
	}
}
