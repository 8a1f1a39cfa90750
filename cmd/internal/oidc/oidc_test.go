package oidc_test

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/oidc"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }

// TestLongHostileTokens sends invalid tokens to a server: all are refused. Valid ones are accepted, and the history of a
// turn names the token's subject.
func TestLongHostileTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	h, err := session.New(session.Config{Bus: bustest.Start(t), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	s, err := httpapi.New(httpapi.Config{
		Service: h, Tenant: "acme", Identity: []httpapi.Identifier{i.identifier(i.config())},
		Tokens: []httpapi.Token{{Name: "fixed", Digest: sha256.Sum256([]byte("fixed")), Scope: api.ScopeRead}},
	})
	runtest.NoError(t, err)
	t.Cleanup(func() { s.Stop(context.Background()) }) // nothing of it is left
	ask := func(token, path, body string) int {
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if text := w.Body.String(); strings.Contains(text, token) && token != ".." {
			t.Errorf("got %s, want no token in it", text)
		}
		return w.Code
	}
	for name, token := range i.hostile() {
		runtest.Equal(t, name, ask(token, "/v1/sessions", `{}`), http.StatusUnauthorized)
	}
	runtest.Equal(t, "with the scope read", ask(i.token(map[string]any{"scope": "lash:read"}), "/v1/sessions", `{}`), http.StatusForbidden)
	good := i.token(nil)
	if got := ask(good, "/v1/sessions", `{"id":"s"}`); got != http.StatusCreated {
		t.Fatalf("good: got %d, want 201", got)
	}
	if got := ask(good, "/v1/sessions/s/turns", `{"id":"t","text":"hello"}`); got != http.StatusAccepted {
		t.Fatalf("turn: got %d, want 202", got)
	}
	actors := make(map[events.Kind]events.Actor)
	for o, err := range h.Observe(t.Context(), "s", 0) {
		runtest.NoError(t, err)
		if o.Commit != nil {
			for _, e := range o.Commit.Events {
				actors[e.Kind] = o.Commit.Actor
			}
		}
		if _, ok := actors["turn.requested"]; ok {
			break
		}
	}
	if want := (events.Actor{Kind: events.ActorClient, ID: "jwt-alice"}); actors["turn.requested"] != want {
		t.Errorf("actors: got %v, want %v for turn.requested", actors, want)
	}
}

// TestGoodTokens accepts every form that claims and signatures may have.
func TestGoodTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	id := i.identifier(i.config())
	at := func(d time.Duration) int64 { return i.clock().Add(d).Unix() }
	for name, c := range map[string]struct {
		text string
		want httpapi.Caller
	}{
		"plain":     {i.token(nil), callerOf("jwt-alice", "read,write,approve,configure", "acme")},
		"all":       {i.token(map[string]any{"scope": "lash:read lash:all"}), everywhere(callerOf("jwt-alice", "read", "acme"))},
		"list":      {i.token(map[string]any{"scope": []string{"x", "lash:approve", "lash:read"}}), callerOf("jwt-alice", "approve,read", "acme")},
		"audiences": {i.token(map[string]any{"aud": []string{"other", "lash"}}), callerOf("jwt-alice", "read,write,approve,configure", "acme")},
		"leeway":    {i.token(map[string]any{"exp": at(-28 * time.Second), "nbf": at(29 * time.Second), "scope": "lash:read"}), callerOf("jwt-alice", "read", "acme")},
		"no_nbf":    {i.token(map[string]any{"nbf": nil, "scope": "lash:read"}), callerOf("jwt-alice", "read", "acme")},
		"ec":        {i.sign(jose.ES256, i.keys[1], i.claims(map[string]any{"scope": "lash:read"}), nil), callerOf("jwt-alice", "read", "acme")},
		"no_key_id": {i.sign(jose.RS256, i.keys[0].Key.(crypto.Signer), i.claims(map[string]any{"scope": "lash:read"}), nil), callerOf("jwt-alice", "read", "acme")},
	} {
		if got, err := identify(t, id, c.text); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestLongKeysRotate changes the issuer's keys: the new key is valid after one read, the old one is not, and
// unauthenticated clients cause no further reads.
func TestLongKeysRotate(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	id := i.identifier(i.config())
	old := i.token(nil)
	i.rotate(rsaKey(t, "r2"))
	i.pass(11 * time.Second)
	_, err := identify(t, id, i.token(nil))
	runtest.WantError(t, "new key", err, nil)
	if _, err := identify(t, id, old); err == nil {
		t.Error("old key: got its token accepted")
	}
	i.mu.Lock()
	before := i.served
	i.mu.Unlock()
	stranger := rsaKey(t, "stranger")
	for range 50 {
		if _, err := identify(t, id, i.sign(jose.RS256, stranger, i.claims(nil), nil)); err == nil {
			t.Fatal("got a stranger's token accepted")
		}
	}
	i.mu.Lock()
	if i.served != before {
		t.Errorf("got %d readings for 50 strangers, want none within 10 s of the last", i.served-before)
	}
	i.broken = true
	i.mu.Unlock()
	i.pass(time.Minute)
	_, _ = identify(t, id, i.sign(jose.RS256, rsaKey(t, "r9"), i.claims(nil), nil)) // causes a read
	_, err = identify(t, id, i.token(nil))
	runtest.WantError(t, "while the issuer is broken", err, nil)
}

// TestIssuerIsDownAtStart starts while the issuer does not answer. Until the first read a signed token gives the
// error for that state. Other credentials are left to the other identifiers.
func TestIssuerIsDownAtStart(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]func(*issuer){
		"for_a_token": func(i *issuer) { i.pass(time.Minute) },
		"by_itself":   func(*issuer) {}, // the clock stands still: no token causes a read
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			i.breaks(true)
			cfg := i.config()
			cfg.RefreshSeconds = 1
			id := i.identifier(cfg)
			_, err := identify(t, id, "opaque")
			runtest.WantError(t, "another's token", err, httpapi.ErrNotMine)
			token, stranger := i.token(nil), i.sign(jose.RS256, rsaKey(t, "r1"), i.claims(nil), nil)
			for _, token := range []string{token, stranger} {
				_, err := identify(t, id, token)
				runtest.WantError(t, "before the keys were read", err, httpapi.ErrNotReady)
			}
			i.breaks(false)
			comes(i)
			bustest.Eventually(t, "the keys are read", func() bool {
				_, err := identify(t, id, token)
				if err != nil && !errors.Is(err, httpapi.ErrNotReady) {
					t.Fatalf("got %v, want the keys to be read", err)
				}
				return err == nil
			})
			i.breaks(true)
			if _, err := identify(t, id, stranger); err == nil || errors.Is(err, httpapi.ErrNotReady) {
				t.Errorf("a stranger's token: got %v, want it refused", err)
			}
		})
	}
}

