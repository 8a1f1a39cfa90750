package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// protocolVersion is what the client begins with. Servers of other versions that refuse it are started again with theirs: many others end,
// or stay silent, where the first message is not that of this version.
const protocolVersion = "2025-11-25"

// otherVersion is the version of the protocol that a server takes which refuses this one. Empty: the latest.
type otherVersion string

// Error implements error.
func (otherVersion) Error() string { return "it refuses this version of the protocol" }

// versionIn is the version that a refusal names beside that of the client.
func versionIn(refused *jsonrpc.Error) otherVersion {
	for _, version := range mcp.SupportedProtocolVersions() {
		if version != protocolVersion && strings.Contains(saidBy(refused), version) {
			return otherVersion(version)
		}
	}
	return ""
}

// answerWait is how long an answer that came before the end of a run may take to reach its call.
const answerWait = time.Second

// maxProgress limits the message of a notification.
const maxProgress = 4 << 10

// Causes of the end of a run.
var (
	errEnded     = errors.New("it ended")
	errNoSession = errors.New("it does not have the session any more, or refused a call")
	errRenew     = errors.New("it is started again, so that its questions are those of calls that run")
)

// run is a run of a server: a session of the library, and the calls in it.
type run struct {
	source  *Source
	server  *Server // as this run has it
	client  *mcp.ClientSession
	replied atomic.Bool // the server has answered a call
	refuses atomic.Bool // over HTTP: a call was refused, after which the library may end the session
	answers answers
	pipe    *pipe         // nil: over HTTP
	asking  chan struct{} // has an element for each question that waits

	ctx context.Context //nolint:containedctx // of the run
	end context.CancelCauseFunc

	mu      sync.Mutex
	calls   map[string]*attempt // that run, by the tokens of their progress
	started int
	// abandoned are the sessions of calls that ended before the server answered them: they were cancelled, took too long or lost their
	// answer. The server may still work on them, and ask for them.
	abandoned map[events.SessionID]bool
	muted     bool // a question was refused, as it may be one of an abandoned call
	leaving   bool // the run ends with its last call
	over      bool // no call is added
}

func newRun(ctx context.Context, s *Source) *run {
	r := &run{source: s, asking: make(chan struct{}, questionsAtOnce), calls: make(map[string]*attempt), abandoned: make(map[events.SessionID]bool)}
	r.ctx, r.end = context.WithCancelCause(ctx)
	return r
}

// newClient is the client of the library for a run.
func (r *run) newClient() *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "lash", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true}, // see rounds
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { r.source.relist() },
		ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) { r.progress(n.Params) },
	})
	c.AddReceivingMiddleware(r.guarded)
	return c
}

// connect begins the session. end ends what it started, and says how that ended; over HTTP what the last refusal says. Errors: [otherVersion].
func (r *run) connect(version string) (end func() string, err error) {
	var t mcp.Transport
	if r.server.URL != "" {
		t, end, err = r.overHTTP()
	} else if end, err = r.start(r.ctx); err == nil {
		t = r.pipe
	}
	if err != nil {
		return func() string { return "" }, err
	}
	limit := r.server.startTimeout()
	late := time.AfterFunc(limit, func() {
		r.end(fmt.Errorf("it did not answer within %s: start_timeout_ms of its field lash allows more", limit))
	})
	defer late.Stop()
	opts := &mcp.ClientSessionOptions{ProtocolVersion: version}
	if r.client, err = r.newClient().Connect(r.ctx, t, opts); err == nil { // the stream of SSE is of this context, too
		go r.ended()
		return end, nil
	}
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && !unanswered(refused) && version == protocolVersion {
		return end, versionIn(refused)
	}
	missing := strings.HasSuffix(err.Error(), http.StatusText(http.StatusNotFound)) || strings.HasSuffix(err.Error(), http.StatusText(http.StatusMethodNotAllowed))
	if r.pipe == nil && !r.server.SSE && missing {
		err = fmt.Errorf(`%w (a server of HTTP with SSE has "type": "sse" in the file)`, err)
	}
	return end, errors.Join(err, context.Cause(r.ctx))
}

// ended ends the run after its session.
func (r *run) ended() {
	err := errors.Join(r.client.Wait(), errEnded)
	if r.refuses.Load() {
		err = errNoSession
	}
	r.end(err)
}

// explained is why a run ended, with how its command did, or what its server said last.
func (r *run) explained(err error, how string) error {
	switch {
	case how == "" || err == nil:
	case r.pipe == nil && !strings.Contains(err.Error(), how):
		return fmt.Errorf("%w: %s", err, how)
	case r.pipe != nil:
		for _, ended := range []error{errEnded, io.EOF, syscall.EPIPE, os.ErrClosed, mcp.ErrConnectionClosed} {
			if errors.Is(err, ended) {
				return errors.New(how)
			}
		}
	}
	return err
}

