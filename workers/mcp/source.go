package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/lash-go/lash/bus/delay"
)

// Waits of a source.
const (
	startBase   = 100 * time.Millisecond // before a second start of a server; doubles
	startLimit  = 30 * time.Second
	relistPause = time.Second // between two lists
	look        = time.Second // between two looks at what begins a start early
)

// A command that fails is started so often in a time. One that has answered a call since its start has not failed when it ends.
const (
	maxStarts   = 6
	startWindow = 10 * time.Minute
)

// warningsAtOnce limits the warnings about a server at once; one a second follows.
const warningsAtOnce = 20

// Source is the client of one server. It starts the server again and again, until Stop.
type Source struct {
	name    string
	of      *Servers
	log     *zap.Logger
	pace    *pace                  // of what the server sends
	warned  *rate.Limiter          // of warnings about what it sends
	working atomic.Int64           // calls that run
	server  atomic.Pointer[Server] // as its references were read last

	ctx     context.Context //nolint:containedctx // of the server, ends with Stop
	stop    context.CancelFunc
	work    sync.WaitGroup
	settled chan struct{} // closed once the tools are offered, or the server has failed
	ready   chan struct{} // closed once the tools are offered
	settle  func()
	offered func()
	fresh   chan struct{} // has an element when the list of tools may have changed
	wanted  atomic.Bool   // a call waits for a server over HTTP
	login   atomic.Bool   // the last run needed a login, which no wait brings

	mu      sync.Mutex
	current *run            // nil while the server does not run
	changed chan struct{}   // closed when current or failed changes
	failed  string          // why it does not run; empty: it starts or runs
	told    map[string]bool // reasons, since it ran
	next    time.Time       // when it is started again
}

// newSource makes the client of a server, whose configuration is valid.
func (s *Servers) newSource(server *Server) *Source {
	o := &Source{
		name: server.Name, of: s, log: s.log.With(zap.String("server", server.Name)), warned: rate.NewLimiter(1, warningsAtOnce),
		settled: make(chan struct{}), ready: make(chan struct{}), fresh: make(chan struct{}, 1), changed: make(chan struct{}), told: make(map[string]bool),
	}
	o.settle, o.offered = sync.OnceFunc(func() { close(o.settled) }), sync.OnceFunc(func() { close(o.ready) })
	o.pace = newPace(o.busy)
	o.server.Store(server)
	return o
}

// busy reports whether a call runs.
func (s *Source) busy() bool { return s.working.Load() > 0 }

// start runs the server, and goes on until Stop, whatever becomes of the server.
func (s *Source) start(ctx context.Context) {
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	s.work.Go(s.serve)
}

// Ready is closed once the server's tools are offered for the first time.
func (s *Source) Ready() <-chan struct{} { return s.ready }

// hasOffered reports whether the server has listed its tools.
func (s *Source) hasOffered() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
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

// warn logs a warning about what the server sends, of which it may send any number. logged: the limit of such warnings is not reached.
func (s *Source) warn(text string, fields ...zap.Field) (logged bool) {
	if logged = s.warned.Allow(); logged {
		s.log.Warn(text, fields...)
	}
	return logged
}

// noise logs a line of the server's standard output that is no message.
func (s *Source) noise(line string) {
	s.warn("the server prints a line that is no message: it is skipped", zap.String("line", s.server.Load().Redacted(errors.New(line))))
}

func (s *Source) relist() {
	select {
	case s.fresh <- struct{}{}:
	default: // the next list has this change, too
	}
}

// running reports whether the server runs.
func (s *Source) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
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

// serve runs the server again and again.
func (s *Source) serve() {
	var starts []time.Time // that failed
	for version := protocolVersion; s.ctx.Err() == nil; {
		starts = append(starts[max(0, len(starts)-2*maxStarts):], time.Now())
		r, err := s.once(version)
		other, refused := errors.AsType[otherVersion](err)
		if refused {
			version = string(other)
		} else if r.client == nil {
			version = protocolVersion
		}
		switch {
		case s.ctx.Err() != nil:
			return
		case refused:
			continue
		case errors.Is(err, errRenew), errors.Is(err, errNoSession):
			s.log.Info("the server is started again", zap.String("reason", s.server.Load().Redacted(err)))
			starts = nil
			delay.Sleep(s.ctx, startBase)
			continue
		}
		now, remote := time.Now(), r.server.URL != ""
		if r.replied.Load() || remote && now.Sub(starts[len(starts)-1]) > startLimit {
			starts = nil
		}
		wait := nextStart(starts, now, remote)
		s.fail(s.server.Load().Redacted(err), wait)
		if s.pause(wait) {
			starts = nil
		}
	}
}

