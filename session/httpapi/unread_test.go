package httpapi_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/httpapi"
)

// watchedServer is a server that passes its access records and the reasons of refused connections on.
type watchedServer struct {
	address string
	client  *tls.Config // that trusts it; nil: no TLS
	records chan accesslog.Record
	reasons chan string
}

func watchServer(t *testing.T, secure bool) *watchedServer {
	t.Helper()
	w := &watchedServer{records: make(chan accesslog.Record, 64), reasons: make(chan string, 64)}
	cfg := config(t)
	cfg.Access, cfg.Refused = func(r accesslog.Record) { w.records <- r }, func(reason string) { w.reasons <- reason }
	cfg.AnonymousTimeout, cfg.ReadHeaderTimeout = time.Minute, time.Minute
	if secure {
		pair := httptest.NewUnstartedServer(nil)
		pair.StartTLS() // for the test certificate
		t.Cleanup(pair.Close)
		cfg.TLS = &tls.Config{Certificates: pair.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
		w.client = pair.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		w.client.ServerName = "example.com"
	}
	_, w.address = listening(t, cfg)
	return w
}

// send sends a text and closes the connection for writing, and returns the first line of the answer.
func (w *watchedServer) send(t *testing.T, text string) string {
	t.Helper()
	plain := from(t, "127.0.0.1", w.address, "")
	var c interface {
		net.Conn
		CloseWrite() error
	} = plain.(*net.TCPConn)
	if w.client != nil {
		c = tls.Client(plain, w.client)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text) // the server may close it before all is sent
	answer := make(chan string, 1)
	go func() { // ends with the deadline
		line, _ := bufio.NewReader(c).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	_ = c.CloseWrite()
	got := <-answer
	_ = c.Close()
	return got
}

// next is the next record; its duration is left out, and of its address what stays the same.
func (w *watchedServer) next(t *testing.T) accesslog.Record {
	t.Helper()
	r := bustest.Receive(t, "an access record", w.records)
	host, _, _ := net.SplitHostPort(r.Remote)
	if r.Duration <= 0 {
		t.Errorf("got %+v, want a duration", r)
	}
	r.Remote, r.Duration, r.Written = host, 0, 0
	return r
}

func (w *watchedServer) wantReason(t *testing.T, what, want string) {
	t.Helper()
	if got := bustest.Receive(t, "a reason for "+what, w.reasons); got != want {
		t.Errorf("%s: got the reason %s, want %s", what, got, want)
	}
}

// TestUnreadableRequestsAreLogged sends what net/http answers by itself, without and with TLS. Each connection has one access record with the
// address, without TLS with the status, and is counted. What the server answers itself has the record of a request.
func TestUnreadableRequestsAreLogged(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watchServer(t, secure)
			for text, status := range map[string]int{ // RFC 9110 and RFC 6585
				"garbage\r\n\r\n":          400,
				"GET / HTTP/1.1\r\n\r\n":   400, // no host
				"GET / HTTP/1.1\r\nHost: ": 400, // the client closes it
				"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n": 431,
				"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n":                 501,
				"GET / HTTP/9.9\r\nHost: x\r\n\r\n":                                            505,
				"GET / HTTP/1.1\r\nHost: x\r\nExpect: cake\r\n\r\n":                            417,
			} {
				what := fmt.Sprintf("%.40q", text)
				if got := w.send(t, text); got != "" && !strings.HasPrefix(got, fmt.Sprint("HTTP/1.1 ", status)) { // of 431 the client may read nothing
					t.Errorf("%s: got %q, want %d", what, got, status)
				}
				want := accesslog.Record{API: accesslog.HTTP, Code: "unreadable_request", Status: status, Remote: "127.0.0.1"}
				if secure {
					want.Status = 0
				}
				if got := w.next(t); got != want {
					t.Errorf("%s: got %+v, want %+v", what, got, want)
				}
				w.wantReason(t, what, httpapi.RefusedUnreadable)
			}
			for text, want := range map[string]accesslog.Record{
				"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":        {Code: "no_path", Status: 404},
				"GET /v1/nosuch HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":   {Code: "no_path", Status: 404},
				"GET /v1/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n": {Code: "unauthorized", Status: 401, Operation: "listSessions"},
			} {
				w.send(t, text)
				if got := w.next(t); got.Code != want.Code || got.Status != want.Status || got.Operation != want.Operation {
					t.Errorf("%.40q: got %+v, want %+v", text, got, want)
				}
			}
			if secure {
				plain := *w
				plain.client = nil
				plain.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				if got, want := w.next(t), (accesslog.Record{API: accesslog.HTTP, Code: "tls_handshake", Remote: "127.0.0.1"}); got != want {
					t.Errorf("no handshake: got %+v, want %+v", got, want)
				}
				w.wantReason(t, "no handshake", httpapi.RefusedTLS)
			} else {
				w.send(t, "") // as checks of a load balancer
			}
			if len(w.records)+len(w.reasons) > 0 {
				t.Errorf("got %d more records and %d more reasons", len(w.records), len(w.reasons))
			}
		})
	}
}

// preface begins a connection of HTTP/2, with empty settings.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// headerFrames are the frames of a request on the first stream, with as many headers of 1000 bytes (RFC 9113, RFC 7541). 32 are above the
// limit of the server, in the last frame.
func headerFrames(n int) string {
	text := func(s string) string { // without Huffman code
		if len(s) < 127 {
			return string([]byte{byte(len(s))}) + s
		}
		rest := len(s) - 127
		return string([]byte{127, byte(rest%128 + 128), byte(rest / 128)}) + s
	}
	block := "\x82\x84\x87" + "\x00" + text(":authority") + text("x") // GET, /, https
	for i := range n {
		block += "\x00" + text(fmt.Sprint("x-", i)) + text(strings.Repeat("x", 1000))
	}
	frames, kind := "", byte(1) // headers, then continuations
	for len(block) > 0 {
		part := block[:min(len(block), 16<<10)]
		block = block[len(part):]
		flags := byte(1) // the end of the stream
		if kind != 1 {
			flags = 0
		}
		if block == "" {
			flags |= 4 // the end of the headers
		}
		frames += string([]byte{byte(len(part) >> 16), byte(len(part) >> 8), byte(len(part)), kind, flags, 0, 0, 0, 1}) + part
		kind = 9
	}
	return frames
}

// TestLongUnreadableHTTP2 sends headers over HTTP/2 that are too large, that are so large that the connection ends, and on a stream of the server.
// A request that can be read is no such thing.
func TestLongUnreadableHTTP2(t *testing.T) {
	t.Parallel()
	w := watchServer(t, true)
	w.client.NextProtos = []string{"h2"}
	w.send(t, preface+headerFrames(1))
	if got := w.next(t); got.Code != "no_path" {
		t.Errorf("one header: got %+v, want the record of a request", got)
	}
	w.send(t, preface+headerFrames(32))
	if got, want := w.next(t), (accesslog.Record{API: accesslog.HTTP, Code: "unreadable_request", Remote: "127.0.0.1"}); got != want {
		t.Errorf("large header: got %+v, want %+v", got, want)
	}
	w.wantReason(t, "large header", httpapi.RefusedUnreadable)
	w.send(t, preface+headerFrames(90))
	w.wantReason(t, "larger header", httpapi.RefusedHTTP2)
	w.send(t, preface+"\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82")
	w.wantReason(t, "stream of the server", httpapi.RefusedHTTP2)
	if len(w.records) > 0 {
		t.Errorf("got the record %+v, want none", <-w.records)
	}
}
