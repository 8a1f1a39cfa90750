package httpapi

import (
	"net/http"

	"github.com/lash-go/lash/session/api"
)

// sourcePath is the path of [Config.Source]. It is not in the document, which describes operations on sessions.
const sourcePath = "/v1/source"

// sourceName is the response of sourcePath.
type sourceName struct {
	Name string `json:"name"`
}

// sourceRoute returns the name of the source of the sessions to callers with the right to read.
func (s *Server) sourceRoute() *route {
	return &route{name: "source", method: http.MethodGet, path: sourcePath, needs: api.RightRead, handle: func(*httpRequest) (reply, error) {
		return reply{status: http.StatusOK, body: sourceName{s.cfg.Source}}, nil
	}}
}
