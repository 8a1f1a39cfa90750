package httpapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/session/accesslog"
)

// Codes of access records without a request.
const (
	codeUnreadable = "unreadable_request"
	codeHandshake  = "tls_handshake"
)

// unread is what a connection has of a request that the handler does not get. net/http answers such a request by itself, or closes the
// connection: its header is malformed, too large or not complete, or its version or encoding is not supported.
//
//	net/http                                     this server
//	reads the first request, or a part of it
//	StateActive                                  begins
//	calls the handler                            ends
//	  or answers, StateClosed                    one record
type unread struct {
	pending atomic.Bool  // from the state active until the handler has the request
	wasIdle atomic.Bool  // HTTP/2 is active and idle once before its first request
	handled atomic.Bool  // the handler had a request
	status  atomic.Int32 // of the answer of net/http; 0: there is none yet, or it is encrypted
}

// begins is the state active.
func (u *unread) begins() { u.pending.Store(true) }

// ends is the call of the handler.
func (u *unread) ends() {
	u.pending.Store(false)
	u.handled.Store(true)
}

// idles is the state idle.
func (u *unread) idles() {
	if u.wasIdle.CompareAndSwap(false, true) {
		u.pending.Store(false)
	}
}

// wrote reads the status of an answer that the handler does not write.
func (u *unread) wrote(data []byte) {
	if !u.pending.Load() {
		return
	}
	_, rest, ok := strings.Cut(string(data[:min(len(data), len("HTTP/1.1 400"))]), "HTTP/1.1 ")
	if status, err := strconv.ParseInt(rest, 10, 32); ok && err == nil {
		u.status.CompareAndSwap(0, int32(status))
	}
}

// connStateChanged receives the state changes of a connection from the HTTP server.
func (s *Server) connStateChanged(c net.Conn, state http.ConnState) {
	tracked := unwrapConn(c)
	if tracked == nil {
		return
	}
	tracked.setIdle(state == http.StateIdle)
	switch state {
	case http.StateActive:
		tracked.unread.begins()
	case http.StateIdle:
		tracked.unread.idles()
	case http.StateClosed:
		if !tracked.endedByItself() {
			return // by a limit, which counts it
		}
		s.connClosed(c, tracked)
	case http.StateNew, http.StateHijacked:
	}
}

// handlerWait is how long a handler of HTTP/2 may take to start after its connection was closed: it is in another goroutine.
const handlerWait = time.Second

// connClosed counts a connection that ended without a request.
func (s *Server) connClosed(c net.Conn, tracked *conn) {
	switch secure, _ := c.(*tls.Conn); {
	case secure != nil && !secure.ConnectionState().HandshakeComplete:
		s.logConnection(tracked, RefusedTLS, codeHandshake)
	case secure != nil && secure.ConnectionState().NegotiatedProtocol == "h2":
		if tracked.unread.pending.Load() || !tracked.unread.handled.Load() {
			time.AfterFunc(handlerWait, func() { s.endedWithoutRequest(tracked) }) // after Stop it does nothing
		}
	default:
		s.endedWithoutRequest(tracked)
	}
}

// endedWithoutRequest counts a connection that is closed, if the handler did not get what was read of it. A connection of HTTP/2 of which
// nothing reached the handler may have sent nothing: net/http does not say that.
func (s *Server) endedWithoutRequest(c *conn) {
	switch {
	case s.slots.isDraining():
	case c.unread.pending.Load():
		s.logConnection(c, RefusedUnreadable, codeUnreadable)
	case c.unread.wasIdle.Load() && !c.unread.handled.Load():
		c.all.report(RefusedHTTP2)
	}
}

// logConnection counts a connection without a readable request, and passes a record to the access log.
func (s *Server) logConnection(c *conn, reason, code string) {
	c.all.report(reason)
	if s.cfg.Access != nil {
		s.cfg.Access(accesslog.Record{
			API: accesslog.HTTP, Code: code, Status: int(c.unread.status.Load()), Remote: c.RemoteAddr().String(), Duration: time.Since(c.accepted),
		})
	}
}
