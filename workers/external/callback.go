package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
)

// APIConfig is the input of [Plugins.ServeAPI].
type APIConfig struct {
	Service operation.Host // required; the host of the node
	Access  accesslog.Func // receives a record of each callback at its end. Defaults to none
}

// hostAPI performs callbacks.
type hostAPI struct {
	service operation.Host
	access  accesslog.Func
	server  *httpapi.Server
	rows    *http.ServeMux // finds the row of a request
}

// A call keeps the answers of its callbacks for repeats. An instance repeats a callback without an answer every
// [wire.CallbackRepeat], so one that does not for answersKept has its answer.
const (
	answersKept   = 30 * wire.CallbackRepeat
	maxAnswerSize = 16 * wire.MaxCallbackAnswer // of the bodies of one call; the oldest ones are dropped
)

// ServeAPI makes the node perform the callbacks of its plugins. Before it, they are answered with 503. Errors: those of
// [httpapi.New].
func (p *Plugins) ServeAPI(cfg APIConfig) error {
	a := &hostAPI{service: cfg.Service, access: cfg.Access, rows: http.NewServeMux()}
	if a.access == nil {
		a.access = func(accesslog.Record) {}
	}
	var err error
	a.server, err = httpapi.New(httpapi.Config{
		Service: cfg.Service, Access: cfg.Access, Logger: p.log, Identity: []httpapi.Identifier{asPlugin{}},
		MaxBodyBytes: wire.MaxCallbackBytes, MaxWait: time.Minute,
	})
	if err != nil {
		return err
	}
	for _, row := range operation.All() {
		if row.Route != "" {
			method, path := row.HTTP()
			a.rows.Handle(method+" "+path, a.gated(row, path))
		}
	}
	p.api.Store(a)
	return nil
}

type callbackKey struct{}

// asPlugin identifies callbacks: their context has the caller.
type asPlugin struct{}

// Identify implements [httpapi.Identifier].
func (asPlugin) Identify(r *http.Request) (httpapi.Caller, error) {
	c, ok := r.Context().Value(callbackKey{}).(*callbackCaller)
	if !ok {
		return httpapi.Caller{}, httpapi.ErrNotMine
	}
	return httpapi.Caller{Caller: c.Caller}, nil
}

// callbackCaller is a plugin that requests an operation during a call.
type callbackCaller struct {
	api.Caller
	session events.SessionID
	reaches reachFunc
	allowed []string // operations
}

// gated serves a row, which has a path, to the plugins that may use it.
func (a *hostAPI) gated(row *operation.Row, path string) http.Handler {
	names, streams := strings.Contains(path, "{session}"), strings.HasSuffix(path, "/stream") || row == operation.Observe
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(callbackKey{}).(*callbackCaller)
		why := ""
		switch {
		case !named(c.allowed, row):
			why = fmt.Sprintf("the operator does not allow this plugin the operation %q", row.ID)
		case streams:
			why = fmt.Sprintf("operation %q is a stream, which callbacks cannot have", row.ID)
		case !names && row.ID != operation.Create.ID:
			why = fmt.Sprintf("operation %q is not bounded to sessions, and callbacks are", row.ID)
		case (!names || row == &operation.Fork.Row) && !c.below(r):
			why = fmt.Sprintf("operation %q needs parent: the call's session, or one below it", row.ID)
		default:
			a.server.ServeHTTP(w, r)
			return
		}
		data := problemJSON(http.StatusForbidden, "forbidden", why, map[string]string{"operation": row.ID})
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(data)
		a.access(accesslog.Record{
			API: accesslog.HTTP, Operation: row.ID, Session: accesslog.SessionOf(r.PathValue("session")), Caller: c.Name,
			Status: http.StatusForbidden, Code: "forbidden", Reason: why, Written: int64(len(data)),
		})
	})
}

// below reports whether a request for a session has a parent that the caller reaches.
func (c *callbackCaller) below(r *http.Request) bool {
	in, err := r.GetBody()
	if err != nil {
		return false
	}
	var body struct {
		Parent events.SessionID `json:"parent"`
	}
	if json.NewDecoder(in).Decode(&body) != nil {
		return false
	}
	return body.Parent != "" && c.reaches("", body.Parent)
}