// TestKeysAreReadAgain removes a key from a file: its tokens become invalid, also without a request with another key.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	put := func(keys ...jose.JSONWebKey) {
		t.Helper()
		data, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		runtest.NoError(t, err)
		runtest.NoError(t, os.WriteFile(path+".new", data, 0o600))
		runtest.NoError(t, os.Rename(path+".new", path))
	}
	put(i.keys[0].Public(), i.keys[1].Public())
	cfg := i.config()
	cfg.KeysURL, cfg.KeysFile, cfg.RefreshSeconds = "", path, 1
	id := i.identifier(cfg)
	token := i.token(nil)
	_, err := identify(t, id, token)
	runtest.NoError(t, err)
	put(i.keys[1].Public())
	refused := func(token string) {
		t.Helper()
		bustest.Eventually(t, "a token whose key is gone is refused", func() bool {
			_, err := identify(t, id, token)
			return err != nil
		})
	}
	refused(token)
	last := i.sign(jose.ES256, i.keys[1], i.claims(nil), nil)
	_, err = identify(t, id, last)
	runtest.NoError(t, err)
	put([]jose.JSONWebKey{}...) // revokes the last key
	refused(last)
	if _, err := oidc.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "key set is empty") {
		t.Errorf("a start without any key: got %v", err)
	}
}

