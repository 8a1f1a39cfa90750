package mcp

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/lash-go/lash/workers/internal/process"
)

// endWait is how long a server may take after its input is closed, and after TERM.
const endWait = 2 * time.Second

// transport connects to a server, for a run that ends with ctx. end ends what it started; it returns when that is gone.
func (s *Server) transport(ctx context.Context, pace *pace, log *zap.Logger) (t mcp.Transport, end func(), err error) {
	if s.URL != "" {
		return s.overHTTP(ctx, pace), func() {}, nil
	}
	return s.start(ctx, pace, log)
}

// start runs a server as a child process.
func (s *Server) start(ctx context.Context, pace *pace, log *zap.Logger) (mcp.Transport, func(), error) {
	life, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	output, printed := io.Pipe()
	command := process.Command{Dir: s.Dir, Env: s.Env, Clean: true, Input: true, Grace: endWait}
	command.Args = slices.Concat(s.Sandbox, []string{s.Command}, s.Args)
	p, err := process.Start(life, command, func(r io.Reader) {
		_, err := io.Copy(printed, exactOf(pace.of(life, io.NopCloser(r)), false))
		_ = printed.CloseWithError(err) // nil is the end of the output
	}, func(r io.Reader) {
		process.LogLines(log, r, s.withoutSecrets)
	})
	if err != nil {
		kill(nil)
		return nil, nil, err
	}
	gone := make(chan struct{})
	go func() { // ends with the process
		defer close(gone)
		p.Attend(life)
	}()
	end := func() {
		_, _ = p.Input.Close(), output.Close()
		select {
		case <-gone:
		case <-time.After(endWait):
		}
		kill(errLate)
		<-gone
	}
	return &watched{transport: &mcp.IOTransport{Reader: output, Writer: &attended{p.Input, func() { kill(errDeaf) }}}}, end, nil
}

// attended writes to the input of a server, and ends a server that does not read it: a message waits for those before, with
// their calls, which no cancel reaches.
type attended struct {
	io.WriteCloser
	kill func()
}

// readWait is how long a server may leave its input unread.
const readWait = 10 * time.Second

// Write implements [io.Writer].
func (a *attended) Write(data []byte) (int, error) {
	late := time.AfterFunc(readWait, func() {
		a.kill()
		_ = a.Close() // a process that left the group may have the other end
	})
	defer late.Stop()
	return a.WriteCloser.Write(data)
}

var errDeaf = errors.New("it does not read its input")

var errLate = errors.New("it did not end after its input was closed")
