package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// maxRuns is how many runs of the server a call is sent to that may repeat.
const maxRuns = 3

// program is a version of the server's tools as the code of an instance.
type program struct {
	s     *Source
	offer *offer
}

var _ remote.Program = (*program)(nil)

// ID implements [plugin.Factory].
func (p *program) ID() string { return p.s.cfg.Server.Name }

// Build implements [plugin.Factory]. The server runs in no node.
func (p *program) Build(plugin.BuildContext) (plugin.Plugin, error) {
	return nil, fmt.Errorf("server %s is a program of its own", p.ID())
}

// Manifest implements [remote.Program].
func (p *program) Manifest() *wire.Manifest { return &p.offer.manifest }

// Drain implements [remote.Program]. The server does not notice.
func (*program) Drain() {}

// Hook implements [remote.Program]. A server has no hooks.
func (*program) Hook(context.Context, *wire.HookCall) *wire.HookResult {
	return &wire.HookResult{Error: &wire.Error{Code: wire.CodeBadRequest, Field: "hook", Message: "the plugin has no hooks"}}
}

// Call implements [remote.Program].
func (p *program) Call(ctx context.Context, in *wire.Call, on remote.Caller) *wire.Outcome {
	t := p.offer.byName[in.Tool]
	for run := 1; ; run++ {
		session, err := p.s.open(ctx)
		if err != nil {
			return cancelledOr(ctx, &wire.Outcome{Failure: &wire.Failure{
				Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "the server " + p.ID() + " does not run", Safe: true,
			}})
		}
		out, err := p.s.running.do(ctx, p.s.ctx, session, on, func(ctx context.Context, token string) (*wire.Outcome, error) {
			return t.call(ctx, session, in.Args, token)
		})
		refused, answered := errors.AsType[*jsonrpc.Error](err)
		switch {
		case err == nil:
			return out
		case ctx.Err() != nil:
			return &wire.Outcome{Cancelled: true}
		case answered && !errors.Is(err, mcp.ErrConnectionClosed) && !unanswered(refused):
			return failure(plugin.ClassExecution, p.s.cfg.Server.withoutSecrets(refused.Message))
		case notSent(err):
			return &wire.Outcome{Failure: &wire.Failure{
				Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "the server " + p.ID() + " is not reached", Safe: true,
			}}
		case !answered || errors.Is(err, mcp.ErrConnectionClosed):
			p.s.lost(session) // a request over HTTP that has no answer ends alone: others go on
		}
		switch {
		case !t.repeatable || in.Once:
			return nil // the server may have run it
		case run >= maxRuns:
			return failure(plugin.ClassExternal, fmt.Sprintf("the server %s ended during the call, %d times", p.ID(), run)) // an error may have the URL, with secrets
		}
	}
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

func cancelledOr(ctx context.Context, out *wire.Outcome) *wire.Outcome {
	if _, ok := errors.AsType[*remote.Cancelled](context.Cause(ctx)); ok {
		return &wire.Outcome{Cancelled: true}
	}
	return out
}

// open is the session with the server. It waits for one while the server starts.
func (s *Source) open(ctx context.Context) (*mcp.ClientSession, error) {
	wait, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	for {
		s.mu.Lock()
		session, changed := s.session, s.changed
		s.mu.Unlock()
		if session != nil {
			return session, nil
		}
		select {
		case <-changed:
		case <-wait.Done():
			return nil, context.Cause(wait)
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		}
	}
}

// lost closes a session in which a call failed: the server is started again.
func (s *Source) lost(session *mcp.ClientSession) {
	s.mu.Lock()
	if s.session == session {
		s.session = nil
		s.running.begin(nil)
	}
	s.mu.Unlock()
	_ = session.Close() // it has failed
}
