package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/keyring"
)

const checkProof projector.Rule = "proof"

// proofFlags say which signatures a verification trusts.
type proofFlags struct {
	Keys          []string `name:"key" sep:"none" placeholder:"KEY" help:"Public key of the tenant that certifies the nodes' keys: a file, or the key itself as name+hash+base64. May be given several times. Defaults to keys/tenant.pub in the store."`
	Heads         []string `name:"head" sep:"none" placeholder:"FILE" help:"Head that you got earlier, from another place than this history: a signed note, or lines of JSON as the setting heads of lash-node serve writes them. The history must contain what it covers, and be verified here; of lines of JSON, --all requires that. May be given several times."`
	WriteHead     string   `placeholder:"FILE" help:"Write the last head that verified to this file, as a signed note: for --head later, or for witnesses. For one session." writes:""`
	AllowUnsigned bool     `help:"Accept turns that end under no signed head, for example of an older version."`
}

// trust is what the flags name.
type trust struct {
	tenants []note.Verifier
	heads   map[events.SessionID][]*proof.Head
	named   map[events.SessionID]string // file of a head that has a file of its own, by session
	notes   []string

	allowUnsigned bool // turns may end under no signed head
}

// trusted reads the keys and heads.
func (f *proofFlags) trusted(store string) (*trust, error) {
	t := &trust{allowUnsigned: f.AllowUnsigned, heads: make(map[events.SessionID][]*proof.Head), named: make(map[events.SessionID]string)}
	for _, key := range f.Keys {
		list, err := readKey(key)
		if err != nil {
			return nil, fmt.Errorf("--key %s: %w", key, err)
		}
		t.tenants = append(t.tenants, list...)
	}
	if len(f.Keys) == 0 && store != "" {
		path := filepath.Join(keyring.Dir(store), keyring.TenantPub)
		list, err := readKey(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		default:
			t.tenants = list
			t.notes = append(t.notes, "the key comes from the store itself, so a program that could write there could sign anything: keep "+path+" in another place, and give it with --key")
		}
	}
	for _, path := range f.Heads {
		if err := t.readHeads(path); err != nil {
			return nil, fmt.Errorf("--head %s: %w", path, err)
		}
	}
	return t, nil
}

// readKey reads the keys in a file, or the key that the text is.
func readKey(text string) ([]note.Verifier, error) {
	if strings.Count(text, "+") >= 2 {
		if list, err := keyring.Verifiers(text); err == nil {
			return list, nil
		}
	}
	data, err := program.ReadFile(text, program.MaxFileBytes)
	if err != nil {
		return nil, err
	}
	return keyring.Verifiers(string(data))
}

// maxHeadsBytes bounds a file of heads, which nodes append to for years.
const maxHeadsBytes = 1 << 30

func (t *trust) readHeads(path string) error {
	if len(t.tenants) == 0 {
		return errors.New("a head needs --key: the tenant's public key")
	}
	data, err := program.ReadFile(path, maxHeadsBytes)
	if err != nil {
		return err
	}
	notes := [][]byte{data}
	lines := bytes.HasPrefix(data, []byte("{"))
	if lines {
		if notes, err = notesOf(data); err != nil {
			return err
		}
	}
	for _, text := range notes {
		h, _, err := proof.ReadHead(text, t.tenants)
		if err != nil {
			return err
		}
		t.heads[h.Session] = append(t.heads[h.Session], h)
		if !lines {
			t.named[h.Session] = path
		}
	}
	return nil
}

