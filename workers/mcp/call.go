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
func (p *program) Call(ctx context.Context, in *wire.Call, caller remote.Caller) *wire.Outcome {
	t := p.offer.byName[in.Tool]
	for sent := 1; ; {
		run, err := p.s.open(ctx)
		if err != nil {
			return cancelledOr(ctx, p.unavailable("does not run"))
		}
		call := &activeCall{session: in.Session, caller: caller, server: p.ID(), warn: p.s.warn}
		out, err := p.s.calls.do(ctx, run, call, func(ctx context.Context, token string) (*wire.Outcome, error) {
			return t.call(ctx, run.client, in.Args, token)
		})
		switch {
		case err == nil:
			return out
		case ctx.Err() != nil:
			return &wire.Outcome{Cancelled: true}
		case errors.Is(err, errReplaced):
			continue // it has no call
		case call.missing.Load() && !call.asks:
			run.end(errNoSession) // it has not run the call
			if sent++; sent <= maxRuns {
				continue
			}
			return p.unavailable("has no session")
		}
		if out := p.refusal(run, call, err); out != nil {
			return out
		}
		switch {
		case !t.repeatable || in.Once:
			return nil // the server may have run it
		case sent >= maxRuns:
			return failure(plugin.ClassExternal, fmt.Sprintf("the server %s ended during the call, %d times", p.ID(), sent)) // an error may have the URL, with secrets
		}
		sent++
	}
}

// unavailable is the outcome of a call that no server has run.
func (p *program) unavailable(what string) *wire.Outcome {
	return &wire.Outcome{Failure: &wire.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "the server " + p.ID() + " " + what, Safe: true,
	}}
}

// refusal is the outcome of a call that the server has refused, not received, or answered with what cannot be read; nil: the server, or
// its answer, is lost. A server that has asked questions has received the call, whatever becomes of the answers.
func (p *program) refusal(run *serverRun, call *activeCall, err error) *wire.Outcome {
	refused, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case answered && !unanswered(refused):
		return failure(plugin.ClassExecution, p.s.cfg.Server.withoutSecrets(refused.Message))
	case notSent(err) && !call.asks:
		return p.unavailable("is not reached")
	case run.ctx.Err() != nil, answered: // a request over HTTP that has no answer ends alone: others go on
		return nil
	case run.intact():
		return failure(plugin.ClassExternal, "the server's answer cannot be read: "+p.s.cfg.Server.redacted(err))
	case errors.Is(err, mcp.ErrConnectionClosed), !run.http:
		run.end(err) // the server is started again
	}
	return nil
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

// open is the run of the server. It waits for one while the server starts.
func (s *Source) open(ctx context.Context) (*serverRun, error) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.Server.startTimeout())
	defer cancel()
	for {
		s.mu.Lock()
		run, changed := s.current, s.changed
		s.mu.Unlock()
		if run != nil && run.ctx.Err() == nil {
			return run, nil
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
