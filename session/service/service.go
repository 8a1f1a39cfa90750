package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// Config is the input of [Serve]. Every field has a default.
type Config struct {
	// Concurrency is the number of concurrent short requests. The same number of long ones runs in addition, see
	// [operation.Row], and one user has at most a quarter of those. Defaults to 64.
	Concurrency int
	// Scopes are the rights of users of other accounts, by the server's name of the user; nil gives all of them every
	// right except command. Users of the nodes' own account have every right.
	Scopes   map[string]api.Reach
	Metadata map[string]string // of this instance, for service discovery
	Memory   *memory.Pool      // of what requests read, by user; nil: no limit
	Access   accesslog.Func    // receives a record of each request at its end. Defaults to none
	Logger   *zap.Logger       // nil is silent
}

// version of the service, for service discovery.
const version = "1.0.0"

// Serve answers requests, and reads of clients, until stop is called. stop accepts no more requests, and waits for the running ones until
// its ctx ends; then it cancels them.
func Serve(b *bus.Bus, h *session.Host, cfg Config) (stop func(context.Context) error, err error) {
	cfg.Logger = cmp.Or(cfg.Logger, zap.NewNop())
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 64)
	d := &server{host: h, log: cfg.Logger.Named("service"), scopes: cfg.Scopes, access: cfg.Access, memory: cfg.Memory, perUser: max(cfg.Concurrency/4, 1), running: make(map[string]int)}
	answers := make(map[string]bus.HandlerFunc)
	var long []string
	for name, op := range operation.Named() {
		if op.Long {
			long = append(long, string(name))
		}
		answers[string(name)] = func(ctx context.Context, r bus.Incoming) ([]byte, string) {
			return d.handle(streaming(ctx, r), op, r.From, r.Data)
		}
	}
	s, err := b.Serve(bus.ServiceConfig{Version: version, Metadata: cfg.Metadata, Operations: answers, Concurrency: cfg.Concurrency, Long: long})
	if err != nil {
		return nil, err
	}
	stopReads, err := b.ServeReads(bus.Clients, max(cfg.Concurrency/4, 1))
	if err != nil {
		return nil, errors.Join(err, s.Stop(context.Background()))
	}
	return func(ctx context.Context) error {
		stopReads()
		return s.Stop(ctx)
	}, nil
}

// streaming makes a completion send its deltas, where the client receives them.
func streaming(ctx context.Context, r bus.Incoming) context.Context {
	if !r.Stream {
		return ctx
	}
	return operation.WithStream(ctx, func(d plugin.CompletionDelta) {
		if data, err := events.EncodePayload(&d); err == nil && r.SendChunk != nil { // encoding a delta does not fail
			r.SendChunk(data)
		}
	})
}

// memoryWait is how long a request waits for memory.
const memoryWait = 5 * time.Second

// server serves the requests to one host.
type server struct {
	host operation.Host
	log  *zap.Logger

	scopes map[string]api.Reach
	access accesslog.Func // nil: none
	memory *memory.Pool

	perUser int // concurrent long requests of one user
	mu      sync.Mutex
	running map[string]int // by user: running long requests
}

// limitUser limits a user to its share of the long requests, so that other users do not wait for it. The limit does not
// apply to users of the nodes' own account.
func (s *server) limitUser(ctx context.Context, op *operation.Row) (release func(), err error) {
	c, ok := api.CallerOf(ctx)
	if !ok || !op.Long {
		return func() {}, nil
	}
	if !s.acquire(c.Name) {
		return nil, &api.LimitError{What: "requests at once of one user that take long", Limit: s.perUser}
	}
	return func() { s.release(c.Name) }, nil
}

func (s *server) acquire(user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[user] >= s.perUser {
		return false
	}
	s.running[user]++
	return true
}

func (s *server) release(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[user]--; s.running[user] == 0 {
		delete(s.running, user)
	}
}