// reachFunc reports whether a session with a parent is a root, or below it. A session without an id is not made yet.
type reachFunc func(session, parent events.SessionID) bool

// within is the reach of a root. The parents of a session are read without the rights of a caller.
func (a *hostAPI) within(ctx context.Context, root events.SessionID) reachFunc {
	const depth = 64
	return func(session, parent events.SessionID) bool {
		for range depth {
			if session == root {
				return true
			}
			if parent == "" {
				return false
			}
			next, err := a.service.State(api.WithoutCaller(ctx), parent)
			if err != nil {
				return false
			}
			session, parent = next.Session, next.Parent
		}
		return false
	}
}

// callbacks are the callbacks of one call.
type callbacks struct {
	work sync.WaitGroup

	mu      sync.Mutex
	running map[string]bool
	answers map[string]*wire.CallbackAnswer // for repeats; nil: the body is dropped
	ended   []performed                     // of answers, in the order of their ends
	bodies  int                             // of ended: those before have no body
	size    int                             // of the bodies
}

// performed is a callback that has its answer.
type performed struct {
	id string
	at time.Time
}

func (c *callbacks) wait() { c.work.Wait() }

// knows reports whether a callback runs, or has its answer.
func (c *callbacks) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, answered := c.answers[id]
	return c.running[id] || answered
}

// begin reports whether a callback has to run. Otherwise it runs, or has the answer.
func (c *callbacks) begin(id string) (run bool, answer *wire.CallbackAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, answered := c.answers[id]
	switch {
	case c.running[id]:
		return false, nil
	case answered && answer == nil:
		return false, problem(http.StatusGone, "gone", "", "the callback was performed, and its answer is no longer kept")
	case answered:
		return false, answer
	case len(c.running) >= wire.MaxCallbacks:
		return false, problem(http.StatusTooManyRequests, "too_many_requests", "callbacks", fmt.Sprintf("a call waits for at most %d callbacks at once", wire.MaxCallbacks))
	}
	if c.running == nil {
		c.running, c.answers = make(map[string]bool), make(map[string]*wire.CallbackAnswer)
	}
	c.running[id] = true
	return true, nil
}

// end keeps the answer of a callback, which is not performed again: where there are too many answers, the oldest ones
// lose their bodies, and are forgotten when nothing repeats them any more.
func (c *callbacks) end(id string, answer *wire.CallbackAnswer, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, id)
	c.answers[id] = answer
	c.ended = append(c.ended, performed{id, now})
	for c.size += len(answer.Body); c.size > maxAnswerSize; c.bodies++ {
		c.dropBodyLocked(c.ended[c.bodies].id)
	}
	for now.Sub(c.ended[0].at) > answersKept {
		c.dropBodyLocked(c.ended[0].id)
		delete(c.answers, c.ended[0].id)
		c.ended, c.bodies = c.ended[1:], max(c.bodies-1, 0)
	}
}

func (c *callbacks) dropBodyLocked(id string) {
	if answer := c.answers[id]; answer != nil {
		c.size -= len(answer.Body)
		c.answers[id] = nil
	}
}

// callback performs a callback of the instance that has the call, and answers it. Only the node that waits for the
// call receives callbacks: an instance that lost the call has no reader.
// A callback that asks people ends the wait for the outcome: the answer sends the call again, and the instance the callback.
func (o *instanceCall) callback(instance string, in *wire.Callback) {
	if err := events.CheckToken("id", in.ID); err != nil {
		o.answer(instance, in.ID, invalidField(err))
		return
	}
	limited := o.limits.callback(&o.p.byName[o.plugin].limits.traffic)
	if limited != nil && (o.call.Again || o.callbacks.knows(in.ID)) {
		o.p.drop(o.plugin, callbackRate)
		return // it is, or may be, performed: the instance repeats it
	}
	if limited != nil {
		o.answer(instance, in.ID, problem(http.StatusTooManyRequests, wire.CodeRateLimited, "callbacks", limited.Error()))
		return
	}
	run, answer := o.callbacks.begin(in.ID)
	if answer != nil {
		o.answer(instance, in.ID, answer)
	}
	if !run {
		return
	}
	o.callbacks.work.Go(func() {
		answer := o.perform(in)
		if answer == nil || o.ctx.Err() != nil {
			return
		}
		o.callbacks.end(in.ID, answer, time.Now())
		o.answer(instance, in.ID, answer)
	})
}

