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

	"github.com/lash-go/lash/workers/internal/process"
)

// endWait is how long a server may take after its input is closed, and after TERM.
const endWait = 2 * time.Second

// transport connects to a server. end ends what it started; it returns when that is gone.
func (s *Server) transport(ctx context.Context, log *zap.Logger) (t mcp.Transport, end func(), err error) {
	if s.URL != "" {
		return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: &headed{s.Headers}, CheckRedirect: sameHost}}, func() {}, nil
	}
	return s.start(ctx, log)
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

// headed sends requests with headers, and paces the answers.
type headed struct{ headers map[string]string }

// RoundTrip implements [http.RoundTripper].
func (h *headed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h.headers {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		answer.Body = newPaced(r.Context(), answer.Body)
	}
	return answer, err
}

// start runs a server as a child process.
func (s *Server) start(ctx context.Context, log *zap.Logger) (mcp.Transport, func(), error) {
	life, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	output, printed := io.Pipe()
	command := process.Command{Dir: s.Dir, Env: s.Env, Clean: true, Input: true, Grace: endWait}
	command.Args = slices.Concat(s.Sandbox, []string{s.Command}, s.Args)
	p, err := process.Start(life, command, func(r io.Reader) {
		_, err := io.Copy(printed, newPaced(life, io.NopCloser(r)))
		_ = printed.CloseWithError(err) // nil is the end of the output
	}, func(r io.Reader) {
		process.Lines(r, func(line string) { log.Info("stderr", zap.String("line", line)) })
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
	return &mcp.IOTransport{Reader: output, Writer: p.Input}, end, nil
}

var errLate = errors.New("it did not end after its input was closed")
