package mcp

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Lines that are read of a server in a second, and at once, and their bytes. One that sends more waits: its pipe or its connection is not
// read. While no call runs it has little to say, and what it sends would cost the calls of other servers.
const (
	linesPerSecond = 2000
	bytesPerSecond = 64 << 20
	linesWhileIdle = 100
	bytesWhileIdle = 4 << 20
	linesAtOnce    = 4000
	bytesAtOnce    = 64 << 20
)

// idleStep is the most lines that one wait takes: a call that starts waits for so many at the pace of an idle server.
const idleStep = 20

// maxMessage limits a message of a server, after it is decompressed.
const maxMessage = 16 << 20

// listTime is how long a list that the client asked for is read as fast as the answers to calls: 24 000 lines. A server that sends other
// messages in place of the list is read slowly after it.
const listTime = 10 * time.Second

// pace limits what is read of one server: all its answers over HTTP, and all its runs, share it.
type pace struct {
	lines, bytes *rate.Limiter
	busy         func() bool  // a call runs
	listing      atomic.Int64 // until when a list is read, in Unix nanoseconds
}

func newPace(busy func() bool) *pace {
	return &pace{lines: rate.NewLimiter(0, linesAtOnce), bytes: rate.NewLimiter(0, bytesAtOnce), busy: busy}
}

// list begins the read of a list, until the returned function is called.
func (p *pace) list() (end func()) {
	p.listing.Store(time.Now().Add(listTime).UnixNano())
	return func() { p.listing.Store(0) }
}

// wait waits until a number of lines and bytes may be read.
func (p *pace) wait(ctx context.Context, lines, size int) error {
	for {
		perSecond, most := rate.Limit(linesWhileIdle), rate.Limit(bytesWhileIdle)
		if p.busy() || time.Now().UnixNano() < p.listing.Load() {
			perSecond, most = linesPerSecond, bytesPerSecond
		}
		p.lines.SetLimit(perSecond)
		p.bytes.SetLimit(most)
		step := min(lines, idleStep)
		if err := p.lines.WaitN(ctx, step); err != nil {
			return err
		}
		if err := p.bytes.WaitN(ctx, min(size, bytesAtOnce)); err != nil {
			return err
		}
		if lines, size = lines-step, 0; lines == 0 {
			return nil
		}
	}
}

// of reads r, whose messages end with lines, no faster than the limits.
func (p *pace) of(ctx context.Context, r io.ReadCloser) io.ReadCloser { return &paced{r, ctx, p} }

type paced struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // of the server's run, or of the request
	pace *pace
}

// Read implements [io.Reader].
func (p *paced) Read(data []byte) (int, error) {
	n, err := p.ReadCloser.Read(data)
	if slow := p.pace.wait(p.ctx, bytes.Count(data[:n], []byte{'\n'}), n); slow != nil {
		return n, slow // the run has ended
	}
	return n, err
}