func (o *instanceCall) answer(instance, id string, answer *wire.CallbackAnswer) {
	a := *answer
	a.CallID, a.ID = o.in.CallID, events.Clip(id, events.MaxIDBytes, "")
	data, err := wire.Encode(&a)
	if err != nil {
		a.Status, a.Body = http.StatusRequestEntityTooLarge, problem(http.StatusRequestEntityTooLarge, "too_large", "answer", "the answer is too large for a message").Body
		data, err = wire.Encode(&a)
	}
	if err == nil {
		_ = o.p.bus.TellInstance(o.plugin, instance, wire.VerbCallback, data) // the instance repeats the callback
	}
}

// perform performs a callback with the key that every attempt of the call has for it; nil: there is no answer now.
func (o *instanceCall) perform(in *wire.Callback) *wire.CallbackAnswer {
	a := o.p.api.Load()
	switch {
	case in.Path == wire.AskPath:
		return o.ask(in)
	case a == nil:
		return problem(http.StatusServiceUnavailable, "unavailable", "", "this node performs no callbacks")
	case len(in.Body) > wire.MaxCallbackBytes:
		return problem(http.StatusRequestEntityTooLarge, "too_large", "body", fmt.Sprintf("the body has %d bytes, limit is %d", len(in.Body), wire.MaxCallbackBytes))
	case !isPath(in.Path):
		return problem(http.StatusBadRequest, "invalid_parameter", "path", "path: is none of the API, which are clean and begin with /v1/")
	}
	c := &callbackCaller{session: o.in.Session, reaches: a.within(o.ctx, o.in.Session)}
	c.Caller = api.Caller{
		Name: o.caller(), Reach: api.Reach{Scope: o.p.byName[o.plugin].settings.scope()},
		Within: func(s *projector.State) bool { return c.reaches(s.Session, s.Parent) },
	}
	c.allowed = o.p.byName[o.plugin].settings.Callbacks
	r, err := http.NewRequestWithContext(context.WithValue(o.ctx, callbackKey{}, c), in.Method, "http://plugin"+in.Path, bytes.NewReader(in.Body))
	if err != nil {
		return problem(http.StatusBadRequest, "invalid_parameter", "method", "method: is invalid")
	}
	r.Header.Set("Idempotency-Key", events.DerivedID("cb-", string(o.in.Session), string(o.in.Call), in.ID))
	if len(in.Body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	w := &answerWriter{header: make(http.Header)}
	o.serve(a, w, r)
	return w.answer()
}

// isPath reports whether a text can be the path of a request of the API. One that is not clean would be redirected.
func isPath(text string) bool {
	u, err := url.ParseRequestURI(text)
	return err == nil && strings.HasPrefix(text, "/v1/") && u.EscapedPath() == path.Clean(u.EscapedPath())
}

// caller is the name of the plugin as a caller.
func (o *instanceCall) caller() string { return wire.CallerOf(o.plugin) }

// serve lets the API handle a request. A handler that cuts off its response panics.
func (o *instanceCall) serve(a *hostAPI, w *answerWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			o.p.log.Error("callback", zap.String("plugin", o.plugin), zap.Any("panic", v))
			w.status, w.failed = http.StatusInternalServerError, errors.New("the request failed")
		}
	}()
	if _, pattern := a.rows.Handler(r); pattern != "" {
		a.rows.ServeHTTP(w, r)
		return
	}
	a.server.ServeHTTP(w, r) // says why there is no such path
}
