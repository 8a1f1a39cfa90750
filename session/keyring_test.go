package session_test

import (
	"crypto/ed25519"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/keyring"
)

var now = time.UnixMilli(1_800_000_000_000)

func open(t *testing.T, dir string, at time.Time) *keyring.Keys {
	t.Helper()
	keys, err := keyring.Open(dir, at)
	runtest.NoError(t, err)
	return keys
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	runtest.NoError(t, err)
	return string(text)
}

// TestOpenAfterDeath: a program that died after it wrote the tenant's key, before the public one, is repaired.
func TestOpenAfterDeath(t *testing.T) {
	t.Parallel()
	dir := keyring.Dir(t.TempDir())
	first := open(t, dir, now).Signer().Certificate()
	want := read(t, dir, keyring.TenantPub)
	for _, name := range []string{keyring.TenantPub, keyring.NodeKey, keyring.Certificate} {
		runtest.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	again := open(t, dir, now).Signer().Certificate()
	if got := read(t, dir, keyring.TenantPub); got != want || again.Tenant != first.Tenant {
		t.Errorf("opened again: got %q, want %q", got, want)
	}
}

// TestOpenRenews: a store makes its keys once, and a new node key in the second half of the certificate's validity.
func TestOpenRenews(t *testing.T) {
	t.Parallel()
	dir := keyring.Dir(t.TempDir())
	first := open(t, dir, now).Signer().Certificate()
	if again := open(t, dir, now.Add(keyring.Validity/3)).Signer().Certificate(); again.Digest != first.Digest {
		t.Errorf("opened again: got key %s, want %s", again.Name, first.Name)
	}
	later := open(t, dir, now.Add(keyring.Validity*2/3)).Signer().Certificate()
	if later.Digest == first.Digest || later.Tenant != first.Tenant || later.Until <= first.Until {
		t.Errorf("opened later: got %+v, want a new key of %s", later, first.Tenant)
	}
	runtest.NoError(t, os.Remove(filepath.Join(dir, keyring.NodeKey)))
	if made := open(t, dir, now).Signer().Certificate(); made.Tenant != first.Tenant {
		t.Errorf("without the node's key: got a key of %s, want one of %s", made.Tenant, first.Tenant)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, name := range []string{keyring.TenantKey, keyring.NodeKey} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got mode %v, %v, want 0600", name, info.Mode(), err)
		}
	}
}

// TestNodeOfFleet: the tenant's key stays where certificates are made.
func TestNodeOfFleet(t *testing.T) {
	t.Parallel()
	tenant, node := t.TempDir(), filepath.Join(t.TempDir(), "n1")
	public, err := keyring.MakeTenant(tenant, "example.com/agents")
	if err != nil || !strings.HasPrefix(public, "example.com/agents+") {
		t.Fatalf("make tenant: got %q, %v", public, err)
	}
	_, err = keyring.MakeTenant(tenant, "other")
	runtest.WantError(t, "make tenant twice", err, fs.ErrExist)
	cert, err := keyring.Certify(node, tenant, "n1", now, 24*time.Hour)
	runtest.NoError(t, err)
	_, err = os.Stat(filepath.Join(node, keyring.TenantKey))
	runtest.WantError(t, "the tenant's key at the node", err, fs.ErrNotExist)
	keys, err := keyring.Load(node, now)
	if err != nil || keys.Signer().Certificate().Digest != cert.Digest {
		t.Fatalf("load: got %v, %v", keys, err)
	}
	_, err = keyring.Load(node, now.Add(25*time.Hour))
	runtest.WantError(t, "load later", err, keyring.ErrExpired)
	text := read(t, node, keyring.NodeKey)
	_, err = keyring.Certify(node, tenant, "n1", now, 24*time.Hour)
	runtest.NoError(t, err)
	if err := keys.Set([]byte(text), []byte(read(t, node, keyring.Certificate)), []byte(public)); err == nil {
		t.Error("the certificate of another key: got no error")
	}
	runtest.WantError(t, "new key", keys.Set([]byte(read(t, node, keyring.NodeKey)), []byte(read(t, node, keyring.Certificate)), []byte(public)), nil)
	if got := keys.Signer().Certificate().Digest; got == cert.Digest {
		t.Error("new key: the old one is in use")
	}
	if runtime.GOOS != "windows" {
		runtest.NoError(t, os.Chmod(filepath.Join(node, keyring.NodeKey), 0o640))
		if _, err := keyring.Load(node, now); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a key that others read: got %v", err)
		}
	}
}

// TestKeySigns: the key in the file signs what its certificate says.
func TestKeySigns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := open(t, dir, now)
	c := &events.Commit{
		ID: "c1", Session: "s1", At: events.MillisOf(now), Actor: events.Actor{Kind: events.ActorNode},
		Events: []events.Event{events.Of("t1", &events.TurnCompleted{End: events.EndFinished})},
	}
	signed, head, err := keys.Signer().Sign(c, &proof.State{})
	runtest.NoError(t, err)
	tenants, err := keyring.Verifiers(read(t, dir, keyring.TenantPub))
	runtest.NoError(t, err)
	got, cert, err := proof.ReadHead([]byte(head.Note), tenants)
	if err != nil || got.Size != 1 || got.Root != events.CommitHash(encode(t, signed)) {
		t.Errorf("read head: got %+v, %v", got, err)
	}
	h := signed.Events[1].Payload.(*events.AuditHeadSigned)
	text, _, _ := strings.Cut(head.Note, "\n\n")
	if !ed25519.Verify(cert.Key, []byte(text+"\n"), h.Signature) {
		t.Error("the signature in the event is not of the checkpoint")
	}
}

func encode(t *testing.T, c *events.Commit) []byte {
	t.Helper()
	data, err := events.Encode(c)
	runtest.NoError(t, err)
	return data
}
