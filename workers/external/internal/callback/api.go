// Package callback performs what the programs of plugins request of the API during their calls, in the name of the plugin and
// bounded to the session of the call. It knows no instance and sends no message.
package callback

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
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/setting"
)

// Config is the input of [New].
type Config struct {
	Service operation.Host // required; the host of the node
	Access  accesslog.Func // receives a record of each callback at its end. Defaults to none
	Memory  *memory.Pool   // of the node's requests. Defaults to that of [httpapi.Config]
}

// API performs callbacks.
type API struct {
	service operation.Host
	access  accesslog.Func
	log     *zap.Logger
	server  *httpapi.Server
	rows    *http.ServeMux // finds the row of a request
}

// New makes an API. Errors: those of [httpapi.New].
func New(cfg Config, log *zap.Logger) (*API, error) {
	a := &API{service: cfg.Service, access: cfg.Access, log: log, rows: http.NewServeMux()}
	if a.access == nil {
		a.access = func(accesslog.Record) {}
	}
	var err error
	a.server, err = httpapi.New(httpapi.Config{
		Service: cfg.Service, Access: cfg.Access, Logger: log, Identity: []httpapi.Identifier{asPlugin{}},
		MaxBodyBytes: wire.MaxCallbackBytes, MaxWait: time.Minute, Memory: cfg.Memory,
	})
	if err != nil {
		return nil, err
	}
	for _, row := range operation.All() {
		if row.Route != "" {
			method, path := row.HTTP()
			a.rows.Handle(method+" "+path, a.gated(row, path))
		}
	}
	return a, nil
}

// Call is the running call that a callback belongs to.
type Call struct {
	wire.CallID

	Plugin *setting.Plugin
	Bodies *Bodies // of the call
}

// Caller is the name of the plugin as a caller.
func (c *Call) Caller() string { return wire.CallerOf(c.Plugin.Name) }

type callerKey struct{}

// asPlugin identifies callbacks: their context has the caller.
type asPlugin struct{}

// Identify implements [httpapi.Identifier].
func (asPlugin) Identify(r *http.Request) (httpapi.Caller, error) {
	c, ok := r.Context().Value(callerKey{}).(*caller)
	if !ok {
		return httpapi.Caller{}, httpapi.ErrNotMine
	}
	return httpapi.Caller{Caller: c.Caller}, nil
}

// caller is a plugin that requests an operation during a call.
type caller struct {
	api.Caller
	session events.SessionID
	reaches reachFunc
	allowed []string // operations
	call    string
	bodies  *Bodies
}

// gated serves a row, which has a path, to the plugins that may use it.
func (a *API) gated(row *operation.Row, path string) http.Handler {
	names, streams := strings.Contains(path, "{session}"), strings.HasSuffix(path, "/stream") || row == operation.Observe
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(callerKey{}).(*caller)
		why := ""
		switch {
		case !setting.Named(c.allowed, row):
			why = fmt.Sprintf("the operator does not allow this plugin the operation %q", row.ID)
		case streams:
			why = fmt.Sprintf("operation %q is a stream, which callbacks cannot have", row.ID)
		case !names && row.ID != operation.Create.ID:
			why = fmt.Sprintf("operation %q is not bounded to sessions, and callbacks are", row.ID)
		case (!names || row == &operation.Fork.Row) && !c.below(r):
			why = fmt.Sprintf("operation %q needs parent: the call's session, or one below it", row.ID)
		case row == &operation.StoreBlob.Row:
			a.store(c, w, r)
			return
		case row == operation.ReadBlob:
			a.read(c, w, r)
			return
		default:
			a.server.ServeHTTP(w, r)
			return
		}
		data := problemJSON(http.StatusForbidden, "forbidden", why, map[string]string{"operation": row.ID})
		a.reply(c, w, r, row, &wire.CallbackAnswer{Status: http.StatusForbidden, Body: data}, "forbidden", why)
	})
}

// reply answers a request that the server does not see.
func (a *API) reply(c *caller, w http.ResponseWriter, r *http.Request, row *operation.Row, answer *wire.CallbackAnswer, code, why string) {
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
	a.access(accesslog.Record{
		API: accesslog.HTTP, Operation: row.ID, Session: accesslog.SessionOf(r.PathValue("session")), Caller: c.Name,
		Status: answer.Status, Code: code, Reason: why, Written: int64(len(answer.Body)),
	})
}

// below reports whether a request for a session has a parent that the caller reaches.
func (c *caller) below(r *http.Request) bool {
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
func (a *API) within(ctx context.Context, root events.SessionID) reachFunc {
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

// Perform performs a callback, with the key that every attempt of the call has for it.
func (a *API) Perform(ctx context.Context, call *Call, in *wire.Callback) *wire.CallbackAnswer {
	switch {
	case len(in.Body) > wire.MaxCallbackBytes:
		return Problem(http.StatusRequestEntityTooLarge, "too_large", "body", fmt.Sprintf("the body has %d bytes, limit is %d", len(in.Body), wire.MaxCallbackBytes))
	case !isPath(in.Path):
		return Problem(http.StatusBadRequest, "invalid_parameter", "path", "path: is none of the API, which are clean and begin with /v1/")
	}
	c := &caller{session: call.Session, reaches: a.within(ctx, call.Session), allowed: call.Plugin.Callbacks, call: string(call.Call), bodies: call.Bodies}
	c.Caller = api.Caller{
		Name: call.Caller(), Reach: api.Reach{Scope: call.Plugin.Scope()},
		Within: func(s *projector.State) bool { return c.reaches(s.Session, s.Parent) },
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, callerKey{}, c), in.Method, "http://plugin"+in.Path, bytes.NewReader(in.Body))
	if err != nil {
		return Problem(http.StatusBadRequest, "invalid_parameter", "method", "method: is invalid")
	}
	r.Header.Set("Idempotency-Key", events.DerivedID("cb-", string(call.Session), string(call.Call), in.ID))
	if len(in.Body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	w := &answerWriter{header: make(http.Header), limit: wire.MaxCallbackAnswer}
	a.serve(call, w, r)
	return w.answer()
}

// isPath reports whether a text can be the path of a request of the API. One that is not clean would be redirected.
func isPath(text string) bool {
	u, err := url.ParseRequestURI(text)
	return err == nil && strings.HasPrefix(text, "/v1/") && u.EscapedPath() == path.Clean(u.EscapedPath())
}

// serve lets the API handle a request. A handler that cuts off its response panics.
func (a *API) serve(call *Call, w *answerWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			a.log.Error("callback", zap.String("plugin", call.Plugin.Name), zap.Any("panic", v))
			w.status, w.failed = http.StatusInternalServerError, errors.New("the request failed")
		}
	}()
	if _, pattern := a.rows.Handler(r); pattern != "" {
		a.rows.ServeHTTP(w, r)
		return
	}
	a.server.ServeHTTP(w, r) // says why there is no such path
}

// Record records a callback that is no operation of the API; the answer is nil for a question that people have not answered.
func (a *API) Record(call *Call, operation string, answer *wire.CallbackAnswer) {
	record := accesslog.Record{API: accesslog.HTTP, Operation: operation, Session: call.Session, Caller: call.Caller(), Status: http.StatusAccepted}
	if answer != nil {
		record.Status, record.Written = answer.Status, int64(len(answer.Body))
	}
	a.access(record)
}