// caller is the caller of a user of another account, by its name on the server.
func (s *server) caller(user string) (c api.Caller, err error) {
	c.Scope = api.ScopeWrite
	if s.scopes != nil {
		c.Reach = s.scopes[user]
	}
	c.Name, err = actorOf(user)
	return c, err
}

// handle performs a request and encodes its answer. data may be any bytes.
func (s *server) handle(ctx context.Context, op *operation.Row, from string, data []byte) ([]byte, string) {
	began, record := time.Now(), accesslog.Record{API: accesslog.NATS, Operation: string(op.Name), Remote: from, Caller: callerOf(from), Read: int64(len(data))}
	body, seq, err := s.perform(ctx, op, from, data, &record)
	a := api.Response{Body: body, Seq: seq}
	if err != nil {
		a = api.Response{Error: s.encodeError(op, err)}
	}
	out, err := events.EncodePayload(&a)
	if err == nil && len(out) > api.MaxRequestBytes {
		err = &events.FieldError{Field: "answer", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(out), api.MaxRequestBytes), Err: events.ErrTooLarge}
	}
	if err != nil {
		a = api.Response{Error: s.encodeError(op, err)}
		out, _ = events.EncodePayload(&a) // an error body has a few short texts
	}
	if s.access != nil {
		record.Duration, record.Code, record.Written = time.Since(began), a.Error.Code, int64(len(out))
		s.access(record)
	}
	return out, a.Error.Code
}

// encodeError is the form of an error that the client receives.
func (s *server) encodeError(r *operation.Row, err error) api.ErrorBody {
	b := api.EncodeError(err)
	if _, class := api.Code(err); class == api.ClassInternal {
		s.log.Error("request", zap.String("op", string(r.Name)), zap.Error(err))
	}
	return b
}

// errPanicked reports a request that made the host panic.
var errPanicked = errors.New("panicked")

func (s *server) perform(ctx context.Context, op *operation.Row, from string, data []byte, record *accesslog.Record) (body []byte, seq events.Seq, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, seq, err = nil, 0, fmt.Errorf("%s: %w: %v\n%s", op.Name, errPanicked, p, debug.Stack()) // an internal error: only the log has its text
		}
	}()
	if operation.StreamOf(ctx) != nil && !op.Streams {
		return nil, 0, &events.FieldError{Field: bus.StreamHeader, Reason: fmt.Sprintf("is not for %s, whose answer has no pieces", op.Name), Err: events.ErrInvalid}
	}
	r, err := api.DecodeRequest(data)
	if err != nil {
		return nil, 0, err
	}
	record.Session = accesslog.SessionOf(string(r.Session))
	if from != "" {
		c, err := s.caller(from)
		if err == nil && !c.Scope.Has(op.Needs) { // checked before the session is read, so the answer reveals nothing of it
			err = fmt.Errorf("%w: %s needs the right %q, which user %s lacks", api.ErrForbidden, op.Name, op.Needs, from)
		}
		if err != nil {
			return nil, 0, err
		}
		r.Actor, ctx = c.Name, api.WithCaller(ctx, c, op.Needs, r.Session)
	}
	ctx, receipt := api.WithReceipt(api.WithRequestMeta(ctx, api.RequestMeta{Actor: r.Actor, Key: r.Key}), r.Session)
	release, err := s.limitUser(ctx, op)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	account := s.memory.Account(record.Caller, memoryWait)
	defer account.Close()
	body, err = op.Serve(account.In(ctx), s.host, r.Session, r.Body)
	return body, receipt.Seq(), err
}

// callerOf is a user's name in the access log, as in histories and over HTTP. Empty: histories do not accept the
// name.
func callerOf(user string) string {
	if user == "" {
		return accesslog.Inside
	}
	name, _ := actorOf(user)
	return name
}

// actorOf is a user's name in histories: the part before the tenant's name.
func actorOf(user string) (string, error) {
	name, _, _ := strings.Cut(user, "@")
	if err := events.CheckCaller("user", name); err != nil {
		return "", err
	}
	return name, nil
}
