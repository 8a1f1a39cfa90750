package httpapi_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/httpapi"
)

// TestTrafficBehindProxy has clients behind a trusted proxy, and one that only claims to be. Each client has a limit of bytes of its own, which
// its own text does not change, and the access log has its address.
func TestTrafficBehindProxy(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.MaxBytesPerMinute, cfg.Proxies = 1000, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	cfg.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) })
	var remote string
	cfg.Access = func(r accesslog.Record) { remote = r.Remote }
	s := newServer(t, cfg)
	get := func(peer, forwarded string, want int, logged string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", forwarded)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want || remote != logged {
			t.Errorf("%s for %q: got %d, logged as %s, want %d, %s", peer, forwarded, w.Code, remote, want, logged)
		}
	}
	get("10.0.0.1:1", "198.51.100.1", http.StatusOK, "198.51.100.1:0")
	get("10.0.0.1:2", "198.51.100.1", http.StatusTooManyRequests, "198.51.100.1:0")
	get("10.0.0.1:3", "203.0.113.9, 198.51.100.1", http.StatusTooManyRequests, "198.51.100.1:0")
	get("10.0.0.2:1", "198.51.100.1", http.StatusTooManyRequests, "198.51.100.1:0")
	get("10.0.0.1:4", "198.51.100.2", http.StatusOK, "198.51.100.2:0")
	get("192.0.2.1:1", "198.51.100.3", http.StatusOK, "192.0.2.1:1")
	get("192.0.2.1:2", "198.51.100.4", http.StatusTooManyRequests, "192.0.2.1:2")
}

// TestConnectionsOfProxy opens more connections without a request than an address may have. A trusted proxy keeps them.
func TestConnectionsOfProxy(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.MaxConnections, cfg.MaxConnectionsPerAddress, cfg.Proxies = 32, 2, []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	cfg.ReadHeaderTimeout, cfg.AnonymousTimeout = time.Minute, time.Minute
	_, address := listening(t, cfg)
	first, own := from(t, "127.0.0.2", address, ""), from(t, "127.0.0.3", address, "")
	for range 6 {
		from(t, "127.0.0.2", address, "")
		from(t, "127.0.0.3", address, "")
	}
	if !cutOff(own, 2*time.Minute) {
		t.Error("the first of many connections of an address is open")
	}
	if cutOff(first, 100*time.Millisecond) {
		t.Error("the first of many connections of a proxy was closed")
	}
}

// TestRefusedConnectionsAreCounted reaches the limit of an address, waits for the time limit, and speaks no TLS.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	pair := httptest.NewTLSServer(nil)
	defer pair.Close()
	for want, local := range map[string]struct {
		set  func(*httpapi.Config)
		text string
		n    int
	}{
		httpapi.RefusedLimit:   {func(c *httpapi.Config) { c.MaxConnectionsPerAddress = 2 }, "", 5},
		httpapi.RefusedTimeout: {func(c *httpapi.Config) { c.AnonymousTimeout = 50 * time.Millisecond }, "", 3},
		httpapi.RefusedTLS: {func(c *httpapi.Config) {
			c.TLS = &tls.Config{Certificates: pair.TLS.Certificates, MinVersion: tls.VersionTLS12}
		}, "GET / HTTP/1.1\r\n\r\n", 3},
	} {
		cfg := config(t)
		cfg.AnonymousTimeout, cfg.ReadHeaderTimeout = time.Minute, time.Minute
		local.set(&cfg)
		got := make(chan string, 16)
		cfg.Refused = func(reason string) { got <- reason }
		_, address := listening(t, cfg)
		for range local.n {
			from(t, "127.0.0.1", address, local.text)
		}
		for range 3 {
			if reason := bustest.Receive(t, "the record of a connection that was closed", got); reason != want {
				t.Errorf("got %s, want %s", reason, want)
			}
		}
		if !slices.Contains(httpapi.RefusedConnections(), want) {
			t.Errorf("%s is not in the list", want)
		}
		if n := len(got); n > 0 {
			t.Errorf("%s: got %d more records", want, n)
		}
	}
}
