package httpapi_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// source is an identifier as a function.
type source func(*http.Request) (httpapi.Caller, error)

func (s source) Identify(r *http.Request) (httpapi.Caller, error) { return s(r) }

// says is a source that returns the same result for every request.
func says(c httpapi.Caller, err error) source {
	return func(*http.Request) (httpapi.Caller, error) { return c, err }
}

// TestSourcesOfCallers tests every result of a source, alone and after a source without credentials for the request.
func TestSourcesOfCallers(t *testing.T) {
	t.Parallel()
	good := httpapi.Caller{Caller: api.Caller{Name: "you", Reach: api.Reach{Scope: api.ScopeRead}}}
	with := func(change func(*httpapi.Caller)) httpapi.Caller {
		c := good
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		source source
		want   string
	}{
		"known":         {says(good, nil), "404 no_session"},
		"own_tenant":    {says(with(func(c *httpapi.Caller) { c.Tenant = "acme" }), nil), "404 no_session"},
		"other_tenant":  {says(with(func(c *httpapi.Caller) { c.Tenant = "evil" }), nil), "401 unauthorized"},
		"not_mine":      {says(good, httpapi.ErrNotMine), "401 unauthorized"},
		"refused":       {says(good, errors.New("expired")), "401 unauthorized"},
		"no_name":       {says(with(func(c *httpapi.Caller) { c.Name = "" }), nil), "401 unauthorized"},
		"reserved_name": {says(with(func(c *httpapi.Caller) { c.Name = "node:a" }), nil), "401 unauthorized"},
		"of_the_timer":  {says(with(func(c *httpapi.Caller) { c.Name = "timer" }), nil), "401 unauthorized"},
		"of_retention":  {says(with(func(c *httpapi.Caller) { c.Name = "Retention" }), nil), "401 unauthorized"},
		"control":       {says(with(func(c *httpapi.Caller) { c.Name = "a\nb" }), nil), "401 unauthorized"},
		"no_scope":      {says(with(func(c *httpapi.Caller) { c.Scope = "" }), nil), "401 unauthorized"},
		"unknown_scope": {says(with(func(c *httpapi.Caller) { c.Scope = "all" }), nil), "401 unauthorized"},
		"other_right":   {says(with(func(c *httpapi.Caller) { c.Scope = "approve" }), nil), "403 forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, before := range [][]httpapi.Identifier{nil, {says(httpapi.Caller{}, httpapi.ErrNotMine)}} {
				cfg := config(t)
				cfg.Tokens, cfg.Identity, cfg.Tenant = nil, append(before, c.source), "acme"
				w := ask(t, newServer(t, cfg), "GET", "/v1/sessions/nosuch", "")
				got := code(t, w)
				if got != c.want {
					t.Errorf("got %s, want %s: %s", got, c.want, w.Body)
				}
				if strings.Contains(w.Body.String(), "expired") {
					t.Errorf("got %s, want no reason in it", w.Body)
				}
			}
		})
	}
}

// TestRefusalIsFinal checks that no later source is called after a refusal.
func TestRefusalIsFinal(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Tokens = nil
	cfg.Identity = []httpapi.Identifier{says(httpapi.Caller{}, errors.New("expired")), says(httpapi.Caller{Caller: api.Caller{Name: "you", Reach: api.Reach{Scope: api.ScopeAdmin}}}, nil)}
	if got := code(t, ask(t, newServer(t, cfg), "GET", "/v1/sessions/s", "")); got != "401 unauthorized" {
		t.Errorf("got %s, want 401 unauthorized", got)
	}
}

// TestSourceThatCannotTellYet checks that a source that is not ready refuses the request for now, and that no later
// source is called.
func TestSourceThatCannotTellYet(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Tokens = nil
	cfg.Identity = []httpapi.Identifier{
		says(httpapi.Caller{}, fmt.Errorf("keys of 10.1.2.3: %w", httpapi.ErrNotReady)), says(httpapi.Caller{Caller: api.Caller{Name: "you", Reach: api.Reach{Scope: api.ScopeAdmin}}}, nil),
	}
	w := ask(t, newServer(t, cfg), "GET", "/v1/sessions/s", "")
	if got := code(t, w); got != "503 credentials_unchecked" || w.Header().Get("Retry-After") != "10" || strings.Contains(w.Body.String(), "10.1.2.3") {
		t.Errorf("got %s %v %s, want 503 with the time to come again and no reason", got, w.Header(), w.Body)
	}
}

