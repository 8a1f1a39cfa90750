package httpapi

import (
	"net/http"
	"time"

	"github.com/lash-go/lash/session/api"
)

// agentsPath is the path of [Config.Agents]. It is not in the document, which describes operations.
const agentsPath = "/v1/mcp"

// agentsRoute hands the requests of agents to a handler. They count as requests that stay open.
func agentsRoute(next http.Handler) *route {
	return &route{name: "mcp", method: http.MethodPost, path: agentsPath, needs: api.RightRead, long: true, handle: func(c *httpRequest) (reply, error) {
		next.ServeHTTP(&agentsWriter{c.w, c.s.cfg.WriteTimeout}, c.Request)
		return reply{written: true}, nil
	}}
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
