package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
)

// Headers of messages that are not the answer.
const (
	headerWorking = "Lash-Working" // a node works on the request: the answer follows
	headerGone    = "Lash-Gone"    // the request was not done: the node has stopped, or has too many requests
	headerServes  = "Lash-Serves"  // of a request: it asks only whether a node serves
)

// Values of [headerGone].
const (
	goneStopped = "1"
	goneBusy    = "busy"
)

// workingEvery is how often a node says that it works on a request.
const workingEvery = time.Second

// Incoming is a request as a service receives it.
type Incoming struct {
	// From is the user who sent it, as the server authenticated it. It is empty for a request from the nodes' own
	// account, whose users may write histories themselves.
	From string
	Data []byte
	// SendChunk sends the client a chunk of the answer before the answer. It does not block, and is for one goroutine at
	// a time. nil: the client does not request chunks.
	SendChunk func(data []byte)
	// Stream is true if the request has a stream token, also an invalid one.
	Stream bool
}

// HandlerFunc answers one request. code is the code of the error in the answer, for the statistics; empty for none.
// ctx has the span that the request names. If the client requests chunks, ctx ends soon after that client is gone.
type HandlerFunc func(ctx context.Context, r Incoming) (answer []byte, code string)

// ServiceConfig of a service.
type ServiceConfig struct {
	Version     string                 // of the program, as in semantic versioning
	Metadata    map[string]string      // of this instance, for discovery
	Operations  map[string]HandlerFunc // by name
	Concurrency int                    // requests handled at once
	Listening   time.Duration          // how long a client that takes chunks may be silent before its request is cancelled. Defaults to 10 s
	Long        []string               // operations that may take as long as a model call: as many at once in addition, so that they do not delay others
}

// Service answers requests, each at one node of all that offer it. Discovery and statistics are those of every NATS
// service: $SRV.PING, INFO and STATS.
type Service struct {
	b              *Bus
	micro          micro.Service
	short, long    *admission      // of the operations outside Config.Long, and of those in it
	ctx            context.Context //nolint:containedctx // of the requests, ends with Stop
	cancelRequests context.CancelFunc

	listeners listeners

	mu       sync.Mutex
	stopped  chan struct{} // closed by Stop
	requests sync.WaitGroup
	stats    map[string]*OperationStats
}

// OperationStats is the additional data in an endpoint's statistics.
type OperationStats struct {
	Answered  int64            `json:"answered"`
	Working   int64            `json:"working"`          // now
	Errors    map[string]int64 `json:"errors,omitempty"` // answers that were errors, by code
	Refused   int64            `json:"refused"`          // requests without an inbox, or whose sender is not certain, which were not handled
	Busy      int64            `json:"busy"`             // requests that did not run, since the service was at its limit
	TotalTime time.Duration    `json:"total_time"`       // ns, from the start of the handler to the answer
}

// Serve offers the service until Stop.
func (b *Bus) Serve(cfg ServiceConfig) (*Service, error) {
	ctx, end := context.WithCancel(context.Background()) // ends with Stop
	s := &Service{b: b, short: newAdmission(cfg.Concurrency), long: newAdmission(cfg.Concurrency), ctx: ctx, cancelRequests: end, stopped: make(chan struct{}), stats: make(map[string]*OperationStats), listeners: newListeners(cfg.Listening)}
	for op := range cfg.Operations {
		s.stats[op] = &OperationStats{Errors: make(map[string]int64)}
	}
	var err error
	s.micro, err = micro.AddService(b.nc, micro.Config{
		Name: b.names.service(), Version: cfg.Version, Description: "sessions", Metadata: cfg.Metadata, QueueGroup: b.names.service(),
		StatsHandler: s.endpointStats,
	})
	if err != nil {
		end()
		return nil, fmt.Errorf("serve: %w", err)
	}
	for op, answer := range cfg.Operations {
		admission := s.short
		if slices.Contains(cfg.Long, op) {
			admission = s.long
		}
		handler := micro.HandlerFunc(func(req micro.Request) { s.handle(op, admission, req, answer) })
		if err := s.micro.AddEndpoint(op, handler, micro.WithEndpointSubject(b.names.operation(op))); err != nil {
			return nil, errors.Join(fmt.Errorf("serve %s: %w", op, err), s.Stop(ctx))
		}
	}
	if err := s.listeners.start(b); err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), s.Stop(ctx))
	}
	once, cancel := b.timeout(ctx)
	defer cancel()
	_ = b.nc.FlushWithContext(once) // so that requests arrive from now on; if it fails, they do once the server is back
	return s, nil
}

