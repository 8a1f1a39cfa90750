package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/lash-go/lash/bus/delay"
)

// Waits of a source.
const (
	startBase   = 100 * time.Millisecond // before a second start of a server; doubles
	startLimit  = 30 * time.Second
	relistPause = time.Second // between two lists
	loginLook   = time.Second // between two looks at the file of tokens
)

// A server that fails is started so often in a time. One that has answered a call since its start has not failed when it ends.
const (
	maxStarts   = 6
	startWindow = 10 * time.Minute
)

// protocolVersion is what the client begins with. Servers of later versions that refuse it are started again with theirs: many others end,
// or stay silent, where the first message is not that of this version.
const protocolVersion = "2025-11-25"

// warningsAtOnce limits the warnings about a server at once; one a second follows.
const warningsAtOnce = 20

// Source is the client of one server. It starts the server again and again, until Stop.
type Source struct {
	name   string
	of     *Servers
	client *mcp.Client
	log    *zap.Logger
	pace   *pace         // of what the server sends
	warned *rate.Limiter // of warnings about what it sends
	asking chan struct{} // has an element for each question that waits

	ctx      context.Context //nolint:containedctx // of the server, ends with Stop
	stop     context.CancelFunc
	work     sync.WaitGroup
	settled  chan struct{} // closed once the tools are offered, or the server has failed
	ready    chan struct{} // closed once the tools are offered
	unlisted []string      // set before ready is closed
	fresh    chan struct{} // has an element when the list of tools may have changed
	later    bool          // the server refuses protocolVersion

	mu      sync.Mutex
	server  Server        // as its references were read last
	current *serverRun    // nil while the server does not run
	changed chan struct{} // closed when current or failed changes
	failed  string        // why it does not run; empty: it starts or runs
	next    time.Time     // when it is started again
	calls   calls
}

// newSource makes the client of a server, whose configuration is valid.
func (s *Servers) newSource(server *Server) *Source {
	o := &Source{
		name: server.Name, of: s, server: *server, log: s.log.With(zap.String("server", server.Name)),
		warned: rate.NewLimiter(1, warningsAtOnce), asking: make(chan struct{}, questionsAtOnce),
		settled: make(chan struct{}), ready: make(chan struct{}), fresh: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	o.pace = newPace(o.calls.busy)
	o.client = mcp.NewClient(&mcp.Implementation{Name: "lash", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true}, // see rounds
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { o.relist() },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { o.calls.progress(r.Params) },
	})
	o.client.AddReceivingMiddleware(o.guarded)
	o.client.AddSendingMiddleware(unfiltered)
	return o
}

// start runs the server, and goes on until Stop, whatever becomes of the server.
func (s *Source) start(ctx context.Context) {
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	s.work.Go(s.run)
}

// Ready is closed once the server's tools are offered for the first time.
func (s *Source) Ready() <-chan struct{} { return s.ready }

// Unlisted are the names and patterns of tools, in the configuration, that match no tool which the server listed first; none before that.
func (s *Source) Unlisted() []string {
	if !s.hasOffered() {
		return nil
	}
	return s.unlisted
}

// Stop ends the calls that run, and the server. Errors: the cause of ctx's end, before the server has ended.
func (s *Source) Stop(ctx context.Context) error {
	if s.stop == nil {
		return nil // it was not started
	}
	s.stop()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }() // ends with the server
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// warn logs a warning about what the server sends: it may send such things without end.
// logged: the limit of such warnings is not reached.
func (s *Source) warn(text string, fields ...zap.Field) (logged bool) {
	if logged = s.warned.Allow(); logged {
		s.log.Warn(text, fields...)
	}
	return logged
}

// noise logs a line of the server's standard output that is no message.
func (s *Source) noise(line string) {
	s.warn("the server prints a line that is no message: it is skipped", zap.String("line", s.configured().Redacted(errors.New(line))))
}

func (s *Source) relist() {
	select {
	case s.fresh <- struct{}{}:
	default: // the next list has this change, too
	}
}

// configured is the server as its references were read last.
func (s *Source) configured() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.server
	return &server
}

// running reports whether the server runs.
func (s *Source) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

// hasOffered reports whether the server has listed its tools.
func (s *Source) hasOffered() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// trouble is why the server does not run; empty: it starts or runs.
func (s *Source) trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == "" {
		return ""
	}
	why := "the server does not run: " + s.failed
	if left := time.Until(s.next); left > startLimit {
		why += fmt.Sprintf(": it has failed %d times, and is started again in %s", maxStarts, left.Round(time.Second))
	}
	return why
}

// run runs the server again and again.
func (s *Source) run() {
	var starts []time.Time // that failed
	for s.ctx.Err() == nil {
		starts = append(starts[max(0, len(starts)-maxStarts+1):], time.Now())
		err := s.connected()
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, errLater):
			continue
		case errors.Is(err, errRenew), errors.Is(err, errNoSession):
			s.log.Info("the server is started again", zap.String("reason", s.configured().Redacted(err)))
			starts = nil
			delay.Sleep(s.ctx, startBase)
			continue
		case s.calls.answeredAny():
			starts = nil
		}
		wait := nextStart(starts, time.Now())
		s.fail(s.configured().Redacted(err), wait)
		if s.pause(wait) {
			starts = nil
		}
	}
}

