package mcp

import (
	"bytes"
	"context"
	"io"

	"golang.org/x/time/rate"
)

// Messages that are read of a server in a second, and at once. One that sends more waits.
const (
	messagesPerSecond = 2000
	messagesAtOnce    = 4000
)

// paced reads the lines of a server no faster than the limit.
type paced struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // of the server's run, or of the request
	limit *rate.Limiter
}

func newPaced(ctx context.Context, r io.ReadCloser) *paced {
	return &paced{r, ctx, rate.NewLimiter(messagesPerSecond, messagesAtOnce)}
}

// Read implements [io.Reader].
func (p *paced) Read(data []byte) (int, error) {
	n, err := p.ReadCloser.Read(data)
	for lines := bytes.Count(data[:n], []byte{'\n'}); lines > 0; lines -= messagesAtOnce {
		if slow := p.limit.WaitN(p.ctx, min(lines, messagesAtOnce)); slow != nil {
			return n, slow // the run has ended
		}
	}
	return n, err
}
