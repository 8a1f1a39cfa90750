package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
)

// served is the handler of a route.
type served struct {
	s *Server
	*route
}

// ServeHTTP authenticates the caller, takes a slot, and responds.
func (o *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var caller Caller
	var err error
	record := recordOf(w)
	record.Operation, record.Session = o.name, accesslog.SessionOf(r.PathValue("session"))
	if o.needs != "" {
		caller, err = o.s.admit(r)
		record.Caller = caller.Name
		if err == nil {
			err = o.countConnection(r, caller)
		}
		if err == nil {
			err = o.checkRight(caller)
		}
	}
	if err == nil {
		err = o.serve(w, r, caller)
	}
	if err != nil {
		o.s.refuse(w, r, err)
	}
}

// serve handles the request. It returns a refusal, where nothing has been written.
func (o *served) serve(w http.ResponseWriter, r *http.Request, caller Caller) error {
	c := &httpRequest{Request: r, s: o.s, route: o.route, w: w, session: events.SessionID(r.PathValue("session")), caller: caller, memory: o.s.cfg.Memory.Account(caller.Name, o.s.cfg.RequestTimeout/memoryShare)}
	if err := o.parameters(c); err != nil {
		return err
	}
	defer c.memory.Close()
	staysOpen := o.events != nil || o.long || c.maxWait > 0
	if o.needs != "" { // the document needs no caller and no slot
		release, err := o.s.slots.acquire(caller.Name, staysOpen)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := o.checkTraffic(c); err != nil {
		return err
	}
	ctx, cancel := o.lifetime(r, caller, staysOpen)
	defer cancel()
	if o.needs != "" {
		ctx = api.WithCaller(ctx, caller.Caller, o.needs, c.session)
	}
	if o.changes() {
		ctx = api.WithRequestMeta(ctx, api.RequestMeta{Actor: caller.Name, Key: r.Header.Get(keyHeader)})
		ctx = tracing.Received(ctx, r.Header.Values(tracing.ParentHeader), r.Header.Values(tracing.StateHeader))
	}
	ctx, receipt := api.WithReceipt(c.memory.In(ctx), c.session)
	c.Request = r.WithContext(ctx)
	out, err := o.handle(c)
	if seq := receipt.Seq(); seq != 0 {
		w.Header().Set(seqHeader, strconv.FormatUint(uint64(seq), 10))
	}
	switch {
	case err != nil:
		return err
	case out.written:
		return nil
	case out.stream != nil:
		c.memory.GiveBack() // the request was read, and a stream may last
		if out.release != nil {
			defer out.release()
		}
		o.s.stream(c, out)
		return nil
	case o.rawResponse:
		o.s.send(c, out)
		return nil
	}
	return o.respond(c, out)
}

// checkTraffic sets the limiter of the request's bytes: the caller's, or that of the client's address. It refuses a
// request above the limit.
func (o *served) checkTraffic(c *httpRequest) error {
	now := time.Now()
	if o.needs == "" {
		c.limiter = o.s.anonymous.limiter(addressOf(o.s.clientOf(c.Request)), now)
		return o.s.anonymous.check(c.limiter, now)
	}
	c.limiter = o.s.traffic.limiter(c.caller.Name, now)
	return o.s.traffic.check(c.limiter, now)
}

// seqHeader is the response header with the sequence of the request's commit.
const seqHeader = "Lash-Seq"

// knownParameters lists the parameters of the query, for an error.
func (o *served) knownParameters() string {
	names := make([]string, len(o.query))
	for i, p := range o.query {
		names[i] = p.name
	}
	if len(names) == 0 {
		return ": there is none"
	}
	return ": known are " + strings.Join(names, ", ")
}

// parameters checks the query and the ids in the path, and reads how long the request waits.
func (o *served) parameters(c *httpRequest) (err error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return invalidParam("query", "is malformed")
	}
	for name, list := range values {
		if !slices.ContainsFunc(o.query, func(p param) bool { return p.name == name }) {
			p := invalidParam(strconv.Quote(name), "is no parameter here"+o.knownParameters())
			p.Details["field"] = cmp.Or(name, `""`)
			return p
		}
		if len(list) > 1 && !slices.Contains(o.repeatable, name) {
			return invalidParam(name, fmt.Sprintf("occurs %d times, limit is 1", len(list)))
		}
	}
	var errs []error
	for _, name := range o.pathParams() {
		errs = append(errs, events.CheckToken(name, c.PathValue(name)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if name := c.Header.Get(keyHeader); name != "" && o.changes() {
		if err := events.CheckToken(keyHeader, name); err != nil {
			return err
		}
	}
	if o.mayWait {
		var patience time.Duration
		patience, err = c.readWait()
		c.startWait(patience)
	}
	return err
}

// startWait makes the request wait for this long from now on.
func (c *httpRequest) startWait(patience time.Duration) {
	if c.maxWait = patience; patience > 0 {
		c.waitEnd = time.Now().Add(patience)
	}
}

// lifetime is a request's context. A request that stays open continues until the server drains or its caller loses
// the right to it; other requests have a timeout. Long work may finish when the server drains, as short requests may.
func (o *served) lifetime(r *http.Request, caller Caller, staysOpen bool) (context.Context, context.CancelFunc) {
	if !staysOpen {
		return context.WithTimeout(r.Context(), o.s.cfg.RequestTimeout)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := func() bool { return true }
	if !o.long { // 503 says that the request had no effect
		stop = o.s.onDrain(func() { cancel(errDraining) })
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { o.recheckCaller(r, caller, cancel, done) })
	return ctx, func() {
		stop()
		close(done)
		watching.Wait()
		cancel(nil)
	}
}

// afterWait limits the time between the end of a wait and the response. Servers without a quorum do not answer, and a
// client expects the response soon after its own wait.
const afterWait = time.Second

// responseDeadline is the time by which the request must be answered.
func (c *httpRequest) responseDeadline() time.Time {
	last := time.Now().Add(c.s.cfg.RequestTimeout)
	if soon := c.waitEnd.Add(afterWait); c.maxWait > 0 && soon.Before(last) {
		return soon
	}
	return last
}

// cleanupContext is a context for steps that must finish after the request was cancelled.
func (c *httpRequest) cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.WithoutCancel(c.Context()), c.responseDeadline())
}

// respond writes a reply.
func (o *served) respond(c *httpRequest, out reply) error {
	var data bytes.Buffer
	w := c.w
	if out.body != nil {
		enc := json.NewEncoder(&data)
		enc.SetEscapeHTML(false)
		if err := c.compute(func() error { return enc.Encode(out.body) }); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
	}
	if out.location != "" {
		w.Header().Set("Location", out.location)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(o.s.cfg.WriteTimeout)) // a test recorder has no deadline
	deductBytes(c.limiter, data.Len())
	w.WriteHeader(out.status)
	if _, err := w.Write(data.Bytes()); err != nil {
		o.s.log.Debug("client is gone", zap.String("operation", o.name), zap.Error(err))
	}
	return nil
}
