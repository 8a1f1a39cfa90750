package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/lash-go/lash/cmd/internal/oidc"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
)

// issuer signs tokens, and serves its keys over HTTP.
type issuer struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	keys   []jose.JSONWebKey // private keys
	served int               // number of reads of the keys
	broken bool
	now    time.Time      // clock of the identifiers
	holds  chan chan bool // where set, each read sends a channel, and waits until it is closed
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{t: t, now: time.Now()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		holds := i.holds
		i.mu.Unlock()
		if holds != nil {
			goOn := make(chan bool)
			holds <- goOn
			<-goOn
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.served++
		if i.broken {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("a symmetric key, which counts for nothing"), KeyID: "sym", Algorithm: "HS256"}}}
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	i.rotate(rsaKey(t, "r1"), ecKey(t, "e1"))
	return i
}

func rsaKey(t testing.TB, id string) jose.JSONWebKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	runtest.NoError(t, err)
	return jose.JSONWebKey{Key: k, KeyID: id, Algorithm: "RS256", Use: "sig"}
}

func ecKey(t testing.TB, id string) jose.JSONWebKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.NoError(t, err)
	return jose.JSONWebKey{Key: k, KeyID: id}
}

func (i *issuer) rotate(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// pass advances the clock of the identifiers.
func (i *issuer) pass(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now = i.now.Add(d)
}

// breaks makes the issuer answer with an error, or with its keys again.
func (i *issuer) breaks(broken bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = broken
}

func (i *issuer) clock() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now
}

func (i *issuer) config() oidc.Config {
	return oidc.Config{
		Issuer: "https://issuer.example", Audience: "lash", KeysURL: i.url, TenantClaim: "org", Tenant: "acme", NamePrefix: new("jwt-"),
		Reserved: func(name string) bool { return name == "jwt-me" }, Now: i.clock,
	}
}

func (i *issuer) identifier(cfg oidc.Config) *oidc.Identifier {
	i.t.Helper()
	id, err := oidc.New(i.t.Context(), cfg)
	runtest.NoError(i.t, err)
	i.t.Cleanup(id.Stop)
	return id
}

// claims are those of a valid token, with changes; nil removes a claim.
func (i *issuer) claims(changes map[string]any) []byte {
	c := map[string]any{
		"iss": "https://issuer.example", "aud": "lash", "sub": "alice", "org": "acme", "scope": "openid lash:write",
		"exp": i.clock().Add(time.Hour).Unix(), "nbf": i.clock().Unix(), "iat": i.clock().Unix(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	data, err := json.Marshal(c)
	runtest.NoError(i.t, err)
	return data
}

func (i *issuer) sign(alg jose.SignatureAlgorithm, key any, payload []byte, header map[jose.HeaderKey]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	runtest.NoError(i.t, err)
	signed, err := signer.Sign(payload)
	runtest.NoError(i.t, err)
	text, err := signed.CompactSerialize()
	runtest.NoError(i.t, err)
	return text
}

// token is a valid token with changed claims.
func (i *issuer) token(changes map[string]any) string {
	i.t.Helper()
	return i.sign(jose.RS256, i.keys[0], i.claims(changes), nil)
}

// identify calls an identifier without a server.
func identify(t testing.TB, id httpapi.Identifier, text string) (httpapi.Caller, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	return id.Identify(r)
}
