package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// calls are the calls that a server runs, by the tokens of their progress.
type calls struct {
	mu      sync.Mutex
	byToken map[string]*running
	on      *mcp.ClientSession // of the calls; nil while the server does not run
	// abandoned: a call of the session ended before the server answered it, as it was cancelled, took too long or lost its answer. The server
	// may still work on it, and ask for it.
	abandoned bool
}

// begin makes a session the one of the calls that follow; nil: the server does not run.
func (c *calls) begin(on *mcp.ClientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.abandoned = on, false
}

// running is a call that a server runs.
type running struct {
	ctx context.Context //nolint:containedctx // of the call
	on  remote.Caller

	mu    sync.Mutex
	asked map[string]int // how often, by the digest of the question
}

type runningKey struct{}

// do performs a call in a session, until life ends. The server's progress and questions find it by the token, and by its
// context.
func (c *calls) do(ctx, life context.Context, session *mcp.ClientSession, on remote.Caller, call func(ctx context.Context, token string) (*wire.Outcome, error)) (out *wire.Outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	token, one := rand.Text(), &running{ctx: ctx, on: on, asked: make(map[string]int)}
	c.mu.Lock()
	if c.byToken == nil {
		c.byToken = make(map[string]*running)
	}
	c.byToken[token] = one
	c.mu.Unlock()
	defer func() {
		refused, ok := errors.AsType[*jsonrpc.Error](err)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byToken, token)
		c.abandoned = c.abandoned || c.on == session && (ctx.Err() != nil || ok && unanswered(refused))
	}()
	return call(context.WithValue(ctx, runningKey{}, one), token)
}

// owner is the call that a request of the server belongs to: that of the context, where the server asks by its result, and
// otherwise the only one that runs; nil if there is none. It is nil too while the server may still work on a call that was
// abandoned: the question may be that call's, and would reach the people of another session.
func (c *calls) owner(ctx context.Context) *running {
	if one, ok := ctx.Value(runningKey{}).(*running); ok {
		return one
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byToken) != 1 || c.abandoned {
		return nil
	}
	for _, one := range c.byToken {
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
		line += ": " + strings.ToValidUTF8(n.Message, "\uFFFD")
	}
	one.on.Output(plugin.StreamProgress, line+"\n")
}
