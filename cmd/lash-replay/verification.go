package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/blob"
)

// verification is the verification of one session.
type verification struct {
	trust    *trust // signatures that count
	found    findings
	src      source
	id       events.SessionID
	verifier *projector.Verifier
	stored   *follow.Snapshot   // compared when the fold reaches its sequence; nil: none, or not usable
	restored *projector.State   // of stored
	blobs    map[string]bool    // digests of checked blobs
	audit    *proof.Auditor     // nil: no key
	records  []*storedRedaction // of the history
	unnamed  int64              // redacted events that no record names
	redacted events.Seq         // first commit without a payload: nothing is folded from there on
	locked   uint32             // key without which that commit cannot be read; 0 where it is redacted
	mark     events.Mark        // from where on the history is encrypted
}

func (v *verification) run(ctx context.Context) error {
	v.found.Sessions++
	if err := v.loadSnapshot(ctx); err != nil { // before the history, because a running node may append meanwhile
		return err
	}
	last, err := v.src.Log().Last(ctx, v.id)
	if err != nil {
		return err
	}
	if v.records, err = redactions(ctx, v.src, v.id); err != nil {
		return err
	}
	if v.startAudit(last); v.stored == nil {
		v.verifier = projector.NewUnprovenVerifier(v.id) // the audit hashes the commits, where there is a key
	}
	for entry, err := range v.src.Log().Read(ctx, v.id, 1) {
		if err == nil {
			v.auditCommit(entry)
			err = v.commit(ctx, entry)
		}
		switch {
		case err == nil:
		case isDamage(err):
			v.violation(v.verifier.State().Seq+1, -1, checkHistory, err.Error())
		default:
			return fmt.Errorf("verify %s: %w", v.id, err)
		}
	}
	v.endAudit(last)
	v.notePlain()
	v.noteRedactions()
	if v.redacted > 0 {
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: nothing but the proof is checked from sequence %d on, where payloads are %s", v.id, v.redacted, v.absent()))
		return nil
	}
	if !slices.ContainsFunc(v.found.Violations, func(f finding) bool { return f.Check == projector.RuleState }) {
		v.addAll(v.verifier.CheckWhole()) // finds what changed after its commit
	}
	if at := v.verifier.State().Seq; v.stored != nil && v.stored.Seq > at {
		v.violation(0, -1, checkSnapshot, fmt.Sprintf("the snapshot is of sequence %d, the history can be folded to %d", v.stored.Seq, at))
	}
	return nil
}

// notePlain names the commits that any writer could have made, where there are keys of bodies.
func (v *verification) notePlain() {
	if v.src.Keys() == nil || v.mark.Plain == 0 {
		return
	}
	upto := fmt.Sprintf("up to commit %d", v.mark.Plain)
	if v.mark.From == 0 {
		upto = "as a whole"
	}
	v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: it is stored plain %s: no key shows that a node made these commits", v.id, upto))
}

// absent says why payloads cannot be read.
func (v *verification) absent() string {
	if v.locked != 0 {
		return connect.Advised(&events.KeyError{ID: v.locked}).Error()
	}
	return "redacted"
}

