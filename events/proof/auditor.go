package proof

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
)

// Fault is the kind of a [Finding].
type Fault string

// Faults that an [Auditor] finds.
const (
	FaultAltered     Fault = "altered"     // the commit is not the one that was signed
	FaultRemoved     Fault = "removed"     // a signed commit is missing
	FaultInserted    Fault = "inserted"    // the commit is not among the signed ones
	FaultMoved       Fault = "moved"       // the commit was signed at another place
	FaultHead        Fault = "head"        // a head in a form that nodes do not write
	FaultKey         Fault = "key"         // the head is of no trusted key
	FaultExpired     Fault = "expired"     // the certificate is not valid at the commit's time
	FaultUnsigned    Fault = "unsigned"    // a turn ended, and no head covers that
	FaultConflicting Fault = "conflicting" // the history is not that of a head from another place, or of another head
	FaultRolledBack  Fault = "rolled_back" // a head from another place covers more commits
)

// Finding is a fault of a history.
type Finding struct {
	Fault   Fault
	Seq     events.Seq      // of the commit; of a removed one the sequence that it had
	Upto    events.Seq      // last sequence, where only a range is known; otherwise 0
	ID      events.CommitID // empty for a removed one
	Problem string
}

// Report is the result of an [Auditor].
type Report struct {
	Heads    int64          // that verified
	Proven   events.Seq     // last commit under a head that verified; 0: none
	After    int64          // number of commits after that
	Redacted []Redaction    // commits without some payloads
	Keys     []*Certificate // of the heads, in the order of their first ones
	Last     *Head          // the last head that verified, for a later [Auditor.Expect]; nil: none
}

// Redaction is a commit without some payloads.
type Redaction struct {
	Seq    events.Seq      `json:"seq"`
	ID     events.CommitID `json:"id"`
	Events int             `json:"events"` // without payload
}

// Auditor checks the heads of a session's history, commit by commit from the first one. It is not safe for concurrent
// use.
type Auditor struct {
	session events.SessionID
	tenants []note.Verifier
	certs   map[Hash]*Certificate // nil: not trusted
	expects []*Head               // of other places
	report  Report

	actual  Tree // of the commits as they are
	commits []commit
	heads   []signedHead // that verified
	named   map[events.Seq]bool
	covered events.Seq // by heads of other places
	found   []Finding  // of the current call
}

// signedHead is a head that its own commit proves.
type signedHead struct {
	*Head
	tree Tree // before that commit
	at   *commit
}

// commit is what an auditor keeps of a commit.
type commit struct {
	seq  events.Seq
	id   events.CommitID
	leaf Hash
	ends bool // it ends a turn
}

// NewAuditor starts before the first commit. tenants are the trusted keys.
func NewAuditor(session events.SessionID, tenants []note.Verifier) *Auditor {
	return &Auditor{session: session, tenants: tenants, certs: make(map[Hash]*Certificate), named: make(map[events.Seq]bool)}
}

// Expect adds a head from another place: the history must contain what it covers. Call it before the first commit.
func (a *Auditor) Expect(h *Head) { a.expects = append(a.expects, h) }

// Commit checks the next commit. The entry has the stored encoding.
func (a *Auditor) Commit(e events.Entry) []Finding {
	a.found = nil
	c := &commit{seq: e.Seq, id: e.Commit.ID}
	c.leaf, _, _ = e.Hash() // no error: the entry has its encoding
	if head := a.read(e, c); head != nil {
		if signed := a.verify(e, c, head); signed != nil {
			a.heads = append(a.heads, signedHead{signed, of(head), c})
		}
	}
	a.commits = append(a.commits, *c)
	a.actual.Append(c.leaf)
	a.actual.Keep(0)
	for _, h := range a.expects {
		if int64(h.Size) == a.actual.Size() {
			a.compare(h, c)
		}
	}
	return a.found
}

// read returns the head of a commit, or nil, and notes what else matters of its events.
func (a *Auditor) read(e events.Entry, c *commit) (head *events.AuditHeadSigned) {
	redacted, heads := 0, 0
	for i := range e.Commit.Events {
		ev := &e.Commit.Events[i]
		c.ends = c.ends || endsTurn(ev.Kind)
		if ev.Redacted != nil {
			redacted++
		}
		if p, ok := ev.Payload.(*events.AuditHeadSigned); ok {
			heads++
			head = p
		}
	}
	if redacted > 0 {
		a.report.Redacted = append(a.report.Redacted, Redaction{e.Seq, e.Commit.ID, redacted})
	}
	last := e.Commit.Events[len(e.Commit.Events)-1].Payload
	if _, ok := last.(*events.AuditHeadSigned); heads > 0 && (heads > 1 || !ok) {
		a.fault(FaultHead, c, "a commit has one head, which is its last event")
		return nil
	}
	return head
}

