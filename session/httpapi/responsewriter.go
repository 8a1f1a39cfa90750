package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/lash-go/lash/session/accesslog"
)

// responseWriter is a response that records whether it has started, and the request's access record.
type responseWriter struct {
	http.ResponseWriter
	started bool
	record  accesslog.Record
}

func (a *responseWriter) WriteHeader(status int) {
	a.starts(status)
	a.ResponseWriter.WriteHeader(status)
}

// starts records the status of the response. The first one counts.
func (a *responseWriter) starts(status int) {
	if !a.started {
		a.started, a.record.Status = true, status
	}
}

func (a *responseWriter) Write(data []byte) (int, error) {
	a.starts(http.StatusOK)
	n, err := a.ResponseWriter.Write(data)
	a.record.Written += int64(n)
	return n, err
}

// FlushError sends what was written, for [http.ResponseController].
func (a *responseWriter) FlushError() error {
	a.starts(http.StatusOK)
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap implements the interface of [http.ResponseController].
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// recordOf is the access record of a response of this server.
func recordOf(w http.ResponseWriter) *accesslog.Record { return &w.(*responseWriter).record }

// countedBody counts the bytes of a request's body.
type countedBody struct {
	io.ReadCloser
	record *accesslog.Record
}

func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.record.Read += int64(n)
	return n, err
}

// logAccess passes the record to the access log.
func (s *Server) logAccess(w *responseWriter, began time.Time) {
	w.record.Duration = time.Since(began)
	if s.cfg.Access != nil {
		s.cfg.Access(w.record)
	}
}

// panicError is the text of a recovered panic, for the log.
func panicError(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

// recoverPanic responds after a panic of the handler, or cuts the connection where the response has started.
func (s *Server) recoverPanic(w *responseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint,err113 // the standard way to cut a connection, never wrapped
		panic(v)
	}
	err := panicError(v)
	if w.started {
		w.record.Code = s.reportProblem(r, err).Code // the log gets the error, and the client only the code
		panic(http.ErrAbortHandler)
	}
	s.refuse(w, r, err)
}
