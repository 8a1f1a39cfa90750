package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	n    int64 // serial number of the last certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.NoError(t, err)
	a.key = key
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		Subject: pkix.Name{CommonName: t.Name()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	runtest.NoError(t, err)
	a.cert, _ = x509.ParseCertificate(der)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// issue makes a certificate and its key, as PEM. Server certificates are for 127.0.0.1.
func (a *authority) issue(use x509.ExtKeyUsage, name string, uris ...string) (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.NoError(a.t, err)
	a.n++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.n + 1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{use}, Subject: pkix.Name{CommonName: name},
	}
	if use == x509.ExtKeyUsageServerAuth {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	for _, text := range uris {
		u, _ := url.Parse(text)
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	runtest.NoError(a.t, err)
	keyDER, _ := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// client presents a certificate where the pair is present, and trusts the authority.
func (a *authority) client(pair ...[]byte) *http.Client {
	a.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(a.cert)
	if len(pair) == 2 {
		cert, err := tls.X509KeyPair(pair[0], pair[1])
		runtest.NoError(a.t, err)
		config.Certificates = []tls.Certificate{cert}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// TestLongClientCertificates sends requests with accepted and refused client certificates, with and without a token.
func TestLongClientCertificates(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	serverCert, serverKey := ours.issue(x509.ExtKeyUsageServerAuth, "server")
	callers := fmt.Sprintf("alice write uri:spiffe://acme/alice\nbob write cn:bob\nme write %x\n", sha256.Sum256([]byte("token")))
	pair := func(a *authority, use x509.ExtKeyUsage, name string, uris ...string) *http.Client {
		cert, key := a.issue(use, name, uris...)
		client := ours.client(cert, key)
		return client
	}
	const forClients = x509.ExtKeyUsageClientAuth
	for mode, wantStatus := range map[string]map[string]int{ // 0: the connection fails
		"required": {"alice": 201, "bob": 201, "unknown": 401, "none": 0, "token": 0, "unknown_and_token": 201, "stranger": 0, "server": 0, "alice_and_bad_token": 401},
		"optional": {"alice": 201, "bob": 201, "unknown": 401, "none": 401, "token": 201, "unknown_and_token": 201, "stranger": 0, "server": 0, "alice_and_bad_token": 401},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", file(t, "callers", []byte(callers)),
				"--set", "http-tls-cert="+file(t, "cert.pem", serverCert), "--set", "http-tls-key="+file(t, "key.pem", serverKey),
				"--set", "http-client-ca="+file(t, "ca.pem", ours.pem), "--set", "http-client-cert="+mode)
			for name, c := range map[string]struct {
				client *http.Client
				token  string
			}{
				"alice":               {pair(ours, forClients, "x", "spiffe://acme/alice"), ""},
				"bob":                 {pair(ours, forClients, "bob"), ""},
				"unknown":             {pair(ours, forClients, "mallory"), ""},
				"unknown_and_token":   {pair(ours, forClients, "mallory"), "token"},
				"alice_and_bad_token": {pair(ours, forClients, "x", "spiffe://acme/alice"), "guess"},
				"stranger":            {pair(theirs, forClients, "bob"), "token"},
				"server":              {pair(ours, x509.ExtKeyUsageServerAuth, "bob"), "token"},
				"none":                {ours.client(), ""},
				"token":               {ours.client(), "token"},
			} {
				runtest.Equal(t, name, s.request(t, c.client, c.token, "POST", "/sessions", `{"id":"`+name+`"}`), wantStatus[name])
			}
			runtest.Contains(t, "history", opener(t, s, pair(ours, forClients, "bob"), "alice"), "client:alice")
			s.stop(t, syscall.SIGTERM)
		})
	}
}

// opener is the caller in a session's first commit.
func opener(t *testing.T, s *serving, client *http.Client, session string) string {
	t.Helper()
	r, _ := http.NewRequestWithContext(limited(t), http.MethodGet, s.http+"/sessions/"+session+"/events", nil)
	got, err := client.Do(r)
	runtest.NoError(t, err)
	defer got.Body.Close() //nolint:errcheck // the response is only read
	for lines := bufio.NewScanner(got.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return lines.Text()
		}
	}
	return ""
}

// TestLongCertificatesAreReadAgain replaces the node's certificate, and the authority of its clients.
func TestLongCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	cert, key := ours.issue(x509.ExtKeyUsageServerAuth, "first")
	certFile, keyFile, caFile := file(t, "cert.pem", cert), file(t, "key.pem", key), file(t, "ca.pem", ours.pem)
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", file(t, "callers", []byte("bob write cn:bob\n")),
		"--set", "http-tls-cert="+certFile, "--set", "http-tls-key="+keyFile, "--set", "http-client-ca="+caFile)
	mine, theirs := ours.client(ours.issue(x509.ExtKeyUsageClientAuth, "bob")), ours.client(others.issue(x509.ExtKeyUsageClientAuth, "bob"))
	if got := []int{s.request(t, mine, "", "POST", "/sessions", `{"id":"s"}`), s.request(t, theirs, "", "POST", "/sessions", `{}`)}; got[0] != 201 || got[1] != 0 {
		t.Fatalf("got %v, want the one and not the other", got)
	}
	next, nextKey := ours.issue(x509.ExtKeyUsageServerAuth, "second")
	put := func(path string, data []byte) {
		t.Helper()
		runtest.NoError(t, os.WriteFile(path, data, 0o600))
	}
	put(certFile, next) // it does not match the first key
	put(keyFile, nextKey)
	put(caFile, others.pem)
	s.until(t, theirs, "", http.StatusOK)
	s.until(t, mine, "", 0)
	name := ""
	for ctx := limited(t); name != "second" && ctx.Err() == nil; {
		conn, err := tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.http, "https://"), "/v1"), theirs.Transport.(*http.Transport).TLSClientConfig)
		runtest.NoError(t, err)
		name = conn.ConnectionState().PeerCertificates[0].Subject.CommonName
		_ = conn.Close()
	}
	if name != "second" {
		t.Errorf("got the certificate %s, want the second", name)
	}
	s.stop(t, syscall.SIGTERM)
}
