package httpapi

import (
	"net/http"

	"github.com/lash-go/lash/session/api"
)

// agentsPath is the path of [Config.Agents]. It is not in the document, which describes operations.
const agentsPath = "/v1/mcp"

// agentsRoute hands the requests of agents to a handler. They count as requests that stay open.
func agentsRoute(next http.Handler) *route {
	return &route{name: "mcp", method: http.MethodPost, path: agentsPath, needs: api.RightRead, long: true, handle: func(c *call) (reply, error) {
		next.ServeHTTP(c.w, c.Request)
		return reply{written: true}, nil
	}}
}
