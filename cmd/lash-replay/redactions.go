package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session/transcript"
)

// storedRedaction is the record of a redaction, for output.
type storedRedaction struct {
	At       string   `json:"at"`
	By       string   `json:"by"`
	Reason   string   `json:"reason"`
	What     []string `json:"what"` // kinds, patterns of kinds, and ids of events
	Events   int64    `json:"events"`
	Signed   bool     `json:"signed"`
	SignedBy string   `json:"signed_by,omitempty"` // key and tenant; once the signature is checked
	record   events.RedactionRecord
}

func (r *storedRedaction) String() string {
	text := fmt.Sprintf("%s redacted at %s by %s: %s (%s)", program.Number(r.Events, "event"), r.At, r.By, r.Reason, strings.Join(r.What, ", "))
	if r.SignedBy != "" {
		text += "; signed by " + r.SignedBy
	}
	return transcript.VisibleLine(text)
}

// redactions lists the redactions of a session.
func redactions(ctx context.Context, src source, id events.SessionID) ([]*storedRedaction, error) {
	records, err := src.Redactions(ctx, id)
	return shownRedactions(records), err
}

func shownRedactions(records []events.RedactionRecord) (list []*storedRedaction) {
	for _, r := range records {
		list = append(list, &storedRedaction{
			At: eventjson.Clock(r.At), By: r.By, Reason: r.Reason, What: r.What, Events: r.Events, Signed: r.Note != "", record: r,
		})
	}
	return list
}

// showRedactions prints the redactions of a session.
func (e *env) showRedactions(ctx context.Context, src source, id events.SessionID) error {
	list, err := redactions(ctx, src, id)
	for _, r := range list {
		e.println(r.String())
	}
	return err
}

// auditRecords checks the signatures of the redactions. The root that each signs must be that of the history. A record of an
// archive file may be unsigned: the program that wrote the file may have had no key.
func (v *verification) auditRecords(last events.Seq) {
	for _, r := range v.records {
		if r.record.Note == "" {
			if problem := "a redaction is not signed: " + r.String(); isFile(v.src) {
				v.note(problem)
			} else {
				v.addFault(proof.Finding{Fault: proof.FaultUnsigned, Problem: problem})
			}
			continue
		}
		signed, cert, err := proof.ReadRedaction([]byte(r.record.Note), v.trust.tenants)
		switch {
		case errors.Is(err, proof.ErrUnknownKey):
			v.addFault(proof.Finding{Fault: proof.FaultKey, Problem: err.Error()})
		case err != nil:
			v.addFault(proof.Finding{Fault: proof.FaultAltered, Problem: err.Error()})
		case signed.Session != v.id || signed.At != r.record.At || signed.By != r.record.By || signed.Reason != r.record.Reason || !slices.Equal(signed.What, r.record.What):
			v.addFault(proof.Finding{Fault: proof.FaultAltered, Problem: "a redaction is not the one that was signed: " + r.String()})
		default:
			r.SignedBy = cert.Name + " of " + cert.Tenant
			v.expect(&proof.Head{Session: v.id, Size: signed.Size, Root: signed.Root}, last)
		}
	}
}

// unrecorded reports payloads of a commit that are missing, and that no redaction names. In an archive file it is a note: those of
// earlier versions have no records.
func (v *verification) unrecorded(e events.Entry) {
	for i := range e.Commit.Events {
		named := func(r *storedRedaction) bool { return r.record.Names(e, i) }
		switch {
		case e.Commit.Events[i].Redacted == nil || slices.ContainsFunc(v.records, named):
		case isFile(v.src):
			v.unnamed++
		default:
			v.addFault(proof.Finding{Fault: "redacted", Seq: e.Seq, ID: e.Commit.ID, Problem: fmt.Sprintf("the payload of event %d is missing, and no redaction names it", i)})
		}
	}
}

// noteRedactions says what was redacted, where no key makes it a part of what is proven.
func (v *verification) noteRedactions() {
	if v.unnamed > 0 {
		v.note(fmt.Sprintf("who redacted %s, and why, is not in the archive", program.Number(v.unnamed, "event")))
	}
	if v.audit == nil {
		for _, r := range v.records {
			v.note(r.String())
		}
	}
}

func (v *verification) note(text string) {
	v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: %s", v.id, text))
}