// TestUnknownKeyWaitsForItsCaller sends tokens with an unknown key while the issuer does not answer. A request that
// is cancelled stops waiting.
func TestUnknownKeyWaitsForItsCaller(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	id := i.identifier(i.config())
	i.pass(time.Minute)
	i.mu.Lock()
	i.holds = make(chan chan bool)
	i.mu.Unlock()
	reading := make(chan struct{})
	stranger := i.sign(jose.RS256, rsaKey(t, "stranger"), i.claims(nil), nil)
	go func() {
		defer close(reading)
		_, _ = identify(t, id, stranger)
	}()
	goOn := <-i.holds // the issuer stops answering
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, "GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+stranger)
	if _, err := id.Identify(r); err == nil {
		t.Error("got a stranger's token accepted")
	}
	select {
	case <-reading:
		t.Error("who had gone waited for the reading of another")
	default:
	}
	close(goOn)
	<-reading
}

// TestConfigIsRefused checks that each invalid configuration is refused with the field's name.
func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for want, change := range map[string]func(*oidc.Config){
		"issuer, audience: are":    func(c *oidc.Config) { c.Audience = "" },
		"keys_url, keys_file: one": func(c *oidc.Config) { c.KeysFile = "x" },
		"keys_url: must begin":     func(c *oidc.Config) { c.KeysURL = "http://issuer.example/keys" },
		`algorithms: "HS256" is`:   func(c *oidc.Config) { c.Algorithms = []string{"RS256", "HS256"} },
		`algorithms: "none" is`:    func(c *oidc.Config) { c.Algorithms = []string{"none"} },
		"leeway_seconds: 301":      func(c *oidc.Config) { c.LeewaySeconds = 301 },
		"refresh_seconds: -1":      func(c *oidc.Config) { c.RefreshSeconds = -1 },
		"name_prefix: must be":     func(c *oidc.Config) { c.NamePrefix = new("node:") },
		"clients: has an empty":    func(c *oidc.Config) { c.Clients = []string{"web", ""} },
		"tenant_claim: and":        func(c *oidc.Config) { c.Tenant = "" },
		"no such file":             func(c *oidc.Config) { c.KeysURL, c.KeysFile = "", "/nowhere/keys" },
	} {
		cfg := i.config()
		change(&cfg)
		_, err := oidc.New(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	for _, text := range []string{`{"issuer":"x","nosuch":1}`, `{} {}`, `[]`, ``} {
		if _, err := oidc.ParseConfig(strings.NewReader(text)); err == nil {
			t.Errorf("file %q: got no error", text)
		}
	}
}

// FuzzIdentify uses arbitrary texts as tokens: none panics, and only the issuer's own are accepted.
func FuzzIdentify(f *testing.F) {
	i := newIssuer(f)
	id := i.identifier(i.config())
	good, err := identify(f, id, i.token(nil))
	runtest.NoError(f, err)
	for _, text := range i.hostile() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := identify(t, id, text); err == nil && c.Tenant == good.Tenant && !reflect.DeepEqual(c, good) { // the server refuses other tenants later
			t.Errorf("%q: got caller %+v", text, c)
		}
	})
}

// callerOf is a caller that reaches only its own sessions.
func callerOf(name string, scope api.Scope, tenant string) httpapi.Caller {
	return httpapi.Caller{Caller: api.Caller{Name: name, Reach: api.Reach{Scope: scope, Own: true}}, Tenant: tenant}
}

func everywhere(c httpapi.Caller) httpapi.Caller {
	c.Own = false
	return c
}
