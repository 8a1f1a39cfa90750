package httpapi_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// listening starts a server on its own address.
func listening(t *testing.T, cfg httpapi.Config) (s *httpapi.Server, address string) {
	t.Helper()
	s = newServer(t, cfg)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Start(on)
	return s, on.Addr().String()
}

// from connects from a local address, and sends a text.
func from(t *testing.T, local, to, text string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := dialer.DialContext(t.Context(), "tcp", to)
	if errors.Is(err, syscall.ECONNRESET) { // the server cut it before the dial returned
		cut, other := net.Pipe()
		_ = other.Close()
		return cut
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, _ = c.Write([]byte(text)) // the server may have cut the connection
	return c
}

// cutOff reports whether the server closes a connection within wait.
func cutOff(c net.Conn, wait time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(wait))
	for {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

// TestFloodOfConnections opens connections from one address and from many that send nothing, half a header or refused
// requests. An authenticated client continues, a new client connects, and the number of anonymous connections stays
// within the limit.
func TestFloodOfConnections(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.MaxConnections, cfg.MaxConnectionsPerAddress, cfg.KeepAlive = 16, 3, time.Millisecond
	cfg.ReadHeaderTimeout, cfg.AnonymousTimeout = time.Minute, time.Minute // only the limits close connections
	s, address := listening(t, cfg)
	ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
	asks := func(client *http.Client) error {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/sessions/s", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		got, err := client.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, got.Body)
			_ = got.Body.Close()
		}
		return err
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if err := asks(client); err != nil {
		t.Fatal(err)
	}
	stream := from(t, "127.0.0.1", address, "GET /v1/sessions/s/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+secret+"\r\n\r\n")
	comments := bufio.NewReader(stream)
	if line, err := comments.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("stream: got %q, %v, want 200", line, err)
	}
	var flood []net.Conn
	for n := range 120 {
		text := []string{"", "GET /v1/sessions/s HTTP/1.1\r\nHost:", "GET /v1/sessions/s HTTP/1.1\r\nHost: x\r\n\r\n"}[n%3]
		flood = append(flood, from(t, fmt.Sprintf("127.0.%d.1", n%2*(n%40)), address, text))
		if n%20 == 0 {
			if err := asks(client); err != nil {
				t.Errorf("client that is known, after %d strangers: got %v", n, err)
			}
			fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if err := asks(fresh); err != nil {
				t.Errorf("new client after %d strangers: got %v", n, err)
			}
		}
	}
	flood = flood[:len(flood)-8] // the last 8 may be open
	bustest.Eventually(t, "8 open connections of strangers at most", func() bool {
		flood = slices.DeleteFunc(flood, func(c net.Conn) bool { return cutOff(c, 50*time.Millisecond) })
		return len(flood) <= 8
	})
	_ = stream.SetReadDeadline(time.Now().Add(time.Minute))
	for range 1000 { // new comments, not buffered ones
		if _, err := comments.ReadString('\n'); err != nil {
			t.Fatalf("stream: got %v, want it open", err)
		}
	}
}

// TestLongAnonymousConnectionEnds keeps anonymous connections busy in every way. They end at the timeout, and a caller's
// connection stays.
func TestLongAnonymousConnectionEnds(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.AnonymousTimeout, cfg.ReadHeaderTimeout, cfg.IdleTimeout = 5*time.Second, time.Hour, time.Hour
	_, address := listening(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	texts := map[string]string{
		"nothing": "", "header": "GET /v1/sessions/s HTTP/1.1\r\nX: ", "refused": "GET /v1/sessions/s HTTP/1.1\r\nHost: x\r\n\r\n",
		"document": "GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", "bad_token": "GET /v1/sessions/s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n",
	}
	mine := from(t, "127.0.0.1", address, "GET /v1/sessions/nosuch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+secret+"\r\n\r\n")
	strangers := make(map[string]net.Conn)
	for name, text := range texts {
		strangers[name] = from(t, "127.0.0.1", address, text)
	}
	for name, c := range strangers {
		for ctx.Err() == nil && !cutOff(c, 20*time.Millisecond) {
			_, _ = c.Write([]byte(texts[name])) // repeats the text
		}
		if ctx.Err() != nil {
			t.Errorf("%s: got a connection that stays", name)
		}
	}
	if cutOff(mine, 20*time.Millisecond) { // the caller's connection was opened first
		t.Error("got a caller's connection closed")
	}
}

// TestLongStrangersOverTLS keeps connections open after part of a handshake, or with HTTP/2 traffic and no credentials.
// They end, and a caller's connection stays.
func TestLongStrangersOverTLS(t *testing.T) {
	t.Parallel()
	pair := httptest.NewUnstartedServer(nil)
	pair.StartTLS() // for the test certificate
	defer pair.Close()
	cfg := config(t)
	cfg.AnonymousTimeout, cfg.ReadHeaderTimeout, cfg.IdleTimeout = 8*time.Second, time.Hour, time.Hour
	cfg.TLS = &tls.Config{Certificates: pair.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	_, address := listening(t, cfg)
	trusts := pair.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	transport := &http.Transport{TLSClientConfig: trusts, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	ask := func() (reused bool) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/v1/sessions/nosuch", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		got, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.ProtoMajor != 2 || got.StatusCode != http.StatusNotFound {
			t.Errorf("got %s over %s, want 404 over HTTP/2", got.Status, got.Proto)
		}
		return reused
	}
	ask()
	secure := func() net.Conn {
		config := trusts.Clone()
		config.NextProtos, config.ServerName = []string{"h2"}, "example.com"
		c := tls.Client(from(t, "127.0.0.1", address, ""), config)
		if err := c.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		return c
	}
	ping := append([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0}, make([]byte, 8)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for name, c := range map[string]struct {
		conn net.Conn
		more []byte
	}{
		"nothing":    {from(t, "127.0.0.1", address, ""), nil},
		"half_hello": {from(t, "127.0.0.1", address, "\x16\x03\x01\x02\x00\x01"), []byte{0}},
		"quiet":      {secure(), nil},
		"pings":      {secure(), ping},
	} {
		for ctx.Err() == nil && !cutOff(c.conn, 20*time.Millisecond) {
			_, _ = c.conn.Write(c.more)
		}
		if ctx.Err() != nil {
			t.Errorf("%s: got a connection that stays", name)
		}
	}
	if !ask() {
		t.Error("got a caller's connection closed")
	}
}

// TestGuessCostsConnection checks that a wrong token closes an anonymous connection, and not a caller's.
func TestGuessCostsConnection(t *testing.T) {
	t.Parallel()
	_, address := listening(t, config(t))
	request := func(token string) string {
		return "GET /v1/sessions/nosuch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	}
	answers := func(c net.Conn, n int) (statuses []int, closed bool) {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		in := bufio.NewReader(c)
		for range n {
			got, err := http.ReadResponse(in, nil)
			if err != nil {
				return statuses, true
			}
			_, _ = io.Copy(io.Discard, got.Body)
			_ = got.Body.Close()
			statuses = append(statuses, got.StatusCode)
		}
		return statuses, false
	}
	if got, closed := answers(from(t, "127.0.0.1", address, request("x")+request(secret)), 2); !closed || !slices.Equal(got, []int{401}) {
		t.Errorf("stranger: got %v, closed %v, want 401 and the end", got, closed)
	}
	if got, closed := answers(from(t, "127.0.0.1", address, request(secret)+request("x")+request(secret)), 3); closed || !slices.Equal(got, []int{404, 401, 404}) {
		t.Errorf("caller: got %v, closed %v, want 404, 401, 404", got, closed)
	}
}

// TestConnectionsOfCaller opens more connections than one caller may have: the next is refused, and another caller's
// is not.
func TestConnectionsOfCaller(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Tokens = append(cfg.Tokens, httpapi.Token{Name: "you", Digest: sha256.Sum256([]byte("you")), Scope: api.ScopeRead})
	cfg.MaxConnectionsPerCaller = 2
	_, address := listening(t, cfg)
	open := func(token string) string {
		c := from(t, "127.0.0.1", address, "GET /v1/sessions/nosuch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		got, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(got.Body)
		_ = got.Body.Close()
		return got.Status + " " + string(body)
	}
	for n, want := range []string{"no_session", "no_session", "too_many_connections"} {
		if got := open(secret); !strings.Contains(got, `"code":"`+want+`"`) {
			t.Errorf("connection %d: got %s, want %s", n, got, want)
		}
	}
	if got := open("you"); !strings.Contains(got, "no_session") {
		t.Errorf("another caller: got %s, want no_session", got)
	}
}
