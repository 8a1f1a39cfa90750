package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/lash-go/lash/internal/runtest"
)

// TestServeOIDC runs a node that accepts only tokens which an OIDC issuer signed.
func TestServeOIDC(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.NoError(t, err)
	key := jose.JSONWebKey{Key: private, KeyID: "k"}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	runtest.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	runtest.NoError(t, err)
	token := func(audience string) string {
		claims, _ := json.Marshal(map[string]any{"iss": "https://a", "aud": audience, "sub": "alice", "scope": "lash:write", "exp": time.Now().Add(time.Hour).Unix()})
		signed, err := signer.Sign(claims)
		runtest.NoError(t, err)
		text, _ := signed.CompactSerialize()
		return text
	}
	config, _ := json.Marshal(map[string]string{"issuer": "https://a", "audience": "lash", "keys_file": file(t, "keys.json", keys)})
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--set", "http-oidc="+file(t, "oidc.json", config))
	runtest.Equal(t, "get", get(t, s.ops+"/readyz"), "ready\n")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for token, want := range map[string]int{token("lash"): http.StatusCreated, token("other"): http.StatusUnauthorized} {
		runtest.Equal(t, "request", s.request(t, client, token, "POST", "/sessions", `{}`), want)
	}
	s.stop(t, syscall.SIGTERM)
	if output := strings.Join(s.lines, "\n"); strings.Contains(output, token("lash")[:40]) {
		t.Errorf("log: got a token in it: %s", output)
	}
}

// TestReadyNamesMissingKeys runs a node whose issuer does not answer. The node takes work, and says what it lacks.
func TestReadyNamesMissingKeys(t *testing.T) {
	t.Parallel()
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer issuer.Close()
	config, _ := json.Marshal(map[string]string{"issuer": "https://a", "audience": "lash", "keys_url": issuer.URL})
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--set", "http-oidc="+file(t, "oidc.json", config))
	if got := get(t, s.ops+"/readyz"); got != "ready\nthe issuer's keys of http-oidc are not read yet: its tokens are answered with 503\n" {
		t.Errorf("got %q, want ready, and the keys that are missing", got)
	}
	s.stop(t, syscall.SIGTERM)
}
