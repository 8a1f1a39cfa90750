package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// file writes a file of the test.
func file(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	runtest.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	runtest.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	runtest.NoError(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return file(t, "cert.pem", certPEM), file(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), pool
}

// tokenFile has one token with the scope write.
func tokenFile(t *testing.T, text string) string {
	t.Helper()
	return file(t, "tokens", fmt.Appendf(nil, "# who may\n\nme write %x\n", sha256.Sum256([]byte(text))))
}

// TestServeHTTP runs a turn over HTTP/2. An event stream ends when the node stops.
func TestServeHTTP(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "open sesame"),
		"--set", "http-tls-cert="+cert, "--set", "http-tls-key="+key)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	ask := func(method, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(limited(t), method, s.http+path, strings.NewReader(body))
		runtest.NoError(t, err)
		r.Header.Set("Authorization", "Bearer open sesame")
		got, err := transport.RoundTrip(r)
		runtest.NoError(t, err)
		t.Cleanup(func() { _ = got.Body.Close() })
		return got
	}
	if got := ask("POST", "/sessions", `{"id":"s"}`); got.StatusCode != http.StatusCreated || got.ProtoMajor != 2 { //nolint:bodyclose // the test's end closes it
		t.Fatalf("create: got %s over %s, want 201 over HTTP/2", got.Status, got.Proto)
	}
	answer, err := io.ReadAll(ask("POST", "/sessions/s/turns?wait=60", `{"text":"hi"}`).Body) //nolint:bodyclose // likewise
	if err != nil || !strings.Contains(string(answer), "This node has no model") {
		t.Errorf("turn: got %s, %v, want the advice of a node without a model", answer, err)
	}
	if page := s.get(t, transport, "/"); page.StatusCode != http.StatusOK || !strings.Contains(page.Header.Get("Content-Security-Policy"), "script-src 'self'") { //nolint:bodyclose // likewise
		t.Errorf("page: got %s, want one without a token, and its policy", page.Status)
	}
	if list, err := io.ReadAll(ask("GET", "/prices", "").Body); err != nil || !strings.Contains(string(list), `"models"`) { //nolint:bodyclose // likewise
		t.Errorf("prices: got %s, %v, want those of the build", list, err)
	}
	stream := ask("GET", "/sessions/s/events", "") //nolint:bodyclose // likewise
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "turn.completed") { // a stream that ends earlier is resumed
	}
	if err := lines.Err(); err != nil || !strings.Contains(lines.Text(), "turn.completed") {
		t.Fatalf("stream: got %q, %v, want the end of the turn", lines.Text(), err)
	}
	s.stop(t, syscall.SIGTERM)
	if rest, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("end of the stream: got %q, %v, want one that is in order", rest, err)
	}
}

// get asks the server of the node for a path outside of /v1, without a token.
func (s *serving) get(t *testing.T, through http.RoundTripper, path string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(limited(t), http.MethodGet, strings.TrimSuffix(s.http, "/v1")+path, http.NoBody)
	runtest.NoError(t, err)
	got, err := through.RoundTrip(r)
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = got.Body.Close() })
	return got
}

// TestServeWithoutPage serves the API alone.
func TestServeWithoutPage(t *testing.T) {
	t.Parallel()
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "x"), "--set", "no-http-page=true")
	defer s.stop(t, syscall.SIGTERM)
	transport := &http.Transport{DisableKeepAlives: true}
	if got := s.get(t, transport, "/"); got.StatusCode != http.StatusNotFound { //nolint:bodyclose // the test's end closes it
		t.Errorf("got %s, want 404", got.Status)
	}
}

// TestLongServeHTTPRefuses checks that bad flags fail before anything starts, and that the message contains no token.
func TestLongServeHTTPRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no_tokens":   {nil, "--http needs --http-tokens"},
		"no_file":     {[]string{"--http-tokens", "/nowhere/tokens"}, "no such file"},
		"bad_line":    {[]string{"--http-tokens", file(t, "tokens", []byte("me write hunter2\n"))}, "line 1: the third field is no sha256"},
		"bad_scope":   {[]string{"--http-tokens", file(t, "tokens", fmt.Appendf(nil, "me all %x\n", sha256.Sum256(nil)))}, "scope is none of"},
		"no_oidc":     {[]string{"--set", "http-oidc=/nowhere/oidc"}, "setting http-oidc: open /nowhere/oidc: no such file"},
		"bad_oidc":    {[]string{"--set", "http-oidc=" + file(t, "oidc.json", []byte(`{"issuer":"https://a","audience":"b","keys_url":"http://a/keys"}`))}, "keys_url: must begin with https://"},
		"oidc_tenant": {[]string{"--set", "http-tenant=acme", "--set", "http-oidc=" + file(t, "oidc.json", []byte(`{"issuer":"https://a","audience":"b","keys_url":"https://a/keys"}`))}, "tenant_claim: and the tenant"},
		"everywhere":  {[]string{"--http", "0.0.0.0:0", "--http-tokens", tokenFile(t, "x")}, "give the settings http-tls-cert and http-tls-key, or listen on 127.0.0.1"},
		"no_host":     {[]string{"--http", ":0", "--http-tokens", tokenFile(t, "x")}, "give the settings http-tls-cert and http-tls-key, or listen on 127.0.0.1"},
		"other_host":  {[]string{"--http", "node.example:0", "--http-tokens", tokenFile(t, "x")}, "give the settings http-tls-cert and http-tls-key, or listen on 127.0.0.1"},
		"ca_alone":    {[]string{"--set", "http-client-ca=x", "--http-tokens", tokenFile(t, "x")}, "setting http-client-ca needs http-tls-cert"},
		"half_of_tls": {[]string{"--http-tokens", tokenFile(t, "x"), "--set", "http-tls-cert=x"}, "go together"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			args := append([]string{"serve", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, c.args...)
			code := run(limited(t), args, &streams{Out: io.Discard, Err: &out, Env: func(string) string { return "" }})
			if code != exitFailed || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "hunter2") {
				t.Errorf("got exit code %d and %q, want %q", code, out.String(), c.want)
			}
		})
	}
}
