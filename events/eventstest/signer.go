package eventstest

import (
	"crypto/ed25519"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events/proof"
)

// until is the end of a certificate, 2100-01-01.
const until = 4_102_444_800_000

// Signing returns a node's signer, and the key of its tenant.
func Signing(t *testing.T) (func() *proof.Signer, note.Verifier) {
	t.Helper()
	private, public, err := note.GenerateKey(nil, "example.com/t")
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	key, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := proof.Certify(tenant, "n1", key, 0, until)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := proof.NewSigner(secret, cert)
	if err != nil {
		t.Fatal(err)
	}
	return func() *proof.Signer { return signer }, verifier
}
