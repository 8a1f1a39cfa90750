package events_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/internal/runtest"
)

func newKeys(t *testing.T) *bodykey.Keys {
	t.Helper()
	k, err := bodykey.New()
	runtest.NoError(t, err)
	return k
}

// parsed is the set after a round through its text.
func parsed(t *testing.T, k *bodykey.Keys) *bodykey.Keys {
	t.Helper()
	text, err := k.Text()
	if err == nil {
		k, err = bodykey.Parse(text)
	}
	runtest.NoError(t, err)
	return k
}

func commit(list ...events.Event) *events.Commit {
	return &events.Commit{
		ID: "c1", Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorClient, ID: "ann"}, Key: "k", Digest: "d1gest",
		Salt: bytes.Repeat([]byte{7}, events.SaltBytes), Events: list,
	}
}

// stored encrypts and encodes a commit, and decodes it.
func stored(t *testing.T, k *bodykey.Keys, c *events.Commit) events.Entry {
	t.Helper()
	c, err := events.Encrypted(c, k)
	runtest.NoError(t, err)
	data, err := events.Encode(c)
	runtest.NoError(t, err)
	e, err := events.DecodeEntry(1, data)
	runtest.NoError(t, err)
	return e
}

var closing = events.Of("t1", &events.SessionClosed{Reason: "the secret"})

// TestEncryptedCommit: without the key everything but payload and digest can be read; with it both are there. Encoding it
// again gives the stored bytes, and so does encrypting it again.
func TestEncryptedCommit(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	unknown := events.Event{Kind: "later.happened", V: 3, Raw: []byte("\x81\xa1x\xa3abc")}
	head := events.Of("", &events.AuditHeadSigned{Key: make([]byte, 32), Signature: make([]byte, 64)})
	e := stored(t, k, commit(closing, unknown, head))
	for _, secret := range []string{"the secret", "abc", "d1gest"} {
		if bytes.Contains(e.Data, []byte(secret)) {
			t.Errorf("the stored bytes have %q", secret)
		}
	}
	c := e.Commit
	if c.Events[0].Kind != events.KindSessionClosed || c.Events[0].Turn != "t1" || c.Actor.ID != "ann" || c.Key != "k" || c.Events[2].Payload == nil {
		t.Errorf("without the key: got %+v, want kind, turn, actor, key and the head", c)
	}
	for i, want := range []uint32{k.Current(), k.Current(), 0} {
		if got := c.Events[i].Locked(); got != want {
			t.Errorf("event %d: got locked by %d, want %d", i, got, want)
		}
	}
	runtest.NoError(t, e.Decrypt(parsed(t, k)))
	if p, ok := c.Events[0].Payload.(*events.SessionClosed); !ok || p.Reason != "the secret" || c.Digest != "d1gest" || string(c.Events[1].Raw) != string(unknown.Raw) || c.Locked() != 0 {
		t.Errorf("with the key: got %+v", c)
	}
	again, err := events.Encode(c)
	if err != nil || !bytes.Equal(again, e.Data) {
		t.Errorf("encoded again: got %x, %v, want %x", again, err, e.Data)
	}
	if got := stored(t, k, commit(closing, unknown, head)); !bytes.Equal(got.Data, e.Data) {
		t.Errorf("encrypted again: got %x, want %x", got.Data, e.Data)
	}
}

// counting counts what keys encrypt.
type counting struct {
	*bodykey.Keys
	n int
}

func (c *counting) Encrypt(text, place []byte) ([]byte, error) {
	c.n++
	return c.Keys.Encrypt(text, place)
}

