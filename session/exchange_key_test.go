package session_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/exchange"
)

// TestParseKey reads keys in both forms, and refuses others.
func TestParseKey(t *testing.T) {
	t.Parallel()
	text, public, err := note.GenerateKey(rand.Reader, "node1")
	runtest.NoError(t, err)
	key, err := exchange.ParseKey([]byte(text + "\n"))
	if err != nil {
		t.Fatalf("key in note's form: got %v", err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil || !verifier.Verify([]byte("message"), ed25519.Sign(key, []byte("message"))) {
		t.Errorf("signature with the key: got one that does not verify, %v", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	runtest.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	runtest.NoError(t, err)
	file := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if key, err := exchange.ParseKey(file); err != nil || !key.Equal(private) {
		t.Errorf("key in PEM: got %v, want the key", err)
	}
	for _, bad := range []string{"", "key", "PRIVATE+KEY+a+00000000+AQ==", text[:len(text)-8], string(file[:60])} {
		if _, err := exchange.ParseKey([]byte(bad)); !errors.Is(err, exchange.ErrKey) {
			t.Errorf("key %.30q: got %v, want ErrKey", bad, err)
		}
	}
}
