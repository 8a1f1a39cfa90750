package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// maxRuns is how many runs of the server a call is sent to that may repeat.
const maxRuns = 3

// call performs a call of a tool. What becomes of one without an answer:
//
//	the server shows that it has not run     a safe failure: the call runs again once, see [plugin.Tool.Retry]
//	it may have run, and may repeat          sent again, three times in all
//	it may have run, and must not run twice  lost
func (s *Source) call(ctx context.Context, t *tool, in plugin.Call, args json.RawMessage) (plugin.Result, error) {
	ctx, clock, end := limited(ctx, time.Duration(t.TimeoutMS)*time.Millisecond)
	defer end()
	for sent := 1; ; {
		run, err := s.open(ctx)
		if err != nil {
			return plugin.Result{}, err
		}
		call := &activeCall{session: in.Session, caller: in, clock: clock, server: s.name, warn: s.warn}
		r, err := s.calls.do(ctx, run, call, func(ctx context.Context, token string) (plugin.Result, error) {
			return t.run(ctx, run.client, args, token)
		})
		said, failed := errors.AsType[*plugin.Failure](err)
		switch {
		case err == nil:
			return r, nil
		case failed:
			return plugin.Result{}, said
		case errors.Is(context.Cause(ctx), errLong):
			return plugin.Result{}, failure(plugin.ClassTimeout, fmt.Sprintf("the server %s did not answer within %s", s.name, time.Duration(t.TimeoutMS)*time.Millisecond))
		case ctx.Err() != nil:
			return plugin.Result{}, ctx.Err()
		case errors.Is(err, errReplaced):
			continue // it has no call
		}
		out, fate := s.judge(run, call, err)
		switch {
		case out != nil:
			return plugin.Result{}, out
		case fate == runLost: // the server is started again
			run.end(err)
		case fate == sessionLost:
			s.calls.leave(run)
		}
		switch {
		case !t.Effects.Repeatable() || in.Once:
			return plugin.Result{Outcome: events.OutcomeLost, Text: projector.LostText}, nil
		case sent >= maxRuns:
			return plugin.Result{}, failure(plugin.ClassExternal, fmt.Sprintf("the server %s did not answer the call, %d times", s.name, sent)) // an error may have the URL, with secrets
		}
		sent++
	}
}

// errLong ends a call that takes too long.
var errLong = errors.New("the call takes too long")

// limited is a context that ends after a time, 0 is any. The clock can be stopped while people think; it then begins again.
func limited(ctx context.Context, limit time.Duration) (of context.Context, clock *clock, end func()) {
	of, cancel := context.WithCancelCause(ctx)
	clock = newClock(limit, func() { cancel(errLong) })
	return of, clock, func() { clock.think(1); cancel(nil) }
}

// clock ends a call after its time without the time in which people think.
type clock struct {
	mu    sync.Mutex
	limit time.Duration
	timer *time.Timer
	asks  int // questions that wait
}

func newClock(limit time.Duration, end func()) *clock {
	c := &clock{limit: cmp.Or(limit, math.MaxInt64)}
	c.timer = time.AfterFunc(c.limit, end)
	return c
}

// think adds questions that wait.
func (c *clock) think(n int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks += n; c.asks > 0 {
		c.timer.Stop()
	} else {
		c.timer.Reset(c.limit)
	}
}

// fate is what an unanswered call says of the run of its server.
type fate int

const (
	callLost    fate = iota // others go on
	sessionLost             // the session over HTTP may be gone
	runLost
)

// judge is the failure of a call that has not run, or that the server has refused, or answered with what cannot be read; nil: the server may
// have run it. A server that has asked questions has received the call, whatever becomes of the answers.
func (s *Source) judge(run *serverRun, call *activeCall, err error) (out *plugin.Failure, of fate) {
	refused, answered := errors.AsType[*jsonrpc.Error](err)
	answered = answered && !unanswered(refused)
	over := call.refused.Load()
	switch {
	case over != nil && !call.asks && over.status == http.StatusTooManyRequests:
		f := s.refusedSafely("the server " + s.name + " refused the call: " + run.server.withoutSecrets(over.text(refused)))
		f.After = over.after
		return f, callLost
	case over != nil && !call.asks && over.renews(refused):
		if over.status == http.StatusUnauthorized {
			s.calls.leave(run)
		} else { // the session is gone for all of its calls
			run.end(errNoSession)
		}
		return s.refusedSafely("the server " + s.name + " refused the call: " + run.server.withoutSecrets(over.text(refused))), callLost
	case answered && methodUnknown(refused) && !call.asks:
		if run.http {
			s.calls.leave(run)
		}
		return s.refusedSafely(run.server.withoutSecrets(refused.Message)), callLost
	case answered:
		return failure(plugin.ClassExecution, run.server.withoutSecrets(saidBy(refused))), callLost
	case over != nil && over.status >= http.StatusInternalServerError:
		return nil, sessionLost
	case over != nil && over.proves() && !call.asks:
		return failure(plugin.ClassExternal, "the server "+s.name+" refused the call: "+run.server.withoutSecrets(over.text(refused))), callLost
	case notSent(err) && !call.asks:
		return unavailable(s.name, "is not reached"), callLost
	case run.ctx.Err() != nil, refused != nil: // a request over HTTP that has no answer ends alone: others go on
		return nil, callLost
	case run.intact():
		return failure(plugin.ClassExternal, "the server's answer cannot be read: "+run.server.Redacted(err)), callLost
	case errors.Is(err, mcp.ErrConnectionClosed), !run.http:
		return nil, runLost
	}
	return nil, callLost
}

