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

// Server answers those who look after a node: /healthz while the process
// lives, /readyz where it can take work, and /metrics.
type Server struct {
	http *http.Server
	addr net.Addr
	wait sync.WaitGroup
}

// readyWait is how long the servers may take to answer for a node that is ready.
const readyWait = 2 * time.Second

// Serve answers on a listener, which it closes in the end. ready says why the node can take no work.
func Serve(listener net.Listener, metrics prometheus.Gatherer, ready func(context.Context) error) *Server {
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
	})
	s := &Server{addr: listener.Addr(), http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
	}}
	s.wait.Go(func() { _ = s.http.Serve(listener) }) // until Stop
	return s
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.addr.String() }

// Stop finishes the requests at hand, until ctx ends.
func (s *Server) Stop(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	s.wait.Wait()
}
