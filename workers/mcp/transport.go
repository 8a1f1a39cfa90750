package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/lash-go/lash/workers/internal/process"
)

// endWait is how long a server may take after its input is closed, and after TERM.
const endWait = 2 * time.Second

// transport connects to a server. end ends what it started; it returns when that is gone.
func (s *Server) transport(ctx context.Context, pace *pace, log *zap.Logger) (t mcp.Transport, end func(), err error) {
	if s.URL != "" {
		client := &http.Client{Transport: &headed{s.Headers, rate.NewLimiter(streamsPerSecond, streamsAtOnce), pace}, CheckRedirect: sameHost}
		return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}, func() {}, nil
	}
	return s.start(ctx, pace, log)
}

// sameHost refuses redirects to another host: the headers may have secrets.
func sameHost(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return errors.New("it redirects to another host")
	}
	if len(via) > maxRedirects {
		return errors.New("it redirects without end")
	}
	return nil
}

const maxRedirects = 10

// headed sends requests with headers, and paces and bounds the answers.
type headed struct {
	headers map[string]string
	streams *rate.Limiter // of requests that open one
	pace    *pace
}

// RoundTrip implements [http.RoundTripper].
func (h *headed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		if err := h.streams.Wait(r.Context()); err != nil {
			return nil, err
		}
	}
	r = r.Clone(r.Context())
	for name, value := range h.headers {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		answer.Body = h.pace.of(r.Context(), newBounded(answer))
	}
	return answer, err
}

// start runs a server as a child process.
func (s *Server) start(ctx context.Context, pace *pace, log *zap.Logger) (mcp.Transport, func(), error) {
	life, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	output, printed := io.Pipe()
	command := process.Command{Dir: s.Dir, Env: s.Env, Clean: true, Input: true, Grace: endWait}
	command.Args = slices.Concat(s.Sandbox, []string{s.Command}, s.Args)
	p, err := process.Start(life, command, func(r io.Reader) {
		_, err := io.Copy(printed, pace.of(life, io.NopCloser(r)))
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
	return &mcp.IOTransport{Reader: output, Writer: &attended{p.Input, func() { kill(errDeaf) }}}, end, nil
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
