package eventstest

import (
	"crypto/ed25519"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
)

// until is the end of a certificate, 2100-01-01.
const until = 4_102_444_800_000

// Signing returns a node's signer, and the key of its tenant.
func Signing(t *testing.T) (func() *proof.Signer, note.Verifier) {
	t.Helper()
	private, public, err := note.GenerateKey(nil, "example.com/t")
	runtest.NoError(t, err)
	tenant, err := note.NewSigner(private)
	runtest.NoError(t, err)
	verifier, err := note.NewVerifier(public)
	runtest.NoError(t, err)
	key, secret, err := ed25519.GenerateKey(nil)
	runtest.NoError(t, err)
	cert, err := proof.Certify(tenant, "n1", key, 0, until)
	runtest.NoError(t, err)
	signer, err := proof.NewSigner(secret, cert)
	runtest.NoError(t, err)
	return func() *proof.Signer { return signer }, verifier
}