// notesOf reads lines of JSON.
func notesOf(data []byte) (notes [][]byte, err error) {
	for line := range bytes.Lines(data) {
		var head struct {
			Note string `json:"note"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // the node was killed in the middle of it
			}
			return nil, err
		}
		notes = append(notes, []byte(head.Note))
	}
	return notes, nil
}

// proven is what the heads of a session prove.
type proven struct {
	Session  events.SessionID   `json:"session"`
	Heads    int64              `json:"heads"`                // that verified
	Commits  events.Seq         `json:"proven"`               // from the first to this one
	First    events.Seq         `json:"after_from,omitempty"` // first commit after the last head
	Last     events.Seq         `json:"after_to,omitempty"`
	Keys     []string           `json:"keys,omitempty"`
	Redacted []proof.Redaction  `json:"redacted,omitempty"`
	Records  []*storedRedaction `json:"redactions,omitempty"` // records of the redactions
}

func (p *proven) String() string {
	text := fmt.Sprintf("%s: no commit is proven", p.Session)
	if p.Commits > 0 {
		text = fmt.Sprintf("%s: commits 1 to %d are as they were signed, by %s of %s", p.Session, p.Commits, program.Number(p.Heads, "head"), strings.Join(p.Keys, ", "))
	}
	if p.Last > 0 {
		text += fmt.Sprintf("; %d to %d come after the last head and are not proven", p.First, p.Last)
	}
	for _, r := range p.Records {
		text += fmt.Sprintf("\n%s: %s", p.Session, r)
	}
	for _, r := range p.Redacted {
		text += fmt.Sprintf("\n%s at %d (%s): %s without payload, which is redacted", p.Session, r.Seq, r.ID, program.Number(int64(r.Events), "event"))
	}
	return text
}

// audit starts the check of a session's heads; without a key there is none.
func (v *verification) startAudit(last events.Seq) {
	if len(v.trust.tenants) == 0 {
		return
	}
	v.audit = proof.NewAuditor(v.id, v.trust.tenants)
	for _, h := range v.trust.heads[v.id] {
		v.expect(h, last)
	}
	v.auditRecords(last)
}

// expect requires what a head covers. A history that is read up to --at need not have all of it.
func (v *verification) expect(h *proof.Head, last events.Seq) {
	if whole(v.src) != v.src && h.Size > last {
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: a head over %s is not compared: the history is read up to sequence %d", v.id, program.Number(int64(h.Size), "commit"), last))
		return
	}
	v.audit.Expect(h)
}

// auditCommit checks the heads up to a commit.
func (v *verification) auditCommit(e events.Entry) {
	if v.audit != nil {
		v.addFaults(v.audit.Commit(e))
		return
	}
	for i := range e.Commit.Events {
		if e.Commit.Events[i].Kind == events.KindAuditHeadSigned {
			v.found.Unchecked++
		}
	}
}

// endAudit reports what the heads prove.
func (v *verification) endAudit(last events.Seq) {
	if v.audit == nil {
		return
	}
	proved, faults := v.audit.Close()
	v.addFaults(faults)
	p := &proven{Session: v.id, Heads: proved.Heads, Commits: proved.Proven, Redacted: proved.Redacted, Records: v.records}
	for _, cert := range proved.Keys {
		p.Keys = append(p.Keys, cert.Name+" of "+cert.Tenant)
	}
	if proved.After > 0 {
		p.First, p.Last = proved.Proven+1, last
		if whole(v.src) != v.src {
			v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s: heads after sequence %d are not read: without --at they may prove more", v.id, last))
		}
	}
	v.found.Proven = append(v.found.Proven, p)
	v.found.lastHead = proved.Last
}

func (v *verification) addFaults(list []proof.Finding) {
	for _, f := range list {
		v.addFault(f)
	}
}

func (v *verification) addFault(f proof.Finding) {
	if f.Fault == proof.FaultUnsigned && v.trust.allowUnsigned {
		v.found.Notes = append(v.found.Notes, fmt.Sprintf("session %s at %d, commit %s: %s", v.id, f.Seq, f.ID, f.Problem))
		return
	}
	if f.Fault == proof.FaultUnsigned {
		f.Problem += " (--allow-unsigned accepts it)"
	}
	v.found.Violations = append(v.found.Violations, finding{Session: v.id, Seq: f.Seq, Upto: f.Upto, Commit: f.ID, Check: checkProof, Fault: f.Fault, Problem: f.Problem})
}

// unvisited reports the given heads of sessions that were not verified: with --all such a session is missing. Otherwise a
// head in a file of its own is an error, and lines of JSON may be about any session.
func (r *verifyRun) unvisited(all bool) error {
	left := make(map[events.SessionID]*proof.Head) // of the most commits
	for id, list := range r.trust.heads {
		left[id] = slices.MaxFunc(list, func(a, b *proof.Head) int { return cmp.Compare(a.Size, b.Size) })
	}
	for _, p := range r.found.Proven {
		delete(left, p.Session)
	}
	for _, g := range r.found.Tombstones {
		delete(left, g.Session)
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		switch path := r.trust.named[id]; {
		case all:
			r.add(finding{Session: id, Seq: 1, Upto: left[id].Size, Check: checkProof, Fault: proof.FaultRemoved, Problem: fmt.Sprintf(
				"the given head covers %s, and there is neither the session nor its tombstone", program.Number(int64(left[id].Size), "commit"))})
		case path != "" && len(r.found.Violations) == 0: // the session may be that of a damaged archive
			return fmt.Errorf("--head %s: it is of session %s, which is not verified here: name the session, or leave the head out", path, id)
		}
	}
	if n := len(left); n > 0 && !all {
		r.found.Notes = append(r.found.Notes, fmt.Sprintf("the given heads of %s are not compared: --all does that", program.Number(int64(n), "other session")))
	}
	return nil
}

// writeHead writes the last head for --write-head.
func (r *verifyRun) writeHead(path string) error {
	switch {
	case path == "":
		return nil
	case r.found.Sessions+int64(len(r.found.Tombstones)) != 1:
		return fmt.Errorf("--write-head: a file has the head of one session, these are %d", r.found.Sessions+int64(len(r.found.Tombstones)))
	case r.found.lastHead == nil:
		return errors.New("--write-head: no head verified")
	}
	if err := localfile.Write(path, []byte(r.found.lastHead.Note)); err != nil {
		return fmt.Errorf("--write-head: %w", err)
	}
	return nil
}
