package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/session/accesslog"
)

// Server is the HTTP server of the session service. It is a handler for another HTTP server, which ends its streams
// with Drain; or it serves by itself, between Start and Stop.
type Server struct {
	cfg     Config
	log     *zap.Logger
	mux     *http.ServeMux
	methods []string // all methods of any path
	// document describes the operations. It is made for the first request: that takes longer than all else that a new server does.
	document  func() ([]byte, error)
	slots     slots
	computing chan struct{}              // full while as many large requests as may compute do
	pages     http.CrossOriginProtection // checks requests that a browser authenticates by itself

	traffic   traffic[string]       // of callers, by name
	anonymous traffic[netip.Prefix] // of clients without a caller, by address

	drain   context.CancelFunc
	onDrain func(func()) (stop func() bool) // registers a function to call when the server drains; at once if it already does

	mu      sync.Mutex
	http    *http.Server // nil: not started
	serving sync.WaitGroup
	cut     context.CancelFunc // cancels the running requests

	gate    sync.Mutex // guards closed, and running.Add against running.Wait
	closed  bool
	running sync.WaitGroup // running requests of http
}

// New makes a server. It reports all errors of the configuration together.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new http server: %w", err)
	}
	ctx, drain := context.WithCancel(context.Background()) // the server's lifetime, which Drain ends
	s := &Server{
		cfg: cfg, log: cfg.Logger.Named("http"), mux: http.NewServeMux(), drain: drain,
		onDrain: func(f func()) func() bool { return context.AfterFunc(ctx, f) },
		slots: slots{
			draining: ctx.Done(),
			requests: newSlotPool(cfg.MaxRequests, cfg.MaxRequestsPerCaller, tooMany("too_many_requests", "requests at once", "requests_at_once", cfg.MaxRequestsPerCaller)),
			streams:  newSlotPool(cfg.MaxStreams, cfg.MaxStreamsPerCaller, tooMany("too_many_streams", "streams and waiting requests", "streams_at_once", cfg.MaxStreamsPerCaller)),
		},
		computing: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		traffic:   newTraffic[string](cfg.MaxBytesPerMinute, "caller", false),
		anonymous: newTraffic[netip.Prefix](cfg.MaxBytesPerMinute, "address", true),
	}
	for _, origin := range cfg.Origins {
		if err := s.pages.AddTrustedOrigin(origin); err != nil {
			drain()
			return nil, fmt.Errorf("new http server: origins: %w", err)
		}
	}
	table := routes()
	s.document = sync.OnceValues(func() ([]byte, error) { return document(table) })
	for i := range table {
		s.mux.Handle(table[i].method+" "+table[i].path, &served{s, &table[i]})
		s.methods = append(s.methods, table[i].method)
	}
	if cfg.Agents != nil {
		s.mux.Handle(http.MethodPost+" "+agentsPath, &served{s, agentsRoute(cfg.Agents(s))})
	}
	if cfg.Page != nil {
		s.mux.Handle(http.MethodGet+" "+followPath, &served{s, followRoute()})
	}
	if cfg.Prices != nil {
		s.mux.Handle(http.MethodGet+" "+pricesPath, &served{s, s.pricesRoute()})
	}
	if cfg.Source != "" {
		s.mux.Handle(http.MethodGet+" "+sourcePath, &served{s, s.sourceRoute()})
	}
	slices.Sort(s.methods)
	s.methods = slices.Compact(s.methods)
	return s, nil
}

// Start serves on a listener, which Stop closes.
func (s *Server) Start(on net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return
	}
	ctx, cut := context.WithCancel(context.Background()) // of the requests; Stop ends it
	s.cut = cut
	s.http = s.newHTTPServer(ctx)
	on = &limitedListener{on, newConnections(&s.cfg), s.log}
	if s.cfg.TLS != nil {
		on = tls.NewListener(on, s.cfg.TLS)
	}
	s.serving.Go(func() {
		if err := s.http.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("serve", zap.Error(err))
		}
	})
}

// Limits of an HTTP/2 connection.
const (
	maxStreamsPerConn  = 128       // concurrent requests
	maxBufferPerConn   = 256 << 10 // bytes of bodies that the handlers have not read
	maxBufferPerStream = 64 << 10
	maxFrame           = 16 << 10
)

func (s *Server) newHTTPServer(ctx context.Context) *http.Server {
	return &http.Server{
		Handler: s.countingHandler(), BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: connContext, ConnState: s.connStateChanged,
		MaxHeaderBytes: s.cfg.MaxHeaderBytes, ReadHeaderTimeout: s.cfg.ReadHeaderTimeout, IdleTimeout: s.cfg.IdleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreamsPerConn, MaxReadFrameSize: maxFrame, MaxReceiveBufferPerConnection: maxBufferPerConn,
			MaxReceiveBufferPerStream: maxBufferPerStream, SendPingTimeout: s.cfg.IdleTimeout, PingTimeout: s.cfg.WriteTimeout, WriteByteTimeout: s.cfg.WriteTimeout,
			CountError: func(string) { s.cfg.refused(RefusedHTTP2) },
		},
		ErrorLog: s.errorLogger(), DisableGeneralOptionsHandler: true, // it would answer without a record
	}
}