// isDamage distinguishes damaged data from a failed read.
func isDamage(err error) bool {
	for _, sentinel := range []error{
		events.ErrMalformed, events.ErrInvalid, events.ErrInvalidID, events.ErrTooLarge, bus.ErrNotFound,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

func (v *verification) violation(seq events.Seq, event int, check projector.Rule, problem string) {
	v.addAll([]projector.Violation{{Seq: seq, Event: event, Check: check, Problem: problem}})
}

func (v *verification) addAll(list []projector.Violation) {
	for _, one := range list {
		f := finding{Session: v.id, Seq: one.Seq, Check: one.Check, Problem: one.Problem}
		if one.Event >= 0 {
			f.Event = &one.Event
		}
		v.found.Violations = append(v.found.Violations, f)
	}
}

func (v *verification) commit(ctx context.Context, e events.Entry) error {
	v.found.Commits++
	v.found.Events += int64(len(e.Commit.Events))
	if v.redacted == 0 && slices.ContainsFunc(e.Commit.Events, func(ev events.Event) bool { return ev.Absent() }) {
		v.redacted, v.locked = e.Seq, e.Commit.Locked()
	}
	v.unrecorded(e)
	if err := v.mark.Next(e); err != nil {
		v.violation(e.Seq, -1, checkHistory, err.Error())
	}
	if v.redacted > 0 {
		return nil
	}
	found, err := follow.Verify(ctx, v.src, v.verifier, e)
	v.addAll(found)
	if err == nil && e.Seq == 1 {
		err = v.base(ctx, e)
	}
	if err != nil && isDamage(err) {
		v.violation(e.Seq, -1, checkBase, err.Error())
	} else if err != nil {
		return err
	}
	v.addAll(v.verifier.Check())
	for i := range e.Commit.Events {
		ev := &e.Commit.Events[i]
		switch ev.Payload.(type) {
		case *events.ModelReplied, *events.ModelFailed, *events.ModelInterrupted:
			v.found.Prompts++
		}
		err := blob.Visit(ctx, v.src, ev.Payload, func(ref events.BlobRef, _ func() ([]byte, error)) error {
			return v.blob(ctx, e.Seq, i, ref)
		})
		if err != nil && !isDamage(err) { // damage in a base is reported
			return err
		}
	}
	if v.stored != nil && v.stored.Seq == e.Seq && v.verifier.State().Seq == e.Seq {
		return v.compare(ctx)
	}
	return nil
}

// base compares the beginning of a copy with the original history, where that still exists.
func (v *verification) base(ctx context.Context, e events.Entry) error {
	if projector.BaseOf(e.Commit).IsZero() {
		return nil
	}
	from := v.verifier.State().Forked
	ancestor, err := follow.ReadAt(ctx, v.src.Log(), v.src, from.Session, from.Seq)
	switch {
	case errors.Is(err, events.ErrNoSession):
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: its base is not compared: session %s, of which it is a copy, is not in the same source", v.id, from.Session))
		return nil
	case err != nil:
		return fmt.Errorf("session %s, of which it is a copy: %w", from.Session, err)
	}
	v.found.Bases++
	if err := v.verifier.State().CheckBase(ancestor); err != nil {
		v.violation(e.Seq, -1, checkBase, err.Error())
	}
	return nil
}

// blobWait bounds the read of one body: chunks of a damaged body may never arrive.
const blobWait = time.Minute

// blob checks the body of an event. An error means that it could not be checked.
func (v *verification) blob(ctx context.Context, seq events.Seq, event int, ref events.BlobRef) error {
	if v.blobs[ref.Digest] {
		return nil
	}
	v.blobs[ref.Digest] = true
	v.found.Blobs++
	ctx, cancel := context.WithTimeout(ctx, blobWait)
	defer cancel()
	body, err := v.src.Blob(ctx, ref)
	switch got := projector.RefOf(body); {
	case err != nil && isDamage(err):
		v.violation(seq, event, checkBlob, err.Error())
	case err != nil:
		return err
	case got != ref:
		v.violation(seq, event, checkBlob, fmt.Sprintf("blob %s of %d bytes is recorded as %s of %d", got.Digest, got.Size, ref.Digest, ref.Size))
	}
	return nil
}

// loadSnapshot reads the session's snapshot, and checks what does not depend on the history.
func (v *verification) loadSnapshot(ctx context.Context) error {
	stored, err := v.src.Snapshot(ctx, v.id)
	switch {
	case err != nil && isDamage(err):
		v.violation(0, -1, checkSnapshot, err.Error())
		return nil
	case err != nil || stored == nil:
		return err
	}
	v.found.Snapshots++
	if digest := projector.RefOf(stored.Head).Digest; digest != stored.Digest {
		v.violation(stored.Seq, -1, checkSnapshot, fmt.Sprintf("the head has digest %s, its row says %s", digest, stored.Digest))
	}
	v.restored, err = projector.Restore(stored.Head)
	switch {
	case errors.Is(err, projector.ErrOldFold):
		v.found.Snapshots--
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: not compared: %v", v.id, err))
		return nil
	case err != nil:
		v.violation(stored.Seq, -1, checkSnapshot, err.Error())
		return nil
	case v.restored.Seq != stored.Seq:
		v.violation(stored.Seq, -1, checkSnapshot, fmt.Sprintf("the head is of sequence %d, its row says %d", v.restored.Seq, stored.Seq))
		return nil
	}
	v.stored = stored
	return nil
}

// compare compares the stored snapshot with the fold at its sequence, and checks that its segments exist.
func (v *verification) compare(ctx context.Context) error {
	head, _, err := v.verifier.State().Snapshot()
	if err != nil {
		return err
	}
	if !bytes.Equal(head, v.stored.Head) {
		problem := fmt.Sprintf("the stored head has digest %s, the history folds to %s", projector.RefOf(v.stored.Head).Digest, projector.RefOf(head).Digest)
		var names []string
		for _, c := range changes(fieldsOf(v.restored.Head), fieldsOf(v.verifier.State().Head)) {
			names = append(names, c.Name)
		}
		problem += "; different: " + strings.Join(names, ", ")
		v.violation(v.stored.Seq, -1, checkSnapshot, problem)
	}
	ctx, cancel := context.WithTimeout(ctx, blobWait)
	defer cancel()
	if err = follow.Complete(ctx, v.src, v.restored); err != nil && isDamage(err) {
		v.violation(v.stored.Seq, -1, checkSnapshot, "segment: "+errors.Unwrap(err).Error())
		err = nil
	}
	return err
}