// handle starts a request. It does not block, as later requests of the operation would wait behind it without a word.
func (s *Service) handle(op string, admission *admission, req micro.Request, answer HandlerFunc) {
	reply, token := req.Reply(), req.Headers().Get(StreamHeader)
	in := Incoming{Data: req.Data(), Stream: token != ""}
	traced := tracing.Received(s.ctx, req.Headers()[tracing.ParentHeader], req.Headers()[tracing.StateHeader])
	var err error
	in.From, err = callerOf(reply, nats.Header(req.Headers()), headersOf(req))
	if err != nil || !isReply(reply) {
		s.count(op, func(st *OperationStats) { st.Refused++ })
		return
	}
	if !s.accept() {
		s.decline(reply, goneStopped)
		return
	}
	if req.Headers().Get(headerServes) != "" {
		_ = s.b.nc.Publish(reply, nil)
		s.requests.Done()
		return
	}
	ctx, forget, ok := s.listeners.watch(traced, listenerKey{in.From, token})
	if ok {
		in.SendChunk = s.chunkSender(reply)
	}
	go func() { // Stop waits for it
		defer s.requests.Done()
		defer forget()
		release, err := admission.acquire(ctx, s.stopped, in.From, len(in.Data))
		switch {
		case errors.Is(err, errBusy):
			s.count(op, func(st *OperationStats) { st.Busy++ })
			s.decline(reply, goneBusy)
		case errors.Is(err, errStopped):
			s.decline(reply, goneStopped)
		case err == nil:
			defer release()
			s.respond(op, reply, func() ([]byte, string) { return answer(ctx, in) })
		}
	}()
}

// decline tells the client that its request was not done.
func (s *Service) decline(reply, why string) {
	_ = s.b.nc.PublishMsg(&nats.Msg{Subject: reply, Header: nats.Header{headerGone: {why}}})
}

// accept adds a request to those that Stop waits for, unless the service has stopped.
func (s *Service) accept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return false
	default:
		s.requests.Add(1)
		return true
	}
}

// refuseAll makes accept refuse what comes from now on.
func (s *Service) refuseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped: // Stop was called before
	default:
		close(s.stopped)
	}
}

// count changes the statistics of an operation.
func (s *Service) count(op string, change func(*OperationStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.stats[op])
}

// respond performs a request and sends the answer. Until then the client receives every second that a node works on it.
func (s *Service) respond(op, reply string, answer func() (data []byte, code string)) {
	s.count(op, func(st *OperationStats) { st.Working++ })
	start := time.Now()
	end := publishEverySecond(func() {
		_ = s.b.nc.PublishMsg(&nats.Msg{Subject: reply, Header: nats.Header{headerWorking: {"1"}}})
	})
	data, code := answer()
	end()
	s.count(op, func(st *OperationStats) {
		st.Working--
		st.Answered++
		st.TotalTime += time.Since(start)
		if code != "" {
			st.Errors[code]++
		}
	})
	if s.ctx.Err() == nil {
		_ = s.b.nc.Publish(reply, data) // a client that misses it asks again
	}
}

// publishEverySecond calls publish every second, in a goroutine of its own, until end, which waits for that goroutine.
func publishEverySecond(publish func()) (end func()) {
	done := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() {
		every := time.NewTicker(workingEvery)
		defer every.Stop()
		for {
			select {
			case <-done:
				return
			case <-every.C:
				publish()
			}
		}
	})
	return func() {
		close(done)
		publisher.Wait()
	}
}

func (s *Service) endpointStats(e *micro.Endpoint) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := *s.stats[e.Name]
	errs := make(map[string]int64, len(st.Errors))
	for code, n := range st.Errors {
		errs[code] = n
	}
	st.Errors = errs
	return st
}

