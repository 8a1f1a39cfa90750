package telemetry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server is the HTTP server for operators of a node: /healthz while the process lives, /readyz while it takes work,
// and /metrics.
type Server struct {
	http *http.Server
	addr net.Addr
	wait sync.WaitGroup
}

// readyWait limits the time of the readiness check.
const readyWait = 2 * time.Second

// Serve serves a listener and closes it in the end. The error of ready is the reason why the node takes no work. lacks
// says what a node that takes work cannot do yet; it is empty if there is nothing.
func Serve(listener net.Listener, metrics prometheus.Gatherer, ready func(context.Context) error, lacks func() string) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyWait)
		defer cancel()
		if err := ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
		if text := lacks(); text != "" {
			_, _ = fmt.Fprintln(w, text)
		}
	})
	s := &Server{addr: listener.Addr(), http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
	}}
	s.wait.Go(func() { _ = s.http.Serve(listener) }) // ends with Stop
	return s
}

// Addr is the address of the listener.
func (s *Server) Addr() string { return s.addr.String() }

// Stop completes the current requests, until ctx ends.
func (s *Server) Stop(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	s.wait.Wait()
}
