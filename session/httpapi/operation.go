package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// operation serves a route.
type operation struct {
	s *Server
	*route
}

// ServeHTTP asks for the token and a slot, and answers.
func (o *operation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var token *Token
	if o.needs != "" {
		if token = bearer(o.s.cfg.Tokens, r.Header.Get("Authorization")); token == nil {
			o.s.refuse(w, r, errUnauthorized)
			return
		}
		if !token.Scope.Has(o.needs) {
			o.s.refuse(w, r, forbidden(o.needs))
			return
		}
	}
	if err := o.serve(w, r, token); err != nil {
		o.s.refuse(w, r, err)
	}
}

// serve returns what is to be refused, before anything was written.
func (o *operation) serve(w http.ResponseWriter, r *http.Request, token *Token) error {
	c := &call{Request: r, s: o.s, w: w, session: events.SessionID(r.PathValue("session"))}
	if token != nil {
		c.bearer = token.Name
	}
	if err := o.parameters(c); err != nil {
		return err
	}
	held := o.events != nil || c.patience > 0
	if token != nil { // the document is here already: nobody without a token takes a slot
		release, err := o.s.slots.take(c.bearer, held)
		if err != nil {
			return err
		}
		defer release()
	}
	ctx, cancel := o.s.lifetime(r.Context(), held)
	defer cancel()
	if token != nil {
		ctx = api.WithCaller(ctx, token.caller(), o.needs, c.session)
	}
	if o.changes() {
		ctx = api.WithAsked(ctx, api.Asked{Actor: c.bearer, Key: r.Header.Get(keyHeader)})
	}
	ctx, receipt := api.WithReceipt(ctx, c.session)
	c.Request = r.WithContext(ctx)
	out, err := o.handle(c)
	if seq := receipt.Seq(); seq != 0 {
		w.Header().Set(seqHeader, strconv.FormatUint(uint64(seq), 10))
	}
	switch {
	case err != nil:
		return err
	case out.stream != nil:
		o.s.stream(c, out.stream)
		return nil
	}
	return o.answer(w, out)
}

// seqHeader of an answer is the sequence of the commit that the request made.
const seqHeader = "Lash-Seq"

// parameters checks the query and the ids in the path, and takes how long the request would wait.
func (o *operation) parameters(c *call) (err error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return invalidParam("query", "is malformed")
	}
	for name := range values {
		if !slices.ContainsFunc(o.query, func(p param) bool { return p.name == name }) {
			return invalidParam(strconv.Quote(name), "is no parameter here")
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
	if o.held && o.events == nil {
		c.patience, err = c.wait()
	}
	return err
}

// lifetime is a request's context: what is held open goes on until the server
// drains, everything else is over soon.
func (s *Server) lifetime(ctx context.Context, held bool) (context.Context, context.CancelFunc) {
	if !held {
		return context.WithTimeout(ctx, s.cfg.RequestTimeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := s.onDrain(func() { cancel(errDraining) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// brief is a context of what must not be given up half way, though the request is.
func (c *call) brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Context()), c.s.cfg.RequestTimeout)
}

// answer writes a reply.
func (o *operation) answer(w http.ResponseWriter, out reply) error {
	var data bytes.Buffer
	if out.body != nil {
		enc := json.NewEncoder(&data)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(out.body); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
	}
	if out.location != "" {
		w.Header().Set("Location", out.location)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(o.s.cfg.WriteTimeout)) // a recorder has none
	w.WriteHeader(out.status)
	if _, err := w.Write(data.Bytes()); err != nil {
		o.s.log.Debug("client is gone", zap.String("operation", o.name), zap.Error(err))
	}
	return nil
}