// Stop accepts no more requests and waits for those in work. When ctx ends first, these are cancelled and not
// answered.
func (s *Service) Stop(ctx context.Context) error {
	err := s.micro.Stop()
	once, cancel := s.b.timeout(ctx)
	_ = s.b.nc.FlushWithContext(once) // so that the server sends no more; a later request is answered with Lash-Gone
	cancel()
	s.refuseAll()
	cut := context.AfterFunc(ctx, s.cancelRequests)
	s.requests.Wait()
	s.listeners.stop()
	cut()
	s.cancelRequests()
	return mapError(err)
}

// traceHeaders name the span of the context; they are empty without one.
func traceHeaders(ctx context.Context) nats.Header {
	h, t := make(nats.Header), tracing.Of(ctx)
	if !t.IsZero() {
		h[tracing.ParentHeader] = []string{t.Parent}
	}
	if t.State != "" {
		h[tracing.StateHeader] = []string{t.State}
	}
	return h
}

// Serves is nil where a node serves an operation. A node answers this without the handler, so no access log has it. Errors:
// [ErrNoResponder] where none does, [events.ErrOutcomeUnknown] where that is not known.
func (b *Bus) Serves(ctx context.Context, op string) error {
	if err := events.CheckToken("operation", op); err != nil {
		return err
	}
	m, err := b.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: b.names.operation(op), Header: nats.Header{headerServes: {"1"}}})
	switch {
	case isNoResponder(err):
		err = ErrNoResponder
	case err != nil:
		err = mapError(err)
	case goneError(m) != nil:
		err = goneError(m)
	default:
		return nil
	}
	return fmt.Errorf("request %s: %w", op, err)
}

// goneError is the error of an answer with [headerGone], and nil for any other.
func goneError(m *nats.Msg) error {
	switch m.Header.Get(headerGone) {
	case "":
		return nil
	case goneBusy:
		return fmt.Errorf("%w now: it has too many requests", ErrNoResponder)
	default:
		return ErrNoResponder
	}
}

// Request sends one request for an operation, and waits while the node that handles it says that it works: at most
// `silence` without a message. Errors: [ErrNoResponder] where it was not done, [events.ErrOutcomeUnknown] where the
// outcome is unknown. chunk, which may be nil, gets chunks of the answer, in order; then the request is cancelled if
// Request returns before the answer.
func (b *Bus) Request(ctx context.Context, op string, request []byte, silence time.Duration, chunk ChunkFunc) ([]byte, error) {
	if int64(len(request)) > b.nc.MaxPayload() {
		return nil, &events.FieldError{
			Field: "request", Reason: fmt.Sprintf("has %d bytes, the server's limit is %d", len(request), b.nc.MaxPayload()), Err: events.ErrTooLarge,
		}
	}
	inbox := b.nc.NewRespInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", op, mapError(err))
	}
	defer func() { _ = sub.Unsubscribe() }()
	m := &nats.Msg{Subject: b.names.operation(op), Reply: inbox, Header: traceHeaders(ctx), Data: request}
	if chunk != nil {
		token := rand.Text()
		m.Header[StreamHeader] = []string{token}
		defer b.publishListening(token)()
	}
	if err := b.nc.PublishMsg(m); err != nil {
		return nil, fmt.Errorf("request %s: %w", op, mapError(err))
	}
	for {
		once, cancel := context.WithTimeout(ctx, silence)
		m, err := sub.NextMsgWithContext(once)
		cancel()
		switch {
		case isNoResponder(err):
			return nil, fmt.Errorf("request %s: %w", op, ErrNoResponder)
		case errors.Is(err, nats.ErrSlowConsumer): // chunks were lost, as chunk was too slow
		case err != nil:
			return nil, fmt.Errorf("request %s: %w", op, mapError(err))
		case goneError(m) != nil:
			return nil, fmt.Errorf("request %s: %w", op, goneError(m))
		case m.Header.Get(headerWorking) != "":
		case m.Header.Get(headerChunk) != "":
			if n, err := strconv.Atoi(m.Header.Get(headerChunk)); err == nil && chunk != nil {
				chunk(n, m.Data)
			}
		default:
			return m.Data, nil
		}
	}
}
