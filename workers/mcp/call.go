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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// maxRuns is how many runs of the server a call is sent to that may repeat.
const maxRuns = 3

// attempt is a call in one run of the server.
type attempt struct {
	ctx     context.Context //nolint:containedctx // of the attempt
	caller  plugin.Call
	clock   *clock
	source  *Source
	number  int                     // in the order of the starts
	waiting int                     // questions that the server asked without naming a call; under the mutex of the run
	asks    bool                    // the server has answered the call with questions
	refused atomic.Pointer[refusal] // over HTTP: how the server has refused the request that has the call

	mu        sync.Mutex
	asked     map[string]int // how often, by the digest of the question
	questions int            // in all
}

// call performs a call of a tool. What becomes of one without an answer:
//
//	the server shows that it has not run     a safe failure: the call runs again once, see [plugin.Tool.Retry]
//	it may have run, and may repeat          sent again, three times in all
//	it may have run, and must not run twice  lost
func (s *Source) call(ctx context.Context, t *tool, in plugin.Call, args json.RawMessage) (plugin.Result, error) {
	limit := time.Duration(t.TimeoutMS) * time.Millisecond
	ctx, clock, end := limited(ctx, limit)
	defer end()
	for sent := 1; ; {
		r, err := s.open(ctx)
		if err != nil {
			return plugin.Result{}, err
		}
		a := &attempt{caller: in, clock: clock, source: s}
		out, err := r.do(ctx, a, func(ctx context.Context, token string) (plugin.Result, error) {
			return t.run(ctx, r.client, args, token)
		})
		said, failed := errors.AsType[*plugin.Failure](err)
		switch {
		case err == nil:
			return out, nil
		case failed:
			return plugin.Result{}, said
		case errors.Is(context.Cause(ctx), errLong):
			return plugin.Result{}, failure(plugin.ClassTimeout, fmt.Sprintf("the server %s did not answer within %s", s.name, limit))
		case ctx.Err() != nil:
			return plugin.Result{}, ctx.Err()
		case errors.Is(err, errReplaced):
			continue // it has no call
		}
		switch f := r.judge(a, err); {
		case f != nil:
			return plugin.Result{}, f
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
func limited(ctx context.Context, limit time.Duration) (of context.Context, c *clock, end func()) {
	of, cancel := context.WithCancelCause(ctx)
	c = &clock{limit: cmp.Or(limit, math.MaxInt64)}
	c.timer = time.AfterFunc(c.limit, func() { cancel(errLong) })
	return of, c, func() { c.think(1); cancel(nil) }
}

// clock ends a call after its time without the time in which people think.
type clock struct {
	mu    sync.Mutex
	limit time.Duration
	timer *time.Timer
	asks  int // questions that wait
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

// judge is the failure of an attempt that has not run, or that the server has refused, or answered with what cannot be read; nil: the server
// may have run it. It ends the run where that is gone. A server that has asked questions has received the call, whatever becomes of the
// answers.
func (r *run) judge(a *attempt, err error) *plugin.Failure {
	refused, answered := errors.AsType[*jsonrpc.Error](err)
	answered = answered && !unanswered(refused)
	over := a.refused.Load()
	if over == nil || a.asks && over.status < http.StatusInternalServerError {
		over = new(refusal)
	}
	safe := func(message string) *plugin.Failure {
		f := failure(plugin.ClassUnavailable, r.server.withoutSecrets(message))
		f.Safe = true
		return f
	}
	said := "the server " + r.source.name + " refused the call: " + over.text(refused)
	switch {
	case over.status == http.StatusTooManyRequests:
		f := safe(said)
		f.After = over.after
		return f
	case over.status == http.StatusUnauthorized:
		r.leave()
		return safe(said)
	case over.forgets(): // the session is gone for all of its calls
		r.end(errNoSession)
		return safe(said)
	case methodUnknown(refused) && !a.asks:
		if r.pipe == nil {
			r.leave()
		}
		return safe(refused.Message)
	case answered:
		return failure(plugin.ClassExecution, r.server.withoutSecrets(saidBy(refused)))
	case over.status >= http.StatusInternalServerError:
		r.leave()
	case over.status != 0 && over.status != http.StatusRequestTimeout:
		if !over.answers() && slices.Contains(ofRun, over.status) {
			r.leave()
		}
		return failure(plugin.ClassExternal, r.server.withoutSecrets(said))
	case notSent(err) && !a.asks:
		return unavailable(r.source.name, "is not reached")
	case r.ctx.Err() != nil, refused != nil: // a request over HTTP that has no answer ends alone: others go on
	case r.intact():
		return failure(plugin.ClassExternal, "the server's answer cannot be read: "+r.server.Redacted(err))
	case errors.Is(err, mcp.ErrConnectionClosed), r.pipe != nil: // the server is started again
		r.end(err)
	}
	return nil
}

// ofRun are refusals that may be about the session, or the token, whatever they say: the next call has others.
var ofRun = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusGone} //nolint:gochecknoglobals // a table

// refusal is how a server over HTTP has refused the request that has a call. The zero value is none.
type refusal struct {
	status  int           // 200, or from 400 on
	session string        // that the request named; empty: none
	body    string        // the begin of it
	after   time.Duration // before the request may come again
}

// Words of messages which say of a session that the server does not have it: of a session, of what is wrong with it, and those between.
const (
	ofSession = " session sessions sessionid initialized initialised "
	ofLack    = " no not unknown invalid missing required expired stale closed ended terminated lost gone timed failed cannot doesn isn t "
	between   = " a again active an and any at available bad be been by can client connect could created do does error exist exists find first for found given has have header id " +
		"in initialise initialize is it longer mcp must new of on one or out please provided re reconnect reinitialise reinitialize request server start such the this to transport valid was with you your "
)

// aboutSession reports whether a message says of the request's session alone that the server does not have it. A message that says something
// else beside that may be about what the call did.
func (r *refusal) aboutSession() bool {
	words := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	}
	session, lack, own := false, false, words(r.session)
	for _, word := range words(r.message()) {
		in := func(list string) bool { return strings.Contains(list, " "+word+" ") }
		session, lack = session || in(ofSession), lack || in(ofLack)
		if !in(ofSession+ofLack+between) && !slices.Contains(own, word) && !strings.ContainsAny(word, "0123456789") {
			return false
		}
	}
	return session && lack
}

// noMethod matches what a server says that does not know a method.
var noMethod = regexp.MustCompile(`(?i)^(unknown method|method( \S+)? (is )?not (found|supported|implemented)|no such method)\b.{0,80}$`)

// forgets reports whether the refusal shows that the server does not have the session of the call, so that it has not run.
func (r *refusal) forgets() bool {
	switch r.status {
	case http.StatusNotFound:
		return r.session != "" && (!r.answers() || r.aboutSession())
	case http.StatusBadRequest:
		return r.aboutSession()
	case http.StatusOK:
		return r.session != "" && r.aboutSession()
	}
	return false
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

// text is what the server says.
func (r *refusal) text(said *jsonrpc.Error) string {
	if said != nil && !unanswered(said) && said.Message != "" {
		return said.Message
	}
	if r.status == http.StatusOK {
		return r.message()
	}
	return strings.TrimSuffix(fmt.Sprintf("%d %s: %s", r.status, http.StatusText(r.status), r.message()), ": ")
}

// methodUnknown reports whether a server says that it has no method for calls.
func methodUnknown(said *jsonrpc.Error) bool {
	return said != nil && said.Code == jsonrpc.CodeMethodNotFound && noMethod.MatchString(said.Message)
}

// saidBy is what an error says, with its data.
func saidBy(e *jsonrpc.Error) string {
	data := events.Clip(textOf(e.Data), maxUnknown, "...")
	if data == "" || strings.Contains(e.Message, data) {
		return e.Message
	}
	return e.Message + ": " + data
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