// intact reports whether all messages of the server could be read: an error of a call is then about its answer. Over HTTP nothing says so.
func (r *run) intact() bool { return r.pipe != nil && !r.pipe.broken.Load() }

type attemptKey struct{}

// errReplaced means that the run ended before it had the call.
var errReplaced = errors.New("the server is started again")

// do performs a call. The server's progress and questions find it by the token, and by its context. Errors: [errReplaced]; those of send.
func (r *run) do(ctx context.Context, a *attempt, send func(ctx context.Context, token string) (plugin.Result, error)) (out plugin.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, func() { // a server may answer, and end
		delay.Sleep(ctx, answerWait)
		cancel()
	})()
	a.ctx, a.asked = ctx, make(map[string]int)
	token := rand.Text()
	if !r.add(token, a) {
		return out, errReplaced
	}
	defer func() {
		if p := recover(); p != nil { // the library reads results unchecked
			err = invalidMessage("the result", p)
		}
		refused, ok := errors.AsType[*jsonrpc.Error](err)
		r.remove(token, a, ctx.Err() != nil || ok && unanswered(refused))
	}()
	return send(context.WithValue(ctx, attemptKey{}, a), token)
}

func (r *run) add(token string, a *attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.ctx.Err() != nil {
		return false
	}
	r.source.working.Add(1)
	r.started++
	a.number = r.started
	r.calls[token] = a
	return true
}

// remove removes a call, and ends the run where no call is left and its questions may belong to abandoned ones.
func (r *run) remove(token string, a *attempt, abandoned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source.working.Add(-1)
	delete(r.calls, token)
	if abandoned {
		r.abandoned[a.caller.Session] = true
	} else {
		r.replied.Store(true)
	}
	if (r.muted || r.leaving) && len(r.calls) == 0 && !r.over {
		r.over = true
		r.end(errRenew)
	}
}

// leave ends the run once its last call ends: other calls may still have their answers there.
func (r *run) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving = true; len(r.calls) == 0 {
		r.end(errNoSession)
	}
}

// Why a question of the server belongs to no call.
var (
	errNoCall    = errors.New("no call runs")
	errSessions  = errors.New("calls of several sessions run")
	errAbandoned = errors.New("the server may still work on a call of another session, which was cancelled or lost its answer")
)

// owner is the call in which people are asked what the server asks without naming a call, where all that run are of one session: of those with
// the fewest questions that wait, since a call asks one after the other, the youngest. The caller ends the question with [run.answered]. While
// the server may still work on an abandoned call of another session there is none: the question may be that call's, and would reach the people
// of another session.
func (r *run) owner() (found *attempt, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sessions := maps.Clone(r.abandoned)
	for _, a := range r.calls {
		switch {
		case a.ctx.Err() != nil: // it is about to be abandoned
			sessions[a.caller.Session] = true
			continue
		case found != nil && found.caller.Session != a.caller.Session:
			return nil, errSessions
		}
		if found == nil || a.waiting < found.waiting || a.waiting == found.waiting && a.number > found.number {
			found = a
		}
	}
	if found == nil {
		return nil, errNoCall
	}
	if delete(sessions, found.caller.Session); len(sessions) > 0 {
		r.muted = true
		return nil, errAbandoned
	}
	found.waiting++
	return found, nil
}

// answered ends a question of a call.
func (r *run) answered(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.waiting--
}

// print shows a line in the output of all calls that run.
func (r *run) print(line string) {
	r.mu.Lock()
	list := slices.Collect(maps.Values(r.calls))
	r.mu.Unlock()
	for _, a := range list {
		a.caller.Output(plugin.StreamLog, line+"\n")
	}
}

// progress shows a notification as a line of output of its call.
func (r *run) progress(n *mcp.ProgressNotificationParams) {
	token, _ := n.ProgressToken.(string)
	r.mu.Lock()
	a := r.calls[token]
	r.mu.Unlock()
	if a == nil {
		return
	}
	line := fmt.Sprintf("%v", n.Progress)
	if n.Total > 0 {
		line += fmt.Sprintf(" of %v", n.Total)
	}
	if n.Message != "" {
		line += ": " + strings.ToValidUTF8(events.Clip(n.Message, maxProgress, "..."), "\uFFFD")
	}
	a.caller.Output(plugin.StreamProgress, line+"\n")
}
