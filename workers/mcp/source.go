package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/remote"
)

// Config of a source. Server and Conn are required.
type Config struct {
	Server   Server
	Conn     *nats.Conn // with the credentials of the plugin of the server's name; the caller closes it
	Prefix   string     // of the fleet's subjects. Defaults to [events.DefaultPrefix]
	Instance string     // begins the ids of the source's instances, see [remote.Config]
	Logger   *zap.Logger
}

// Waits of a source.
const (
	startBase    = 100 * time.Millisecond // before a second start of a server; doubles
	startLimit   = 30 * time.Second
	relistPause  = time.Second      // between two lists
	refusedPause = 10 * time.Second // after a refusal of the registration
)

// warningsAtOnce limits the warnings about a server at once; one a second follows.
const warningsAtOnce = 20

// Source is a server whose tools are those of a plugin, until Stop.
type Source struct {
	cfg    Config
	client *mcp.Client
	log    *zap.Logger
	pace   *pace         // of what the server sends
	warned *rate.Limiter // of warnings about what it sends
	asking chan struct{} // has an element for each question that waits

	ctx       context.Context //nolint:containedctx // of the server, ends with Stop
	stop      context.CancelFunc
	taking    context.Context //nolint:containedctx // of new calls, ends with Drain
	drain     context.CancelFunc
	work      sync.WaitGroup
	instances sync.WaitGroup
	ready     chan struct{} // closed once the tools are registered
	once      sync.Once
	unlisted  []string      // set before ready is closed
	fresh     chan struct{} // has an element when the list of tools may have changed

	mu      sync.Mutex
	current *serverRun    // nil while the server does not run
	changed chan struct{} // closed when current changes
	calls   calls
}

// Start runs the server, and registers its tools as the plugin of its name. It returns at once, and goes on until
// [Source.Stop], whatever becomes of the server. Errors: an [*events.FieldError] for an invalid configuration.
func Start(ctx context.Context, cfg Config) (*Source, error) {
	if cfg.Conn == nil {
		return nil, &events.FieldError{Field: "config.conn", Reason: "is required", Err: events.ErrInvalid}
	}
	if err := cfg.Server.check("server", ""); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	s := &Source{
		cfg: cfg, log: cfg.Logger.Named("mcp").With(zap.String("server", cfg.Server.Name)),
		warned: rate.NewLimiter(1, warningsAtOnce), asking: make(chan struct{}, questionsAtOnce),
		ready: make(chan struct{}), fresh: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	s.taking, s.drain = context.WithCancel(s.ctx)
	s.pace, s.client = newPace(s.calls.busy), s.newClient()
	s.work.Go(s.run)
	return s, nil
}

// newClient makes the client of the server's sessions.
func (s *Source) newClient() *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "lash", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true}, // see rounds
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.relist() },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { s.calls.progress(r.Params) },
	})
	c.AddReceivingMiddleware(s.guarded)
	c.AddSendingMiddleware(uncached)
	return c
}

// Ready is closed once the server's tools are registered for the first time.
func (s *Source) Ready() <-chan struct{} { return s.ready }

// Unlisted are the names and patterns of tools, in the configuration, that match no tool which the server listed first. It may be called once
// Ready is closed.
func (s *Source) Unlisted() []string { return s.unlisted }

