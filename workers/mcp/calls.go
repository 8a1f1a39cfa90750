package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// calls are the calls that a server runs, by the tokens of their progress.
type calls struct {
	mu      sync.Mutex
	byToken map[string]*activeCall
	started int        // calls, since the source started
	run     *serverRun // of the calls; nil while the server does not run
	// abandoned are the sessions of calls that ended before the server answered them: they were cancelled, took too long or lost their
	// answer. The server may still work on them, and ask for them.
	abandoned map[events.SessionID]bool
	muted     bool // a question was refused, as it may be one of an abandoned call
	replied   bool // to a call, since the last look
	leaving   bool // the run ends with its last call
}

// answeredAny reports whether the server has answered a call since the last look.
func (c *calls) answeredAny() (any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	any, c.replied = c.replied, false
	return any
}

// begin makes a run of the server the one of the calls that follow; nil: the server does not run.
func (c *calls) begin(run *serverRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked(run)
}

func (c *calls) beginLocked(run *serverRun) {
	c.run, c.abandoned, c.muted, c.leaving = run, nil, false, false
}

// activeCall is a call that a server runs.
type activeCall struct {
	ctx     context.Context //nolint:containedctx // of the call
	session events.SessionID
	caller  plugin.Call
	clock   *clock
	server  string // its name
	number  int    // in the order of the starts
	waiting int    // questions that the server asked without naming a call; under the mutex of calls
	warn    func(text string, fields ...zap.Field) bool
	asks    bool                    // the server has answered the call with questions
	sent    atomic.Bool             // over HTTP: a request has the call
	refused atomic.Pointer[refusal] // over HTTP: how the server has refused that request

	mu    sync.Mutex
	asked map[string]int // how often, by the digest of the question
}

type activeCallKey struct{}

// errReplaced means that the server's run ended before it had the call.
var errReplaced = errors.New("the server is started again")

// do performs a call in a run of the server. The server's progress and questions find it by the token, and by its context. Errors:
// [errReplaced]; those of send.
func (c *calls) do(ctx context.Context, run *serverRun, call *activeCall, send func(ctx context.Context, token string) (plugin.Result, error)) (out plugin.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(run.ctx, func() { // a server may answer, and end
		delay.Sleep(ctx, answerWait)
		cancel()
	})()
	call.ctx, call.asked = ctx, make(map[string]int)
	token := rand.Text()
	if !c.add(run, token, call) {
		return out, errReplaced
	}
	defer func() {
		if p := recover(); p != nil { // the library reads results unchecked
			err = invalidMessage("the result", p)
		}
		refused, ok := errors.AsType[*jsonrpc.Error](err)
		if c.end(run, token, call, ctx.Err() != nil || ok && unanswered(refused)) {
			run.end(errRenew)
		}
	}()
	return send(context.WithValue(ctx, activeCallKey{}, call), token)
}

// answerWait is how long an answer that came before the end of a run may take to reach its call.
const answerWait = time.Second

// add adds a call to those of a run of the server, unless that has ended.
func (c *calls) add(run *serverRun, token string, call *activeCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run != run {
		return false
	}
	if c.byToken == nil {
		c.byToken = make(map[string]*activeCall)
	}
	c.started++
	call.number = c.started
	c.byToken[token] = call
	return true
}

// end removes a call, and reports whether the server is to be started again: no call runs, and its questions may belong to abandoned
// ones. No call is added to this run of the server any more.
func (c *calls) end(run *serverRun, token string, call *activeCall, abandoned bool) (renew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byToken, token)
	c.replied = c.replied || !abandoned
	if c.run != run {
		return false
	}
	if abandoned {
		if c.abandoned == nil {
			c.abandoned = make(map[events.SessionID]bool)
		}
		c.abandoned[call.session] = true
	}
	if renew = (c.muted || c.leaving) && len(c.byToken) == 0; renew {
		c.beginLocked(nil)
	}
	return renew
}

// leave ends a run of the server once its last call ends: other calls may still have their answers there.
func (c *calls) leave(run *serverRun) {
	c.mu.Lock()
	busy := c.run == run && len(c.byToken) > 0
	c.leaving = c.leaving || busy
	c.mu.Unlock()
	if !busy {
		run.end(errNoSession)
	}
}

// Why a question of the server belongs to no call.
var (
	errNoCall    = errors.New("no call runs")
	errSessions  = errors.New("calls of several sessions run")
	errAbandoned = errors.New("the server may still work on a call of another session, which was cancelled or lost its answer")
)

// owner is the call in which people are asked what the server asks without naming a call, where all that run are of one session: of
// those with the fewest questions that wait, since a call asks one after the other, the youngest. The caller ends the question with
// [calls.answered]. While the server may still work on an abandoned call of another session there is none: the question may be
// that call's, and would reach the people of another session.
func (c *calls) owner() (found *activeCall, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sessions := maps.Clone(c.abandoned)
	for _, call := range c.byToken {
		switch {
		case call.ctx.Err() != nil: // it is about to be abandoned
			if sessions == nil {
				sessions = make(map[events.SessionID]bool)
			}
			sessions[call.session] = true
			continue
		case found != nil && found.session != call.session:
			return nil, errSessions
		}
		if found == nil || call.waiting < found.waiting || call.waiting == found.waiting && call.number > found.number {
			found = call
		}
	}
	if found == nil {
		return nil, errNoCall
	}
	if delete(sessions, found.session); len(sessions) > 0 {
		c.muted = true
		return nil, errAbandoned
	}
	found.waiting++
	return found, nil
}

// answered ends a question of a call.
func (c *calls) answered(call *activeCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.waiting--
}

// print shows a line in the output of all calls that run.
func (c *calls) print(line string) {
	c.mu.Lock()
	list := slices.Collect(maps.Values(c.byToken))
	c.mu.Unlock()
	for _, call := range list {
		call.caller.Output(plugin.StreamLog, line+"\n")
	}
}

// busy reports whether a call runs.
func (c *calls) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byToken) > 0
}

// count counts the questions of a digest.
func (c *activeCall) count(digest string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[digest]++
	return c.asked[digest]
}

// maxProgress limits the message of a notification.
const maxProgress = 4 << 10

// progress shows a notification as a line of output of its call.
func (c *calls) progress(n *mcp.ProgressNotificationParams) {
	token, _ := n.ProgressToken.(string)
	c.mu.Lock()
	call := c.byToken[token]
	c.mu.Unlock()
	if call == nil {
		return
	}
	line := fmt.Sprintf("%v", n.Progress)
	if n.Total > 0 {
		line += fmt.Sprintf(" of %v", n.Total)
	}
	if n.Message != "" {
		line += ": " + strings.ToValidUTF8(events.Clip(n.Message, maxProgress, "..."), "\uFFFD")
	}
	call.caller.Output(plugin.StreamProgress, line+"\n")
}
