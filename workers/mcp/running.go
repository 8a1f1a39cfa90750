package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// calls are the calls that a server runs, by the tokens of their progress.
type calls struct {
	mu      sync.Mutex
	byToken map[string]*running
	on      *live // of the calls; nil while the server does not run
	// abandoned are the sessions of calls that ended before the server answered them: they were cancelled, took too long or lost their
	// answer. The server may still work on them, and ask for them.
	abandoned map[events.SessionID]bool
	muted     bool // a question was dismissed, as it may be one of an abandoned call
}

// begin makes a run of the server the one of the calls that follow; nil: the server does not run.
func (c *calls) begin(on *live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked(on)
}

func (c *calls) beginLocked(on *live) { c.on, c.abandoned, c.muted = on, nil, false }

// running is a call that a server runs.
type running struct {
	ctx     context.Context //nolint:containedctx // of the call
	session events.SessionID
	on      remote.Caller
	warn    func(text string, fields ...zap.Field)
	begun   bool        // the server has answered the call with questions
	sent    atomic.Bool // over HTTP: a request has the call
	missing atomic.Bool // the server does not have the session of HTTP that this request names

	mu    sync.Mutex
	asked map[string]int // how often, by the digest of the question
}

type runningKey struct{}

// errReplaced means that the server's run ended before it had the call.
var errReplaced = errors.New("the server is started again")

// do performs a call in a run of the server. The server's progress and questions find it by the token, and by its context. Errors:
// [errReplaced]; those of call.
func (c *calls) do(ctx context.Context, on *live, one *running, call func(ctx context.Context, token string) (*wire.Outcome, error)) (out *wire.Outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(on.ctx, cancel)()
	one.ctx, one.asked = ctx, make(map[string]int)
	token := rand.Text()
	if !c.add(on, token, one) {
		return nil, errReplaced
	}
	defer func() {
		if p := recover(); p != nil { // the library reads results unchecked
			err = invalidMessage("the result", p)
		}
		refused, ok := errors.AsType[*jsonrpc.Error](err)
		if c.end(on, token, one, ctx.Err() != nil || ok && unanswered(refused)) {
			on.end(errRenew)
		}
	}()
	return call(context.WithValue(ctx, runningKey{}, one), token)
}

// add adds a call to those of a run of the server, unless that has ended.
func (c *calls) add(on *live, token string, one *running) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on != on {
		return false
	}
	if c.byToken == nil {
		c.byToken = make(map[string]*running)
	}
	c.byToken[token] = one
	return true
}

// end removes a call, and reports whether the server is to be started again: no call runs, and its questions may belong to abandoned
// ones. No call is added to this run of the server any more.
func (c *calls) end(on *live, token string, one *running, abandoned bool) (renew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byToken, token)
	if c.on != on {
		return false
	}
	if abandoned {
		if c.abandoned == nil {
			c.abandoned = make(map[events.SessionID]bool)
		}
		c.abandoned[one.session] = true
	}
	if renew = c.muted && len(c.byToken) == 0; renew {
		c.beginLocked(nil)
	}
	return renew
}

// owner is the call that a request of the server belongs to: the only one that runs; nil if there is none. It is nil too while the
// server may still work on an abandoned call of another session: the question may be that call's, and would reach the people of
// another session.
func (c *calls) owner() *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byToken) != 1 {
		return nil
	}
	for _, one := range c.byToken {
		for session := range c.abandoned {
			if session != one.session {
				c.muted = true
				return nil
			}
		}
		return one
	}
	return nil
}

// count counts the questions of a digest.
func (c *running) count(digest string) int {
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
	one := c.byToken[token]
	c.mu.Unlock()
	if one == nil {
		return
	}
	line := fmt.Sprintf("%v", n.Progress)
	if n.Total > 0 {
		line += fmt.Sprintf(" of %v", n.Total)
	}
	if n.Message != "" {
		line += ": " + strings.ToValidUTF8(events.Clip(n.Message, maxProgress, "..."), "\uFFFD")
	}
	one.on.Output(plugin.StreamProgress, line+"\n")
}
