package mcp

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/internal/process"
)

// endWait is how long a server may take after its input is closed, and after TERM.
const endWait = 2 * time.Second

// transport connects to a server, for a run that ends with ctx. end ends what it started; it returns when that is gone, with how it
// ended; over HTTP with what its last refusal says.
func (s *Server) transport(ctx context.Context, pace *pace, log *zap.Logger, noise func(string)) (t mcp.Transport, end func() string, err error) {
	if s.URL != "" {
		return s.overHTTP(ctx, pace)
	}
	return s.start(ctx, pace, log, noise)
}

// start runs a server as a child process.
func (s *Server) start(ctx context.Context, pace *pace, log *zap.Logger, noise func(string)) (mcp.Transport, func() string, error) {
	life, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	output, printed := io.Pipe()
	said := new(lastWords)
	command := process.Command{Dir: s.Dir, Env: s.Env, Clean: true, Input: true, Grace: endWait}
	command.Args = slices.Concat(s.Sandbox, []string{s.Command}, s.Args)
	p, err := process.Start(life, command, func(r io.Reader) {
		lines := exactOf(pace.of(life, io.NopCloser(r)), inLines)
		lines.noise, lines.busy = noise, pace.busy
		_, err := io.Copy(printed, lines)
		_ = printed.CloseWithError(err) // nil is the end of the output
	}, func(r io.Reader) {
		process.LogLines(log, r, func(line string) string {
			line = s.withoutSecrets(line)
			said.note(line)
			return line
		})
	})
	if err != nil {
		kill(nil)
		return nil, nil, err
	}
	gone := make(chan struct{})
	var exit process.Exit // once it is gone
	go func() {           // ends with the process
		defer close(gone)
		exit = p.Attend(life)
	}()
	end := func() string {
		_, _ = p.Input.Close(), output.Close()
		select {
		case <-gone:
		case <-time.After(endWait):
		}
		kill(errLate)
		<-gone
		return strings.TrimSuffix("the command ended: "+exit.How()+": "+said.text, ": ")
	}
	return &watched{transport: &mcp.IOTransport{Reader: output, Writer: &attended{p.Input, func() { kill(errDeaf) }}}}, end, nil
}

// lastWords are of a command's standard error the last line that speaks of an error, or the last one.
type lastWords struct {
	text   string
	errors bool
}

func (w *lastWords) note(line string) {
	failed := strings.Contains(strings.ToLower(line), "error")
	if line = strings.TrimSpace(line); line != "" && (failed || !w.errors) {
		w.text, w.errors = events.Clip(line, maxLastWords, "..."), failed
	}
}

const maxLastWords = 200 // bytes

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
