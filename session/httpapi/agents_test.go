package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/httpapi"
)

// TestAgentsWriteDeadline has callers of /v1/mcp that do not read their answers: of one large write, of many small ones, with and
// without a flush after each. Each handler gets an error in bounded time, and nothing of the answer stays. A caller that reads
// slowly gets all of an answer that takes longer than the deadline of one write.
func TestAgentsWriteDeadline(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	large, small := bytes.Repeat([]byte("x"), 64<<20), bytes.Repeat([]byte("y"), 4<<10)
	many := func(w http.ResponseWriter, flush bool) error {
		for range len(large) / len(small) {
			if _, err := w.Write(small); err != nil {
				return err
			}
			if flush {
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	readOf := make(chan struct{}, 1)
	for name, c := range map[string]struct {
		write func(w http.ResponseWriter) error
		reads bool
	}{
		"large":   {func(w http.ResponseWriter) error { _, err := w.Write(large); return err }, false},
		"many":    {func(w http.ResponseWriter) error { return many(w, false) }, false},
		"flushed": {func(w http.ResponseWriter) error { return many(w, true) }, false},
		"slow": {func(w http.ResponseWriter) error {
			for began := time.Now(); time.Since(began) < 2*timeout; <-readOf { // the caller has the piece
				if _, err := w.Write(small); err != nil {
					return err
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
			}
			return nil
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			cfg := config(t)
			cfg.WriteTimeout = timeout
			cfg.Agents = func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ended <- c.write(w) })
			}
			conn := dial(t, cfg)
			_, _ = fmt.Fprintf(conn, "POST /v1/mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", secret)
			var read int64
			if c.reads {
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				for piece := make([]byte, len(small)); err == nil; {
					if _, err = io.ReadFull(answer.Body, piece); err == nil {
						read += int64(len(piece))
						readOf <- struct{}{}
					}
				}
				if !errors.Is(err, io.EOF) {
					t.Errorf("after %d bytes: got %v, want the end", read, err)
				}
				_ = answer.Body.Close()
			}
			if err := bustest.Receive(t, "the end of the handler", ended); (err == nil) != c.reads || c.reads && read == 0 {
				t.Errorf("got %v after %d bytes were read", err, read)
			}
		})
	}
}

// TestAgentsHost has requests of /v1/mcp name this machine and others, from a trusted proxy on the same host and without one.
func TestAgentsHost(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Proxies, cfg.ProxyHeader = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, httpapi.XForwardedFor
	cfg.Agents = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	}
	s := newServer(t, cfg)
	const own, proxy, forwarded = "127.0.0.1:8080", "127.0.0.2:5", "X-Forwarded-For"
	for name, c := range map[string]struct {
		local, peer, host string
		header            [2]string
		want              int
	}{
		"localhost":               {own, "127.0.0.1:5", "localhost:8080", [2]string{}, 418},
		"an address":              {own, "127.0.0.1:5", "127.0.0.1", [2]string{}, 418},
		"an address of IPv6":      {"[::1]:8080", "[::1]:5", "[::1]:8080", [2]string{}, 418},
		"a foreign name":          {own, "127.0.0.1:5", "lash.example", [2]string{}, 403},
		"like localhost":          {own, "127.0.0.1:5", "localhost.example", [2]string{}, 403},
		"no name":                 {own, "127.0.0.1:5", "", [2]string{}, 403},
		"of IPv6, foreign":        {"[::1]:8080", "[::1]:5", "lash.example", [2]string{}, 403},
		"an address of a network": {"10.0.0.1:8080", "10.0.0.7:5", "lash.example", [2]string{}, 418},
		"the proxy":               {own, proxy, "lash.example", [2]string{forwarded, "198.51.100.7"}, 418},
		"without its header":      {own, proxy, "lash.example", [2]string{}, 403},
		"with another header":     {own, proxy, "lash.example", [2]string{"Forwarded", "for=198.51.100.7"}, 403},
		"its header alone":        {own, "127.0.0.1:5", "lash.example", [2]string{forwarded, "198.51.100.7"}, 403},
	} {
		local, err := net.ResolveTCPAddr("tcp", c.local)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local), http.MethodPost, "/v1/mcp", strings.NewReader("{}"))
		r.Host, r.RemoteAddr = c.host, c.peer
		r.Header.Set("Authorization", "Bearer "+secret)
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.want)
		}
	}
}

// TestAgentsHaveNoSessions has callers of /v1/mcp ask for a stream, and end sessions: there are none, each request is one by itself.
func TestAgentsHaveNoSessions(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Agents = func(http.Handler) http.Handler { return http.NotFoundHandler() }
	s := newServer(t, cfg)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		for _, id := range []string{"", "unknown"} {
			w := ask(t, s, method, "/v1/mcp", "", "Mcp-Session-Id", id)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
				t.Errorf("%s of %q: got %d, %q, want 405 and POST", method, id, w.Code, w.Header().Get("Allow"))
			}
		}
	}
}
