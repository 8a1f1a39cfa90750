package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/lash-go/lash/session/accesslog"
)

// answering is a response that knows whether it has begun, and keeps the
// request's record.
type answering struct {
	http.ResponseWriter
	begun  bool
	record accesslog.Record
}

func (a *answering) WriteHeader(status int) {
	a.begun, a.record.Status = true, status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(data []byte) (int, error) {
	n, err := a.ResponseWriter.Write(data)
	a.record.Written += int64(n)
	return n, err
}

// Unwrap is for [http.ResponseController].
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// recordOf is the record of the request that a handler of this server answers.
func recordOf(w http.ResponseWriter) *accesslog.Record { return &w.(*answering).record }

// countedBody is a request's body.
type countedBody struct {
	io.ReadCloser
	record *accesslog.Record
}

func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.record.Read += int64(n)
	return n, err
}

// ended hands the record on.
func (s *Server) ended(w *answering, began time.Time) {
	w.record.Duration = time.Since(began)
	if s.cfg.Access != nil {
		s.cfg.Access(w.record)
	}
}

// panicError is what a recovered panic says, for the log.
func panicError(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

// recovered answers for a handler that panicked, or cuts the connection where an answer has begun.
func (s *Server) recovered(w *answering, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint,err113 // how handlers cut a connection, never wrapped
		panic(v)
	}
	err := panicError(v)
	if w.begun {
		w.record.Code = s.told(r, err).Code // which is in the log, and not in the answer
		panic(http.ErrAbortHandler)
	}
	s.refuse(w, r, err)
}
