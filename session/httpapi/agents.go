package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/lash-go/lash/session/api"
)

// agentsPath is the path of [Config.Agents]. It is not in the document, which describes operations.
const agentsPath = "/v1/mcp"

// agentsRoute hands the requests of agents to a handler. They count as requests that stay open. The protocol asks its servers to refuse
// requests with a foreign name of a host at a loopback address.
func agentsRoute(next http.Handler) *route {
	return &route{name: "mcp", method: http.MethodPost, path: agentsPath, needs: api.RightRead, long: true, handle: func(c *httpRequest) (reply, error) {
		if !c.s.isNamed(c.Request) {
			return reply{}, errForeignHost
		}
		next.ServeHTTP(&agentsWriter{c.w, c.s.cfg.WriteTimeout}, c.Request)
		return reply{written: true}, nil
	}}
}

// isNamed reports whether a request at a loopback address names this machine. Otherwise a page whose name leads there could have sent
// it, unless a trusted proxy forwards it: the name is that of the proxy then.
func (s *Server) isNamed(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(local.String()) || isLoopback(r.Host) {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && trusts(s.cfg.Proxies, peer.Addr()) && strings.TrimSpace(r.Header.Get(s.cfg.ProxyHeader)) != ""
}

// isLoopback reports whether a host, which may have a port, is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	at, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && at.Unmap().IsLoopback()
}

// agentsWriter gives each write the time of a response: a client that does not read would keep the answers in memory.
type agentsWriter struct {
	http.ResponseWriter
	timeout time.Duration
}

// Write implements [http.ResponseWriter].
func (w *agentsWriter) Write(data []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout)) // a test recorder has no deadline
	return w.ResponseWriter.Write(data)
}

// Unwrap is for [http.ResponseController].
func (w *agentsWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
