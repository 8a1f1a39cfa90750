package httpapi

import (
	"net/http"
	"strings"
	"time"
)

// pagePrefix begins the paths of the files of [Config.Page], besides the path /.
const pagePrefix = "/page/"

// hasPage reports whether the page serves the path of a request.
func (s *Server) hasPage(r *http.Request) bool {
	at := r.URL.EscapedPath()
	return s.cfg.Page != nil && (at == "/" || strings.HasPrefix(at, pagePrefix))
}

// servePage serves a file of the page, which needs no caller, within the limit of its client's address.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	recordOf(w).Operation = "page"
	now := time.Now()
	limiter := s.anonymous.limiter(addressOf(s.clientOf(r)), now)
	if err := s.anonymous.check(limiter, now); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.cfg.Page.ServeHTTP(w, r)
	deductBytes(limiter, int(recordOf(w).Written))
}
