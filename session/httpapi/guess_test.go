package httpapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// gate is an identifier that accepts one token. Requests wait in it until the test lets them pass.
type gate struct {
	asked        atomic.Int64
	arrived      chan struct{}
	good, others chan struct{} // closed: these requests pass
}

func newGate() *gate {
	return &gate{arrived: make(chan struct{}, 128), good: make(chan struct{}), others: make(chan struct{})}
}

func (g *gate) Identify(r *http.Request) (c httpapi.Caller, err error) {
	g.asked.Add(1)
	g.arrived <- struct{}{}
	if r.Header.Get("Authorization") != "Bearer "+secret {
		<-g.others
		return c, httpapi.ErrNotMine
	}
	<-g.good
	c.Name, c.Scope = "me", api.ScopeAdmin
	return c, nil
}

// guesser is a client with exactly one connection, over HTTP/2.
type guesser struct {
	t       *testing.T
	address string
	client  http.Client
	ended   chan struct{} // closed with the connection
}

// watchedConn signals its end.
type watchedConn struct {
	net.Conn
	ended func()
}

func (c *watchedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if err != nil { // closed by the server, or by the client after a GOAWAY
		c.ended()
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.ended()
	return c.Conn.Close()
}

// guessing serves with a gate over TLS, and connects to the server.
func guessing(t *testing.T, cfg httpapi.Config, g *gate) *guesser {
	t.Helper()
	pair := httptest.NewUnstartedServer(nil)
	pair.StartTLS() // for the test certificate
	defer pair.Close()
	cfg.Tokens, cfg.Identity, cfg.AnonymousTimeout = nil, []httpapi.Identifier{g}, time.Hour
	cfg.TLS = &tls.Config{Certificates: pair.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	_, address := listening(t, cfg)
	c := &guesser{t: t, address: address, ended: make(chan struct{})}
	var once sync.Once
	var dialled atomic.Bool
	transport := &http.Transport{
		TLSClientConfig: pair.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			if dialled.Swap(true) {
				return nil, errors.New("there is one connection")
			}
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, network, to)
			return &watchedConn{conn, func() { once.Do(func() { close(c.ended) }) }}, err
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	c.client.Transport = transport
	if got := c.ask("/v1/openapi.json", ""); got != http.StatusOK { // needs no credentials, so the connection stays anonymous
		t.Fatalf("document: got %d, want 200", got)
	}
	return c
}

// ask returns the status of the response; 0: no response.
func (c *guesser) ask(path, token string) int {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.address+path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := c.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			c.t.Errorf("%s: got %v, want an answer or the end of the connection", path, err)
		}
		return 0
	}
	_ = got.Body.Close()
	if got.ProtoMajor != 2 {
		c.t.Errorf("got %s, want HTTP/2", got.Proto)
	}
	return got.StatusCode
}

// TestGuessesAtOnce sends a hundred wrong tokens over one HTTP/2 connection, checked at the same time. One refusal is
// the only response, and the connection ends.
func TestGuessesAtOnce(t *testing.T) {
	t.Parallel()
	const guesses = 100
	g := newGate()
	c := guessing(t, config(t), g)
	var refused, other atomic.Int64
	var wait sync.WaitGroup
	for range guesses {
		wait.Go(func() {
			switch status := c.ask("/v1/sessions/nosuch", "x"); status {
			case 0:
			case http.StatusUnauthorized:
				refused.Add(1)
			default:
				other.Add(1)
			}
		})
	}
	for range guesses {
		<-g.arrived
	}
	close(g.others)
	wait.Wait()
	if refused.Load() != 1 || other.Load() != 0 {
		t.Errorf("%d guesses: got %d refusals and %d other answers, want one refusal", guesses, refused.Load(), other.Load())
	}
	bustest.Receive(t, "the end of the connection", c.ended)
}

// TestNothingAfterGuess sends further tokens while the refusal of a wrong one is being sent. Later credentials are
// not checked, also valid ones, and those in progress get no response.
func TestNothingAfterGuess(t *testing.T) {
	t.Parallel()
	g := newGate()
	cfg := config(t)
	said, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	cfg.Access = func(r accesslog.Record) {
		if r.Code == "unauthorized" {
			first.Do(func() {
				close(said)
				<-goOn
			})
		}
	}
	c := guessing(t, cfg, g)
	guess, good := make(chan int, 1), make(chan int, 1)
	go func() { good <- c.ask("/v1/sessions/nosuch", secret) }()
	<-g.arrived
	go func() { guess <- c.ask("/v1/sessions/nosuch", "x") }()
	<-g.arrived
	close(g.others)
	<-said
	close(g.good)
	if got := <-good; got != 0 {
		t.Errorf("a good token that was looked at meanwhile: got %d, want no answer", got)
	}
	before := g.asked.Load()
	for path, token := range map[string]string{"/v1/sessions/nosuch": secret, "/v1/sessions/other": "y", "/v1/openapi.json": "", "/nothing": ""} {
		if got := c.ask(path, token); got != 0 {
			t.Errorf("%s after a refusal: got %d, want no answer", path, got)
		}
	}
	if got := g.asked.Load(); got != before {
		t.Errorf("got %d more looks at credentials, want none", got-before)
	}
	close(goOn)
	if got := <-guess; got != http.StatusUnauthorized {
		t.Errorf("the guess: got %d, want 401", got)
	}
}
