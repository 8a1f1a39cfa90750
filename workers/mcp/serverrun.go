package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverRun is a run of the server.
type serverRun struct {
	client *mcp.ClientSession
	server *Server // as this run has it
	http   bool
	read   *watched // of standard input and output; nil: of HTTP

	ctx context.Context //nolint:containedctx // of the run
	end context.CancelCauseFunc
}

// Causes of the end of a run.
var (
	errEnded     = errors.New("it ended")
	errNoSession = errors.New("it does not have the session any more, or refused a call")
	errLater     = errors.New("it refuses this version of the protocol")
	errRenew     = errors.New("it is started again, so that its questions are those of calls that run")
)

// await ends the run when the session ends.
func (r *serverRun) await() { r.end(errors.Join(r.client.Wait(), errEnded)) }

// intact reports whether all messages of the server could be read: an error of a call is then about its answer. Over HTTP nothing
// says so.
func (r *serverRun) intact() bool { return r.read != nil && !r.read.broken.Load() }

// maxUnanswered limits the requests of a server that have no answer yet. Others are dropped.
const maxUnanswered = 64

// watched is a connection that notes its failure, and drops requests of which too many have no answer: a server that does not read
// answers would keep all of them in memory. It is a transport, too.
type watched struct {
	mcp.Connection
	transport  *mcp.IOTransport
	broken     atomic.Bool
	unanswered atomic.Int64
}

// Connect implements [mcp.Transport].
func (w *watched) Connect(ctx context.Context) (_ mcp.Connection, err error) {
	if w.Connection, err = w.transport.Connect(ctx); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return w, nil
}

// Read implements [mcp.Connection].
func (w *watched) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := w.Connection.Read(ctx)
		if err != nil {
			w.broken.Store(true)
			if unread, ok := errors.AsType[*jsonrpc.Error](err); ok {
				err = errors.New(unread.Message) // the library's, of a line that it cannot read: as an error of its type it would be an answer of the server to each call
			}
			return nil, err
		}
		if r, ok := m.(*jsonrpc.Request); !ok || !r.IsCall() || w.unanswered.Add(1) <= maxUnanswered {
			return m, nil
		}
		w.unanswered.Add(-1)
	}
}

// Write implements [mcp.Connection].
func (w *watched) Write(ctx context.Context, m jsonrpc.Message) error {
	err := w.Connection.Write(ctx, m)
	if err != nil {
		w.broken.Store(true)
	}
	if _, ok := m.(*jsonrpc.Response); ok {
		w.unanswered.Add(-1)
	}
	return err
}