// TestEncryptedOnce encrypts a commit, adds its head, and encrypts it as an append does: nothing is encrypted twice. Other keys
// encrypt it again, and so do the same ones after it was read.
func TestEncryptedOnce(t *testing.T) {
	t.Parallel()
	k, other := &counting{Keys: newKeys(t)}, &counting{Keys: newKeys(t)}
	encrypted := func(c *events.Commit, k *counting, want int) *events.Commit {
		t.Helper()
		k.n = 0
		c, err := events.Encrypted(c, k)
		if err != nil || k.n != want {
			t.Fatalf("got %d ciphertexts, %v, want %d", k.n, err, want)
		}
		return c
	}
	once := encrypted(commit(closing, closing), k, 3) // with the digest
	signed := *once
	signed.Events = append(slices.Clip(once.Events), events.Of("", &events.AuditHeadSigned{Key: make([]byte, 32), Signature: make([]byte, 64)}))
	twice := encrypted(&signed, k, 0)
	data, err := events.Encode(twice)
	if want := stored(t, k.Keys, &signed); err != nil || !bytes.Equal(data, want.Data) {
		t.Errorf("got %x, %v, want %x", data, err, want.Data)
	}
	if c := encrypted(twice, other, 3); c.Events[0].Locked() != 0 || events.KeyOf(c.Events[0].Encrypted) != other.Current() {
		t.Errorf("got key %d, want %d", events.KeyOf(c.Events[0].Encrypted), other.Current())
	}
	read := stored(t, k.Keys, once)
	runtest.NoError(t, read.Decrypt(k))
	encrypted(read.Commit, k, 3)
}

// TestRedactEncrypted: a redacted encrypted commit has the same leaf, without any key.
func TestRedactEncrypted(t *testing.T) {
	t.Parallel()
	e := stored(t, newKeys(t), commit(closing, closing))
	data, err := events.Redact(e.Data, func(i int, _ events.Kind) bool { return i == 1 })
	runtest.NoError(t, err)
	r, err := events.Decode(data)
	if err != nil || events.CommitHash(data) != events.CommitHash(e.Data) || r.Events[0].Redacted == nil || r.Events[1].Locked() == 0 {
		t.Errorf("got %+v, %v, want the same leaf, the first event redacted and the second one encrypted", r, err)
	}
}

// TestMovedCiphertext moves a ciphertext to every other place, and changes it.
func TestMovedCiphertext(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	for name, change := range map[string]func(*events.Commit){
		"another event":   func(c *events.Commit) { c.Events[0], c.Events[1] = c.Events[1], c.Events[0] },
		"another commit":  func(c *events.Commit) { c.ID = "c2" },
		"another session": func(c *events.Commit) { c.Session = "s2" },
		"another kind":    func(c *events.Commit) { c.Events[0].Kind = events.KindGraphBranched },
		"another turn":    func(c *events.Commit) { c.Events[0].Turn = "t2" },
		"another version": func(c *events.Commit) { c.Events[0].V = 2 },
		"as digest":       func(c *events.Commit) { c.EncryptedDigest = c.Events[0].Encrypted },
		"changed":         func(c *events.Commit) { c.Events[0].Encrypted[30] ^= 1 },
		"cut":             func(c *events.Commit) { c.Events[0].Encrypted = c.Events[0].Encrypted[:24] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := stored(t, k, commit(closing, events.Of("t1", &events.SessionClosed{Reason: "another"})))
			change(e.Commit)
			data, err := events.Encode(e.Commit)
			runtest.NoError(t, err)
			moved, err := events.DecodeEntry(1, data)
			runtest.NoError(t, err)
			runtest.WantError(t, "decrypt", moved.Decrypt(k), events.ErrMalformed)
		})
	}
}

// TestEncryptedHead: a head that is encrypted is refused, and so are bytes that are no ciphertext.
func TestEncryptedHead(t *testing.T) {
	t.Parallel()
	e := stored(t, newKeys(t), commit(closing))
	for name, change := range map[string]func(*events.Event){
		"head":          func(ev *events.Event) { ev.Kind = events.KindAuditHeadSigned },
		"no ciphertext": func(ev *events.Event) { ev.Encrypted = []byte("short") },
		"no kind":       func(ev *events.Event) { ev.Kind = "x" },
		"no version":    func(ev *events.Event) { ev.V = 0 },
	} {
		c := *e.Commit
		c.Events = []events.Event{e.Commit.Events[0]}
		change(&c.Events[0])
		_, err := events.Encode(&c)
		runtest.WantError(t, name, err, events.ErrInvalid)
	}
}

