package events_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
)

func signedHistory(tb testing.TB, turns ...int) (*writer, note.Verifier) {
	tb.Helper()
	tenant, verifier := tenantOf(tb, "example.com/agents")
	w := &writer{TB: tb, signer: signerOf(tb, tenant, "node1", 0, math.MaxInt64)}
	w.append(events.Of("", &events.SessionOpened{}))
	for _, n := range turns {
		w.turn(n)
	}
	return w, verifier
}

func TestAuditOfUntouched(t *testing.T) {
	t.Parallel()
	for _, turns := range [][]int{{1}, {3}, {3, 1, 2}, {40, 2}, {100}, {2, 33, 31, 32, 5}} {
		w, tenant := signedHistory(t, turns...)
		report, found := audit(w.log, w.heads, tenant)
		if len(found) > 0 || int(report.Heads) != len(w.heads) || int(report.Proven) != len(w.log) || report.After != 0 {
			t.Errorf("turns of %v: got %+v, %+v, want %d heads and all proven", turns, report, found, len(w.heads))
		}
		w.append(events.Of("", &events.SessionExtended{Extension: events.Extension{Type: "x"}}))
		if report, found = audit(w.log, nil, tenant); len(found) > 0 || report.After != 1 {
			t.Errorf("turns of %v, and a commit: got %+v, %+v, want 1 after the last head", turns, report, found)
		}
	}
}

// TestAuditOfOlderHistory: commits from before a key are covered by the first head.
func TestAuditOfOlderHistory(t *testing.T) {
	t.Parallel()
	w, tenant := signedHistory(t, 3)
	signer := w.signer
	w = &writer{TB: t}
	for range 30 {
		w.turn(3)
	}
	report, found := audit(w.log, nil, tenant)
	if report.Proven != 0 || report.After != 90 || len(found) != 1 || found[0].Fault != proof.FaultUnsigned || found[0].Seq != 3 || found[0].ID != w.log[2].Commit.ID {
		t.Errorf("unsigned: got %+v, %+v, want it refused", report, found)
	}
	w.signer = signer
	w.turn(3)
	if report, found = audit(w.log, nil, tenant); len(found) > 0 || report.Proven != 93 {
		t.Errorf("signed later: got %+v, %+v, want all proven", report, found)
	}
	altered := slices.Clone(w.log)
	altered[10] = proofChanged(t, altered[10], func(c *events.Commit) { c.Cause = "x" })
	if _, found = audit(altered, nil, tenant); len(found) != 1 || found[0].Seq > 11 || found[0].Upto < 11 {
		t.Errorf("altered before the first head: got %+v, want a range with 11", found)
	}
}

func proofChanged(tb testing.TB, e events.Entry, change func(*events.Commit)) events.Entry {
	tb.Helper()
	c := *e.Commit
	c.Events = slices.Clone(c.Events)
	change(&c)
	data, err := events.Encode(&c)
	runtest.NoError(tb, err)
	return entry(tb, e.Seq, data)
}

func TestAuditOfKeys(t *testing.T) {
	t.Parallel()
	tenant, trusted := tenantOf(t, "example.com/agents")
	next, trustedNext := tenantOf(t, "example.com/agents-2027")
	_, stranger := tenantOf(t, "example.com/others")
	w := &writer{TB: t, signer: signerOf(t, tenant, "node1", 0, 7000)}
	w.append(events.Of("", &events.SessionOpened{}))
	w.turn(2)
	w.turn(2)
	w.signer = signerOf(t, tenant, "node2", 0, 20_000) // a new key of the node
	w.turn(2)
	w.signer = signerOf(t, next, "node2", 0, 20_000) // a new key of the tenant
	w.turn(2)
	report, found := audit(w.log, nil, trusted, trustedNext)
	if len(found) > 0 || len(report.Keys) != 3 || report.Heads != 4 {
		t.Errorf("rotated keys: got %+v, %+v, want 3 keys", report, found)
	}
	if report, found = audit(w.log, nil, trusted); len(found) != 1 || found[0].Fault != proof.FaultKey || found[0].Seq != 9 || report.Proven != 7 {
		t.Errorf("without the second tenant's key: got %+v, %+v, want the last head refused", report, found)
	}
	if report, found = audit(w.log, nil, stranger); len(found) == 0 || report.Heads != 0 || !strings.Contains(found[0].Problem, proof.ErrUnknownKey.Error()) {
		t.Errorf("with the key of another: got %+v, %+v, want no head", report, found)
	}
	w.signer = signerOf(t, tenant, "node1", 0, 7000)
	w.turn(2)
	if report, found = audit(w.log, nil, trusted, trustedNext); len(found) != 1 || found[0].Fault != proof.FaultExpired || found[0].Seq != 11 {
		t.Errorf("with an expired key: got %+v, %+v", report, found)
	}
}

// TestRolledBack: a history that ends at an earlier head is correct, and contradicts the head that the auditor has.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	w, tenant := signedHistory(t, 3, 3)
	last := w.heads[1]
	text := []byte(last.Note)
	h, cert, err := proof.ReadHead(text, []note.Verifier{tenant})
	if err != nil || h.Size != 7 || h.Session != sid || h.Root != last.Root || cert.Name != "node1" {
		t.Fatalf("read head: got %+v, %+v, %v", h, cert, err)
	}
	if _, found := audit(w.log[:4], nil, tenant); len(found) > 0 {
		t.Errorf("cut at a head, without another head: got %+v", found)
	}
	_, found := audit(w.log[:4], []*proof.Head{h}, tenant)
	if len(found) != 1 || found[0].Fault != proof.FaultRolledBack || found[0].Seq != 5 {
		t.Errorf("cut at a head: got %+v, want it found at 5", found)
	}
	other := w.log[:4:4]
	o := &writer{TB: t, log: other, state: w.state, signer: w.signer}
	o.state = proof.State{}
	for _, e := range other {
		for i := range e.Commit.Events {
			o.state.Apply(&e.Commit.Events[i], e.Seq)
		}
		o.state.Commit(e.Seq, events.CommitHash(e.Data))
	}
	o.append(events.Of("", &events.TaskRemoved{Task: "k"}))
	o.turn(4)
	if _, found := audit(o.log, []*proof.Head{h}, tenant); len(found) != 1 || found[0].Fault != proof.FaultConflicting || found[0].Seq != 7 || found[0].ID != o.log[6].Commit.ID {
		t.Errorf("another history, with the key: got %+v, want it found at 7", found)
	}
	_, stranger := tenantOf(t, "example.com/others")
	_, _, err = proof.ReadHead(text, []note.Verifier{stranger})
	runtest.WantError(t, "head of another", err, proof.ErrUnknownKey)
	forged := strings.Replace(last.Note, "\n7\n", "\n8\n", 1)
	if _, _, err := proof.ReadHead([]byte(forged), []note.Verifier{tenant}); err == nil {
		t.Error("forged head: got no error")
	}
}
