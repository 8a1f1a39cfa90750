package httpapi

import (
	"net/http"

	"github.com/lash-go/lash/session/api"
)

// pricesPath is the path of [Config.Prices]. It is not in the document, which describes operations on sessions.
const pricesPath = "/v1/prices"

// pricesRoute returns the prices of tokens to callers with the right to read.
func (s *Server) pricesRoute() *route {
	return &route{name: "prices", method: http.MethodGet, path: pricesPath, needs: api.RightRead, handle: func(*httpRequest) (reply, error) {
		return reply{status: http.StatusOK, body: s.cfg.Prices()}, nil
	}}
}