// errorLogger is the logger of the HTTP server's connection errors, at debug level, because unauthenticated clients can
// cause any number of them.
func (s *Server) errorLogger() *log.Logger {
	to, err := zap.NewStdLogAt(s.log, zap.DebugLevel)
	if err != nil { // for unknown levels
		return zap.NewStdLog(s.log)
	}
	return to
}

// countingHandler counts the requests that Stop waits for.
func (s *Server) countingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := connOf(r); c != nil {
			c.unread.ends()
		}
		if !s.countRequest() {
			panic(http.ErrAbortHandler) // its connection is closed already
		}
		defer s.running.Done()
		s.ServeHTTP(w, r)
	})
}

func (s *Server) countRequest() bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// lastResponses limits the time to send the responses of requests that are cut off.
const lastResponses = time.Second

// cutWait limits the wait for the handlers of requests that are cut off.
const cutWait = 5 * time.Second

// Drain ends streams and waiting requests, and refuses new ones with 503. It does not wait.
func (s *Server) Drain() { s.drain() }

// Stop drains, accepts no more connections, and lets requests finish until ctx ends. Then it cuts them off, and waits
// a few seconds for them. A second call does nothing.
func (s *Server) Stop(ctx context.Context) {
	s.Drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return
	}
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("requests were cut off", zap.Error(err))
		s.cut()
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastResponses)
		defer cancel()
		_ = s.http.Shutdown(soon) // so that clients receive the last responses
		_ = s.http.Close()        // closes the remaining connections
	}
	s.cut()
	s.serving.Wait()
	s.awaitCut()
}

// awaitCut waits for the handlers that were cut off. It abandons a handler that ignores its context: the process is
// about to end, or the service is broken.
func (s *Server) awaitCut() {
	s.gate.Lock()
	s.closed = true
	s.gate.Unlock()
	ended := make(chan struct{})
	go func() { // ends with the last handler
		s.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(cutWait)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		s.log.Error("requests go on after they were cut off")
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c := connOf(r); c != nil && c.isRefused() {
		panic(http.ErrAbortHandler) // the connection is about to be closed
	}
	out := &responseWriter{ResponseWriter: w, record: accesslog.Record{API: accesslog.HTTP, Remote: s.clientOf(r)}}
	w = out
	defer s.logAccess(out, time.Now())
	defer s.recoverPanic(out, r)
	if r.ContentLength != 0 {
		counted := *r
		counted.Body = &countedBody{r.Body, &out.record}
		r = &counted
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	s.setDeadlines(w, r)
	switch {
	case s.crossOrigin(w, r):
	case s.hasPage(r):
		s.servePage(w, r)
	case s.hasOperation(r):
		s.mux.ServeHTTP(w, r)
	default:
		s.refuse(w, r, s.notFound(r))
	}
	if r.Context().Err() == nil {
		out.starts(http.StatusOK) // a handler that wrote nothing
	}
}

// setDeadlines sets the connection's deadlines; a test recorder has none. Open requests extend the write deadline. The read
// deadline applies to bodies only: a request without a body would end with it.
func (s *Server) setDeadlines(w http.ResponseWriter, r *http.Request) {
	conn, now := http.NewResponseController(w), time.Now()
	_ = conn.SetWriteDeadline(now.Add(s.cfg.RequestTimeout + s.cfg.WriteTimeout))
	if r.ContentLength != 0 {
		_ = conn.SetReadDeadline(now.Add(s.cfg.BodyTimeout))
	}
}

// hasOperation reports whether an operation serves the request. The mux would redirect paths that are not clean.
func (s *Server) hasOperation(r *http.Request) bool {
	if p := r.URL.EscapedPath(); p != path.Clean(p) || r.Method == http.MethodConnect {
		return false
	}
	h, _ := s.mux.Handler(r)
	_, ours := h.(*served)
	return ours
}

// notFound distinguishes an unknown path from an unknown method.
func (s *Server) notFound(r *http.Request) *problem {
	var allow []string
	for _, method := range s.methods {
		if other := (&http.Request{Method: method, URL: r.URL, Host: r.Host}); s.hasOperation(other) {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		return errNoPath
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	has := strings.Join(allow, ", ")
	return &problem{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: fmt.Sprintf("the path has no %s: it has %s", r.Method, has), allow: has}
}

// crossOrigin sets the CORS headers for allowed origins and answers their preflight requests. Other origins get no
// CORS headers.
func (s *Server) crossOrigin(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(s.cfg.Origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(s.cfg.Origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Location, Retry-After, Lash-Seq")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", strings.Join(s.methods, ", "))
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
