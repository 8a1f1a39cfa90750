package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// TestServeOIDC runs a node that accepts only tokens which an OIDC issuer signed.
func TestServeOIDC(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: "k"}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(audience string) string {
		claims, _ := json.Marshal(map[string]any{"iss": "https://a", "aud": audience, "sub": "alice", "scope": "lash:write", "exp": time.Now().Add(time.Hour).Unix()})
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := signed.CompactSerialize()
		return text
	}
	config, _ := json.Marshal(map[string]string{"issuer": "https://a", "audience": "lash", "keys_file": file(t, "keys.json", keys)})
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-oidc", file(t, "oidc.json", config))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for token, want := range map[string]int{token("lash"): http.StatusCreated, token("other"): http.StatusUnauthorized} {
		if got := s.request(t, client, token, "POST", "/sessions", `{}`); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	s.stop(t, syscall.SIGTERM)
	if output := strings.Join(s.lines, "\n"); strings.Contains(output, token("lash")[:40]) {
		t.Errorf("log: got a token in it: %s", output)
	}
}
