package mcp

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// failing is a connection whose next message cannot be read.
type failing struct {
	mcp.Connection
	err error
}

func (f failing) Read(context.Context) (jsonrpc.Message, error) { return nil, f.err }

// TestUnreadableLineIsNoAnswer: the library's error of a line that it cannot read has the type of a server's refusal. The calls that
// then end must not take it for one: they may have run.
func TestUnreadableLineIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := &Source{}
	for name, err := range map[string]error{"line": &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "invalid request"}, "end": io.EOF} {
		w := &watched{Connection: failing{err: err}}
		_, got := w.Read(t.Context())
		if _, answered := errors.AsType[*jsonrpc.Error](got); got == nil || answered || !w.broken.Load() || errors.Is(err, io.EOF) != errors.Is(got, io.EOF) {
			t.Errorf("%s: got %v, want an error that is no answer, and a broken connection", name, got)
		}
		ctx, end := context.WithCancelCause(t.Context())
		if out, of := s.judge(&serverRun{read: w, server: &Server{}, ctx: ctx, end: end}, &activeCall{}, got); out != nil || of != runLost {
			t.Errorf("%s: got the failure %+v and %d, want none, and the end of the run", name, out, of)
		}
		end(nil)
	}
}
