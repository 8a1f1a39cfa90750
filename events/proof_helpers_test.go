package events_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
)

const sid = "s1"

// keyOf is the same key for the same name.
func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// tenantOf is a tenant's key for signing and for checking.
func tenantOf(tb testing.TB, name string) (note.Signer, note.Verifier) {
	tb.Helper()
	key := keyOf(name)
	public, err := proof.PublicKey(name, key.Public().(ed25519.PublicKey))
	runtest.NoError(tb, err)
	verifier, err := note.NewVerifier(public)
	runtest.NoError(tb, err)
	return tenantKey{verifier, key}, verifier
}

type tenantKey struct {
	note.Verifier
	key ed25519.PrivateKey
}

func (k tenantKey) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(k.key, msg), nil }

// signerOf is a signer whose key the tenant certified.
func signerOf(tb testing.TB, tenant note.Signer, name string, from, until events.Millis) *proof.Signer {
	tb.Helper()
	key := keyOf(name)
	cert, err := proof.Certify(tenant, name, key.Public().(ed25519.PublicKey), from, until)
	runtest.NoError(tb, err)
	signer, err := proof.NewSigner(key, cert)
	runtest.NoError(tb, err)
	return signer
}

// writer appends commits to a history, and signs heads as a host does.
type writer struct {
	testing.TB
	state  proof.State
	log    []events.Entry
	heads  []*proof.Head
	signer *proof.Signer // nil: no heads
}

func (w *writer) append(list ...events.Event) {
	w.Helper()
	n := len(w.log) + 1
	salt := sha256.Sum256(fmt.Append(nil, n))
	c := &events.Commit{
		ID: commitID(n), Session: sid, At: events.Millis(1000 * n), Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Salt: salt[:16], Events: list,
	}
	if w.signer != nil && w.state.Needs(c) {
		signed, head, err := w.signer.Sign(c, &w.state)
		if err != nil {
			w.Fatal(err)
		}
		c = signed
		w.heads = append(w.heads, head)
	}
	data, err := events.Encode(c)
	if err != nil {
		w.Fatal(err)
	}
	w.log = append(w.log, entry(w, events.Seq(n), data))
	for i := range c.Events {
		w.state.Apply(&c.Events[i], events.Seq(n))
	}
	w.state.Commit(events.Seq(n), events.CommitHash(data))
}

// turn appends a turn of that many commits.
func (w *writer) turn(commits int) {
	w.Helper()
	id := events.TurnID(fmt.Sprint("t", len(w.log)))
	for i := range commits - 1 {
		w.append(events.Of(id, &events.TaskHidden{Task: "k", Label: fmt.Sprint("step ", i)}), events.Of(id, &events.TaskPassedOn{Task: "k"}))
	}
	w.append(events.Of(id, &events.TurnCompleted{End: events.EndFinished}))
}

func commitID(n int) events.CommitID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	id := []byte("01JD6Z00000000000000000000")
	for i := 16; i < 26; i++ {
		id[i] = digits[sum[i]%32]
	}
	return events.CommitID(id)
}

func entry(tb testing.TB, seq events.Seq, data []byte) events.Entry {
	tb.Helper()
	c, err := events.Decode(data)
	runtest.NoError(tb, err)
	return events.Entry{Seq: seq, Commit: c, Data: data}
}

// audit checks a history.
func audit(log []events.Entry, expect []*proof.Head, tenants ...note.Verifier) (proof.Report, []proof.Finding) {
	a := proof.NewAuditor(sid, tenants)
	for _, h := range expect {
		a.Expect(h)
	}
	var found []proof.Finding
	for _, e := range log {
		found = append(found, a.Commit(e)...)
	}
	report, last := a.Close()
	return report, append(found, last...)
}
