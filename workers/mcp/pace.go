package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"golang.org/x/time/rate"
)

// Messages that are read of a server in a second, and at once, and their bytes. One that sends more waits.
const (
	messagesPerSecond = 2000
	messagesAtOnce    = 4000
	bytesPerSecond    = 64 << 20
	bytesAtOnce       = 64 << 20
)

// maxMessage limits a message of a server, after it is decompressed. The transport over stdin and stdout has the same limit. A
// longer one ends the session.
const maxMessage = 16 << 20

// Streams that the client opens in a second, and at once: a server may end each of them and say that it is to come again at once.
const (
	streamsPerSecond = 1
	streamsAtOnce    = 10
)

// pace limits what is read of one server: all its answers over HTTP, and all its runs, share it.
type pace struct {
	messages *rate.Limiter
	bytes    *rate.Limiter
}

func newPace() *pace {
	return &pace{rate.NewLimiter(messagesPerSecond, messagesAtOnce), rate.NewLimiter(bytesPerSecond, bytesAtOnce)}
}

// of reads r, whose messages end with lines, no faster than the limits.
func (p *pace) of(ctx context.Context, r io.ReadCloser) *paced { return &paced{r, ctx, p} }

// paced is a reader with a pace.
type paced struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the server's run, or of the request
	*pace
}

// Read implements [io.Reader].
func (p *paced) Read(data []byte) (int, error) {
	n, err := p.ReadCloser.Read(data)
	for lines := bytes.Count(data[:n], []byte{'\n'}); lines > 0; lines -= messagesAtOnce {
		if slow := p.messages.WaitN(p.ctx, min(lines, messagesAtOnce)); slow != nil {
			return n, slow // the run has ended
		}
	}
	if slow := p.bytes.WaitN(p.ctx, min(n, bytesAtOnce)); slow != nil {
		return n, slow
	}
	return n, err
}

// bounded reads an answer of HTTP that is one message: the client reads all of it into memory. The transport itself bounds the
// events of a stream.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements [io.Reader].
func (b *bounded) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("a message has more than %d bytes", maxMessage)
	}
	return n, err
}