// pause waits for the next start. A login begins it soon, and so does a call for a server over HTTP.
func (s *Source) pause(wait time.Duration) (login bool) {
	server := s.server.Load()
	before := server.OAuth.LoggedIn()
	for end := time.Now().Add(wait); s.ctx.Err() == nil && time.Now().Before(end); {
		delay.Sleep(s.ctx, min(time.Until(end), look))
		if server.OAuth.LoggedIn() != before {
			return true
		}
		if s.wanted.Swap(false) {
			break
		}
	}
	return false
}

// nextStart is the wait before the next start, after starts that failed. A server over HTTP costs little to try.
func nextStart(starts []time.Time, now time.Time, remote bool) time.Duration {
	n := len(starts)
	if remote || n < maxStarts {
		return delay.Backoff(startBase, startLimit, n)
	}
	return max(delay.Backoff(startBase, startLimit, maxStarts), startWindow-now.Sub(starts[n-maxStarts]))
}

// fail notes why the server does not run. The same reason is told once.
func (s *Source) fail(why string, wait time.Duration) {
	s.mu.Lock()
	told := s.told[why]
	s.told[why] = true
	s.failed, s.next = why, time.Now().Add(wait)
	s.notifyLocked()
	s.mu.Unlock()
	s.settle()
	if !told {
		s.log.Warn("the server does not run: it is started again", zap.String("error", why))
		s.of.cfg.Tell("MCP server " + s.name + " does not run: " + why)
	}
}

// once runs the server until it ends.
func (s *Source) once(version string) (r *run, err error) {
	defer func() {
		if p := recover(); p != nil { // the library reads results unchecked
			err = invalidMessage("a result", p)
		}
	}()
	r = newRun(s.ctx, s)
	defer r.end(errEnded)
	s.login.Store(false)
	if r.server, err = s.read(); err != nil {
		return r, err
	}
	end, err := r.connect(version)
	defer func() { err = r.explained(err, end()) }()
	if err != nil {
		return r, err
	}
	defer func() { _ = r.client.Close() }() // the server may have ended
	defer s.set(nil)
	return r, s.offer(r)
}

// read reads the references of the server again.
func (s *Source) read() (*Server, error) {
	server := s.server.Load()
	if server.again == nil {
		return server, nil
	}
	now, err := server.again()
	if err != nil {
		return server, err
	}
	now.again, now.bearer = server.again, server.bearer
	now.OAuth.File = cmp.Or(now.OAuth.File, server.OAuth.File)
	s.server.Store(&now)
	return &now, nil
}

// set makes a run the one of calls; nil: calls wait for the next one.
func (s *Source) set(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current = r; r != nil {
		s.failed = ""
		clear(s.told)
	}
	s.notifyLocked()
	s.of.announce()
}

func (s *Source) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// offer keeps the tools that are offered those of the server, until the run ends.
func (s *Source) offer(r *run) error {
	for first := true; ; first = false {
		listed, limit := time.Now(), r.server.startTimeout()
		ctx, cancel := context.WithTimeoutCause(r.ctx, limit, fmt.Errorf("it did not list its tools within %s: start_timeout_ms of its field lash allows more", limit))
		end := s.pace.list()
		o, err := r.server.offerOf(ctx, r.client)
		end()
		cancel()
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		s.of.take(o)
		if first {
			s.set(r)
		}
		s.offered()
		s.settle()
		select {
		case <-s.fresh:
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
		delay.Sleep(r.ctx, relistPause-time.Since(listed))
	}
}

// open is the run of the server. It waits for one while the server starts. Errors: a *plugin.Failure that says why there is none; that of
// ctx's end.
func (s *Source) open(ctx context.Context) (*run, error) {
	server := s.server.Load()
	limit := time.NewTimer(server.startTimeout())
	defer limit.Stop()
	for {
		s.mu.Lock()
		r, changed, soon := s.current, s.changed, s.failed == "" || !s.login.Load() && time.Until(s.next) <= startLimit
		s.mu.Unlock()
		if r != nil && r.ctx.Err() == nil {
			return r, nil
		}
		if soon {
			s.wanted.Store(server.URL != "")
			select {
			case <-changed:
				continue
			case <-limit.C:
			case <-s.ctx.Done():
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		f := unavailable(s.name, "does not run")
		if why := s.trouble(); why != "" {
			f.Message += ": " + why
		}
		return nil, f
	}
}