// TestCertificates identifies requests by verified certificates, with and without an Authorization header.
func TestCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tokens, err := httpapi.NewTokens([]httpapi.Token{
		{Name: "me", Digest: sha256.Sum256([]byte(secret)), Scope: api.ScopeRead},
		{Name: "alice", Certificate: "uri:spiffe://acme/alice", Scope: api.ScopeWrite, Own: true},
		{Name: "bob", Certificate: "cn:bob", Scope: api.ScopeRead, Expires: now.Add(time.Hour)},
		{Name: "late", Certificate: "cn:late", Scope: api.ScopeRead, Expires: now.Add(-time.Second)},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(cn string, uris ...string) *x509.Certificate {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
		names := []asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("x")}}
		for _, text := range uris { // as they are: of a parsed one x509 would write another text
			names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(text)})
		}
		value, err := asn1.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err == nil {
			c, err = x509.ParseCertificate(der)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	over := leaf("bob")
	over.NotAfter = now.Add(-time.Second)
	for name, c := range map[string]struct {
		leaf     *x509.Certificate
		verified bool
		header   []string
		want     string // name, or part of the error
	}{
		"uri":              {leaf("x", "https://x", "spiffe://acme/alice"), true, nil, "alice"},
		"common_name":      {leaf("bob"), true, nil, "bob"},
		"not_verified":     {leaf("bob"), false, nil, "no credentials"},
		"unknown":          {leaf("mallory", "spiffe://acme/mallory"), true, nil, "no credentials"},
		"empty_fragment":   {leaf("x", "spiffe://acme/alice#"), true, nil, "no credentials"},
		"large_scheme":     {leaf("x", "SPIFFE://acme/alice"), true, nil, "no credentials"},
		"empty_query":      {leaf("x", "spiffe://acme/alice?"), true, nil, "no credentials"},
		"empty_user":       {leaf("x", "spiffe://@acme/alice"), true, nil, "no credentials"},
		"escaped":          {leaf("x", "spiffe://acme/%61lice"), true, nil, "no credentials"},
		"name_as_uri":      {leaf("spiffe://acme/alice"), true, nil, "no credentials"},
		"empty":            {leaf(""), true, nil, "no credentials"},
		"two_callers":      {leaf("bob", "spiffe://acme/alice"), true, nil, "several callers"},
		"over":             {over, true, nil, "has expired"},
		"expired_line":     {leaf("late"), true, nil, "has expired"},
		"header_wins":      {leaf("bob"), true, []string{"Bearer " + secret}, "me"},
		"bad_header_wins":  {leaf("bob"), true, []string{"Bearer nonsense"}, "no credentials"},
		"two_headers":      {leaf("bob"), true, []string{"Bearer " + secret, "Bearer " + secret}, "no credentials"},
		"digest_of_nobody": {leaf("bob"), true, []string{"Bearer cn:bob"}, "no credentials"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/sessions", nil)
		r.Header["Authorization"] = c.header
		if c.header == nil {
			delete(r.Header, "Authorization")
		}
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.leaf}}
		if c.verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{c.leaf}}
		}
		got, err := tokens.Identify(r)
		if text := got.Name; (err == nil) != (text == c.want) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v, want %s", name, text, err, c.want)
		}
		if name == "uri" && !got.Own {
			t.Errorf("got a caller of all sessions, want what the token says")
		}
	}
}

// TestPagesOfOthers sends requests of web pages with the browser's certificate. Only pages of the server's own origin
// and of the configured ones are allowed. The rule does not apply to tokens, because a browser does not send them by
// itself.
func TestPagesOfOthers(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := httpapi.New(httpapi.Config{Service: h, Origins: []string{"https://good.example"}, Tokens: []httpapi.Token{
		{Name: "ops", Certificate: "cn:ops", Scope: api.ScopeAdmin}, {Name: "me", Digest: sha256.Sum256([]byte(secret)), Scope: api.ScopeAdmin},
	}})
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "ops"}, NotAfter: time.Now().Add(time.Hour)}
	for name, c := range map[string]struct {
		header map[string]string
		want   int
	}{
		"program":        {nil, http.StatusCreated},
		"own page":       {map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "https://lash.example"}, http.StatusCreated},
		"named page":     {map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://good.example"}, http.StatusCreated},
		"other page":     {map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, http.StatusForbidden},
		"old browser":    {map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		"sandboxed":      {map[string]string{"Origin": "null"}, http.StatusForbidden},
		"page's token":   {map[string]string{"Origin": "https://evil.example", "Authorization": "Bearer " + secret}, http.StatusCreated},
		"sibling's page": {map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "https://other.lash.example"}, http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://lash.example/v1/sessions", strings.NewReader("{}"))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
		for key, value := range c.header {
			r.Header.Set(key, value)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.want)
		}
	}
}