// TestRotation: a set reads what its older keys encrypted, and a set without the key says which one is missing.
func TestRotation(t *testing.T) {
	t.Parallel()
	first := newKeys(t)
	both, id, err := first.Add()
	runtest.NoError(t, err)
	if both.Current() != first.Current() {
		t.Errorf("added: got current %d, want %d", both.Current(), first.Current())
	}
	second, err := both.Use(id)
	if err == nil {
		second = parsed(t, second)
	}
	if err != nil || second.Current() != id || len(second.IDs()) != 2 || second.IDs()[0] != id {
		t.Fatalf("use: got %v, %v, want %d first of two", second.IDs(), err, id)
	}
	old := stored(t, first, commit(closing))
	if err := old.Decrypt(second); err != nil || old.Commit.Locked() != 0 {
		t.Errorf("of the older key: got %v, locked by %d", err, old.Commit.Locked())
	}
	alone, err := second.Forget(first.Current())
	runtest.NoError(t, err)
	lost := stored(t, first, commit(closing))
	if err := lost.Decrypt(alone); err != nil || lost.Commit.Locked() != first.Current() {
		t.Errorf("forgotten: got %v, locked by %d, want %d", err, lost.Commit.Locked(), first.Current())
	}
	if _, err := second.Forget(id); err == nil {
		t.Error("the current key was forgotten")
	}
	check, err := first.Check()
	if err != nil || second.Opens(check) != nil || !errors.Is(alone.Opens(check), bodykey.ErrWrong) || !errors.Is(newKeys(t).Opens(check), bodykey.ErrWrong) {
		t.Errorf("check: %v; a set without its key must be refused, and only such a set", err)
	}
}

// TestNames: a name is the same each time, tells its digest to the key only, and a body is found under the names of older keys.
func TestNames(t *testing.T) {
	t.Parallel()
	first := newKeys(t)
	const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	names, err := first.Names(digest)
	if err != nil || len(names) != 1 || bytes.Contains([]byte(names[0]), []byte(digest[:16])) {
		t.Fatalf("got %v, %v", names, err)
	}
	both, id, err := first.Add()
	if err == nil {
		both, err = both.Use(id)
	}
	runtest.NoError(t, err)
	later, err := both.Names(digest)
	if err != nil || len(later) != 2 || later[1] != names[0] {
		t.Errorf("after a rotation: got %v, %v, want the older name second", later, err)
	}
	if got, err := both.Digest(names[0]); err != nil || got != digest {
		t.Errorf("digest: got %s, %v", got, err)
	}
	if _, err := newKeys(t).Digest(names[0]); !errors.Is(err, events.ErrLocked) {
		t.Errorf("digest without the key: got %v", err)
	}
	if _, err := first.Names("short"); !errors.Is(err, events.ErrInvalid) {
		t.Errorf("no digest: got %v", err)
	}
}

// TestParseRefuses reads texts that are no set of such keys.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "not JSON": "key", "no keys": `{"primaryKeyId":1,"key":[]}`,
		"another kind": `{"primaryKeyId":1,"key":[{"keyData":{"typeUrl":"type.googleapis.com/google.crypto.tink.AesGcmKey","value":"GhCS/1+ejWpx68NfGt6ziYHd","keyMaterialType":"SYMMETRIC"},"status":"ENABLED","keyId":1,"outputPrefixType":"TINK"}]}`,
	} {
		_, err := bodykey.Parse([]byte(text))
		runtest.WantError(t, name, err, events.ErrMalformed)
	}
}