// pause waits for the next start. A login begins it soon.
func (s *Source) pause(wait time.Duration) (login bool) {
	server := s.configured()
	before := server.OAuth.LoggedIn()
	for end := time.Now().Add(wait); s.ctx.Err() == nil && time.Now().Before(end); {
		delay.Sleep(s.ctx, min(time.Until(end), loginLook))
		if server.OAuth.LoggedIn() != before {
			return true
		}
	}
	return false
}

// nextStart is the wait before the next start, after starts that failed.
func nextStart(starts []time.Time, now time.Time) time.Duration {
	wait := delay.Backoff(startBase, startLimit, len(starts))
	if n := len(starts); n >= maxStarts {
		wait = max(wait, startWindow-now.Sub(starts[n-maxStarts]))
	}
	return wait
}

// fail notes why the server does not run. The same reason is told once.
func (s *Source) fail(why string, wait time.Duration) {
	s.mu.Lock()
	told := s.failed == why
	s.failed, s.next = why, time.Now().Add(wait)
	s.notifyLocked()
	s.mu.Unlock()
	s.once(s.settled, nil)
	if !told {
		s.log.Warn("the server does not run: it is started again", zap.String("error", why))
		s.of.cfg.Tell("MCP server " + s.name + " does not run: " + why)
	}
}

// once closes a channel that may be closed, after do.
func (s *Source) once(c chan struct{}, do func()) {
	select {
	case <-c:
	default:
		if do != nil {
			do()
		}
		close(c)
	}
}

// connected runs a server until it ends.
func (s *Source) connected() (err error) {
	defer func() {
		if p := recover(); p != nil { // the library reads results unchecked
			err = invalidMessage("a result", p)
		}
	}()
	server, err := s.read()
	if err != nil {
		return err
	}
	run := &serverRun{http: server.URL != "", server: server}
	run.ctx, run.end = context.WithCancelCause(s.ctx)
	defer run.end(errEnded)
	t, end, err := server.transport(run.ctx, s.pace, s.log, s.noise)
	if err != nil {
		return err
	}
	defer func() {
		how := end()
		switch {
		case run.http && how != "" && err != nil && !strings.Contains(err.Error(), how):
			err = fmt.Errorf("%w: %s", err, how)
		case !run.http && how != "" && (errors.Is(err, errEnded) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || errors.Is(err, mcp.ErrConnectionClosed)):
			err = errors.New(how)
		}
	}()
	run.read, _ = t.(*watched)
	limit := server.startTimeout()
	late := time.AfterFunc(limit, func() {
		run.end(fmt.Errorf("it did not answer within %s: start_timeout_ms of its field lash allows more", limit))
	})
	defer late.Stop()
	opts := &mcp.ClientSessionOptions{ProtocolVersion: protocolVersion}
	if s.later {
		opts = nil
	}
	if run.client, err = s.client.Connect(run.ctx, t, opts); err != nil { // the stream of SSE is of this context, too
		if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
			if s.later = !s.later; s.later {
				return errLater
			}
		}
		if said := err.Error(); run.http && !server.SSE && (strings.HasSuffix(said, http.StatusText(http.StatusNotFound)) || strings.HasSuffix(said, http.StatusText(http.StatusMethodNotAllowed))) {
			err = fmt.Errorf(`%w (a server of HTTP with SSE has "type": "sse" in the file)`, err)
		}
		return errors.Join(err, context.Cause(run.ctx))
	}
	late.Stop()
	go run.await()                            // ends with the session
	defer func() { _ = run.client.Close() }() // the server may have ended
	defer s.set(nil)
	return s.serve(run)
}

// read reads the references of the server again.
func (s *Source) read() (*Server, error) {
	server := s.configured()
	if server.again == nil {
		return server, nil
	}
	now, err := server.again()
	if err != nil {
		return nil, err
	}
	now.again, now.bearer = server.again, server.bearer
	now.OAuth.File = cmp.Or(now.OAuth.File, server.OAuth.File)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = now
	return &now, nil
}

// set makes a run the one of calls; nil: calls wait for the next one.
func (s *Source) set(run *serverRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current = run; run != nil {
		s.failed = ""
	}
	s.calls.begin(run)
	s.notifyLocked()
	s.of.fleet.announce()
}

func (s *Source) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// serve keeps the tools that are offered those of the server, until the run ends.
func (s *Source) serve(run *serverRun) error {
	for first := true; ; first = false {
		listed, limit := time.Now(), run.server.startTimeout()
		once, cancel := context.WithTimeoutCause(run.ctx, limit, fmt.Errorf("it did not list its tools within %s: start_timeout_ms of its field lash allows more", limit))
		end := s.pace.list()
		o, err := run.server.offerOf(once, run.client)
		end()
		cancel()
		if err != nil {
			return errors.Join(err, context.Cause(once))
		}
		s.of.take(o)
		if first {
			s.set(run)
			s.once(s.ready, func() { s.unlisted = o.unlisted })
			s.once(s.settled, nil)
		}
		select {
		case <-s.fresh:
		case <-run.ctx.Done():
			return context.Cause(run.ctx)
		}
		delay.Sleep(run.ctx, relistPause-time.Since(listed))
	}
}