// Drain takes no new calls, and waits until those that run have ended, or ctx.
func (s *Source) Drain(ctx context.Context) {
	s.drain()
	done := make(chan struct{})
	go func() { s.instances.Wait(); close(done) }() // ends with the calls, after Stop at the latest
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Stop ends the calls that run, and the server. Errors: the cause of ctx's end, before the server has ended.
func (s *Source) Stop(ctx context.Context) error {
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

func (s *Source) relist() {
	select {
	case s.fresh <- struct{}{}:
	default: // the next list has this change, too
	}
}

// run runs the server again and again.
func (s *Source) run() {
	var serving serving
	defer serving.stop()
	for failures := 0; s.ctx.Err() == nil; {
		began := time.Now()
		err := s.connected(func(run *serverRun) error { return s.serve(run, &serving) })
		if errors.Is(err, errRenew) {
			s.log.Info("the server is started again: a question may have been one of a call of another session that was cancelled")
			continue
		}
		if failures++; time.Since(began) > startLimit {
			failures = 1
		}
		if s.ctx.Err() == nil {
			s.log.Warn("the server does not run: it is started again", zap.String("error", s.cfg.Server.redacted(err)))
			delay.Sleep(s.ctx, delay.Backoff(startBase, startLimit, failures))
		}
	}
}

// connected runs a server while do runs.
func (s *Source) connected(do func(*serverRun) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library reads results unchecked
			err = invalidMessage("a result", p)
		}
	}()
	run := &serverRun{http: s.cfg.Server.URL != ""}
	run.ctx, run.end = context.WithCancelCause(s.ctx)
	defer run.end(errEnded)
	t, end, err := s.cfg.Server.transport(run.ctx, s.pace, s.log)
	if err != nil {
		return err
	}
	defer end()
	run.read, _ = t.(*watched)
	limit := s.cfg.Server.startTimeout()
	once, cancel := context.WithTimeoutCause(s.ctx, limit, fmt.Errorf("it did not answer within %s: start_timeout_ms of its field lash allows more", limit))
	run.client, err = s.client.Connect(once, t, nil)
	cancel()
	if err != nil {
		return errors.Join(err, context.Cause(once))
	}
	s.set(run)
	defer func() {
		s.set(nil)
		run.end(errEnded)      // its calls end
		_ = run.client.Close() // the server may have ended
	}()
	return do(run)
}

// set makes a run the one of calls; nil: calls wait for the next one.
func (s *Source) set(run *serverRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = run
	s.calls.begin(run)
	close(s.changed)
	s.changed = make(chan struct{})
}

// serve keeps the plugin's tools those of the server, until the run ends.
func (s *Source) serve(run *serverRun, serving *serving) error {
	go run.await() // ends with the session, which the caller closes
	for {
		listed := time.Now()
		limit := s.cfg.Server.startTimeout()
		once, cancel := context.WithTimeoutCause(run.ctx, limit, fmt.Errorf("it did not list its tools within %s: start_timeout_ms of its field lash allows more", limit))
		end := s.pace.list()
		offer, err := s.cfg.Server.offerOf(once, run.client, s.log)
		end()
		cancel()
		if err != nil {
			return errors.Join(err, context.Cause(once))
		}
		pause := relistPause
		if err := serving.replace(s, offer); err != nil && s.ctx.Err() == nil {
			s.log.Error("the tools are not registered", zap.Error(err))
			s.relist()
			pause = refusedPause
		}
		select {
		case <-s.fresh:
		case <-run.ctx.Done():
			return context.Cause(run.ctx)
		}
		delay.Sleep(run.ctx, pause-time.Since(listed))
	}
}

// serving is the instance that has the current tools.
type serving struct {
	hash string
	end  context.CancelFunc // nil: there is none
	lost chan struct{}      // closed once the instance has ended by itself, with an error
}

// has reports whether an instance with these tools serves.
func (v *serving) has(hash string) bool {
	if v.end == nil || v.hash != hash {
		return false
	}
	select {
	case <-v.lost:
		return false
	default:
		return true
	}
}

// stop ends the instance, if there is one.
func (v *serving) stop() {
	if v.end != nil {
		v.end()
		v.end = nil
	}
}

// lastingGrace lets the calls of an instance end whose list of tools has changed: people may take days to answer one. Their
// own limits bound them, and the end of the source.
const lastingGrace = 365 * 24 * time.Hour

// replace makes an instance with the tools, unless it is there. The one before serves the calls that it has until they
// end. Errors: those of [remote.Start].
func (v *serving) replace(s *Source, o *offer) error {
	if v.has(o.manifest.Version) || s.taking.Err() != nil {
		return nil
	}
	i, err := remote.Start(s.ctx, remote.Config{
		Conn: s.cfg.Conn, Plugin: &program{s, o}, Prefix: s.cfg.Prefix, Instance: s.cfg.Instance, Rollback: true, Grace: lastingGrace, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.log.Info("tools are registered", zap.Int("tools", len(o.manifest.Tools)))
	s.once.Do(func() {
		s.unlisted = o.unlisted
		close(s.ready)
	})
	v.stop()
	var life context.Context
	life, v.end = context.WithCancel(s.taking)
	lost := make(chan struct{})
	v.hash, v.lost = o.manifest.Version, lost
	s.instances.Add(1)
	s.work.Go(func() {
		defer s.instances.Done()
		if err := i.Run(life); err != nil && s.ctx.Err() == nil {
			s.log.Warn("an instance ended", zap.Error(err))
			close(lost)
			s.relist()
		}
	})
	return nil
}