func (a *Auditor) fault(fault Fault, c *commit, problem string) {
	if !a.named[c.seq] {
		a.found = append(a.found, Finding{Fault: fault, Seq: c.seq, ID: c.id, Problem: problem})
	}
	a.named[c.seq] = true
}

// verify checks a head by its own commit alone. It returns nil where the head is wrong.
func (a *Auditor) verify(e events.Entry, c *commit, head *events.AuditHeadSigned) *Head {
	cert := a.certificate(c, head)
	if cert == nil {
		return nil
	}
	tree := of(head)
	signed := &Head{Session: a.session, Size: events.Seq(tree.Size() + 1), Origin: cert.Origin(a.session)}
	if tree.Check() == nil {
		signed.Root = tree.Root(c.leaf)
	}
	text := checkpoint(signed.Origin, int64(signed.Size), signed.Root)
	if tree.Check() != nil || !ed25519.Verify(cert.Key, []byte(text), head.Signature) {
		a.fault(FaultAltered, c, "the commit is not the one that its head signs: it was changed, or belongs to another history")
		return nil
	}
	if !cert.ValidAt(e.Commit.At) {
		a.fault(FaultExpired, c, fmt.Sprintf("at the commit's time, %s, the certificate of key %s is not valid: it is from %s to %s",
			timeOf(e.Commit.At), cert.Name, timeOf(cert.From), timeOf(cert.Until)))
		return nil
	}
	signed.Note = signedNote(cert, signed.Origin, text, head.Signature)
	return signed
}

func timeOf(at events.Millis) string { return at.Time().UTC().Format("2006-01-02T15:04:05Z") }

// certificate is the certificate of a head, or nil.
func (a *Auditor) certificate(c *commit, head *events.AuditHeadSigned) *Certificate {
	key := Hash(head.Key)
	if cert, known := a.certs[key]; known {
		if cert == nil {
			a.named[c.seq] = true // reported with the first head of that certificate
		}
		return cert
	}
	if head.Certificate == "" {
		a.fault(FaultKey, c, "its head names a certificate that is in no commit before it")
		return nil
	}
	cert, err := ReadCertificate(head.Certificate, a.tenants)
	if err == nil && cert.Digest != key {
		err = fmt.Errorf("%w: the head names another certificate than it has", events.ErrMalformed)
	}
	if err != nil {
		a.certs[key] = nil
		a.fault(FaultKey, c, "its head: "+err.Error())
		return nil
	}
	a.certs[key] = cert
	a.report.Keys = append(a.report.Keys, cert)
	return cert
}

func split(leaves []byte) []Hash {
	list := make([]Hash, 0, len(leaves)/hashBytes)
	for chunk := range slices.Chunk(leaves, hashBytes) {
		list = append(list, Hash(chunk))
	}
	return list
}

// compare compares the history up to a commit with a head from another place.
func (a *Auditor) compare(h *Head, c *commit) {
	if rootOf(a.actual.Edge) == h.Root {
		a.covered = max(a.covered, c.seq)
		return
	}
	a.found = append(a.found, Finding{
		Fault: FaultConflicting, Seq: c.seq, ID: c.id,
		Problem: fmt.Sprintf("the history up to this commit is not the one that the given head of %d commits signs", h.Size),
	})
}

// Close returns the result, and the findings about the history as a whole.
func (a *Auditor) Close() (Report, []Finding) {
	a.found = nil
	for _, h := range a.expects {
		if n := a.actual.Size(); int64(h.Size) > n {
			a.found = append(a.found, Finding{
				Fault: FaultRolledBack, Seq: events.Seq(n + 1),
				Problem: fmt.Sprintf("the given head covers %d commits, the history has %d: commits from sequence %d on were cut off", h.Size, n, n+1),
			})
		}
	}
	a.settle()
	a.report.Proven = max(a.report.Proven, a.covered)
	a.report.After = a.actual.Size() - int64(a.report.Proven)
	var ends []commit
	for _, c := range a.commits[a.report.Proven:] {
		if c.ends && !a.named[c.seq] {
			ends = append(ends, c)
		}
	}
	if len(ends) > 0 {
		problem := "it ends a turn, and no head covers it: the head was removed, or a program without a key appended it"
		if n := len(ends) - 1; n > 0 {
			problem += fmt.Sprintf("; so it is with %d more, up to %d (%s)", n, ends[n].seq, ends[n].id)
		}
		a.fault(FaultUnsigned, &ends[0], problem)
	}
	return a.report, a.found
}