// refusedSafely is the failure of a call that the server has not run.
func (s *Source) refusedSafely(message string) *plugin.Failure {
	f := failure(plugin.ClassUnavailable, message)
	f.Safe = true
	return f
}

// refusal is how a server over HTTP has refused the request that has a call.
type refusal struct {
	status  int
	session bool          // the request named a session
	body    string        // the begin of it
	login   error         // why there is no other token; nil: there is one, or none was asked for
	after   time.Duration // before the request may come again
}

// saidBy is what an error says, with its data.
func saidBy(e *jsonrpc.Error) string {
	data := events.Clip(textOf(e.Data), maxUnknown, "...")
	if data == "" || strings.Contains(e.Message, data) {
		return e.Message
	}
	return e.Message + ": " + data
}

// aboutSession matches a message that says of the request's session alone that the server does not have it. A message that says something
// else beside that may be about what the call did.
var aboutSession = regexp.MustCompile(`(?i)^((bad request|not found|invalid request|error): )?(` +
	`((no|an?) )?(valid|active|unknown|invalid|missing|expired|stale|bad|no|invalid or missing|invalid or expired|missing or invalid|could not find|cannot find)( such)? (mcp[- ])?session([- ]?id)?( (was )?(provided|given|found|header))?( for [-\w]+| with id [-\w]+|:? "?[-\w]+"?)?` +
	`|(the |this |your )?(mcp[- ])?session([- ]?id)?( header)?( "?[-\w]+"?)?( (is|was|has|has been|does))?( not found| no longer (valid|exists|available)| invalid| unknown| missing| expired| closed| terminated| not exist| not initialized| required| not valid)( or (has )?(been )?(expired|invalid|closed|terminated|not found))?` +
	`|(the )?server (is )?not initialized|no transport (was )?found for (the )?session([- ]?id)?)\.?$`)

// noMethod matches what a server says that does not know a method.
var noMethod = regexp.MustCompile(`(?i)^(unknown method|method( \S+)? (is )?not (found|supported|implemented)|no such method)\b.{0,80}$`)

// renews reports whether the refusal shows that the call has not run, and that it may in another session, or with a token that is read again.
func (r *refusal) renews(said *jsonrpc.Error) bool {
	switch r.status {
	case http.StatusUnauthorized:
		return true
	case http.StatusNotFound:
		return r.session && (!r.answers() || aboutSession.MatchString(r.message()))
	case http.StatusBadRequest:
		return aboutSession.MatchString(r.message())
	case http.StatusOK:
		return r.session && aboutSession.MatchString(r.message())
	}
	return said != nil && methodUnknown(said)
}

// methodUnknown reports whether a server says that it has no method for calls.
func methodUnknown(said *jsonrpc.Error) bool {
	return said.Code == jsonrpc.CodeMethodNotFound && noMethod.MatchString(said.Message)
}

// answers reports whether the body is an answer to the request itself: servers that cannot say to which one have a text, or none.
func (r *refusal) answers() bool {
	var m struct{ ID *int64 }
	return json.Unmarshal([]byte(r.body), &m) == nil && m.ID != nil
}

// message is what the body says: an error of the protocol, or what frameworks for HTTP send. A page for browsers says nothing.
func (r *refusal) message() string {
	var m struct{ Message, Error, Detail json.RawMessage }
	body := strings.TrimSpace(strings.ToValidUTF8(r.body, "\uFFFD"))
	if strings.HasPrefix(body, "<") {
		return ""
	}
	_ = json.Unmarshal([]byte(body), &m) // another body has none of them
	return strings.TrimSpace(cmp.Or(textOf(m.Message), textOf(m.Error), textOf(m.Detail), body))
}

// proves reports whether the status shows that the server has not run the call.
func (r *refusal) proves() bool {
	return r.status == http.StatusOK || r.status >= http.StatusBadRequest && r.status < http.StatusInternalServerError && r.status != http.StatusRequestTimeout
}

// text is what the server says.
func (r *refusal) text(said *jsonrpc.Error) string {
	if r.login != nil {
		return r.login.Error()
	}
	if said != nil && !unanswered(said) && said.Message != "" {
		return said.Message
	}
	text := r.message()
	if r.status != http.StatusOK {
		text = strings.TrimSuffix(fmt.Sprintf("%d %s: %s", r.status, http.StatusText(r.status), text), ": ")
	}
	return text
}

// codeUnanswered is the code by which the client says that a request over HTTP failed on its way, or its answer. Its comment says
// that the server does not have the request; but a connection that ends, or a proxy that gives up, may be later than that.
const codeUnanswered = -32005

func unanswered(e *jsonrpc.Error) bool { return e.Code == codeUnanswered }

// notSent reports whether a request over HTTP failed before there was a connection to the server.
func notSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// open is the run of the server. It waits for one while the server starts. Errors: a [*plugin.Failure] that says why there is none; that of
// ctx's end.
func (s *Source) open(ctx context.Context) (*serverRun, error) {
	limit := time.NewTimer(s.configured().startTimeout())
	defer limit.Stop()
	for {
		s.mu.Lock()
		run, changed, soon := s.current, s.changed, s.failed == "" || time.Until(s.next) <= startLimit
		s.mu.Unlock()
		if run != nil && run.ctx.Err() == nil {
			return run, nil
		}
		if soon {
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
