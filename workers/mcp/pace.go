package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Lines that are read of a server in a second, and at once, and their bytes. One that sends more waits: its pipe or its connection is
// not read. While no call runs it has little to say, and what it sends would cost the calls of other servers.
const (
	linesPerSecond = 2000
	bytesPerSecond = 64 << 20
	linesWhileIdle = 100
	bytesWhileIdle = 4 << 20
	linesAtOnce    = 4000
	bytesAtOnce    = 64 << 20
)

// speed is what is read in a second.
type speed struct{ lines, bytes rate.Limit }

// idleStep is the most lines that one wait takes: a call that starts waits for so many at the pace of an idle server.
const idleStep = 20

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
	lines, bytes *rate.Limiter
	speed        func() speed // now
	busy         func() bool  // a call runs
	listing      atomic.Int64 // until when a list is read as fast as the answers to calls, in Unix nanoseconds
}

// newPace makes the pace of a server, of which calls are busy or not.
func newPace(busy func() bool) *pace {
	p := &pace{lines: rate.NewLimiter(0, linesAtOnce), bytes: rate.NewLimiter(0, bytesAtOnce), busy: busy}
	p.speed = func() speed {
		if busy() || time.Now().UnixNano() < p.listing.Load() {
			return speed{linesPerSecond, bytesPerSecond}
		}
		return speed{linesWhileIdle, bytesWhileIdle}
	}
	return p
}

// listTime is how long a list that the client asked for is read as fast as the answers to calls: 24 000 lines. A server that sends other
// messages in place of the list is read slowly after it.
const listTime = 10 * time.Second

// list begins the read of a list, until the returned function is called.
func (p *pace) list() (end func()) {
	p.listing.Store(time.Now().Add(listTime).UnixNano())
	return func() { p.listing.Store(0) }
}

// wait waits until a number of lines and bytes may be read.
func (p *pace) wait(ctx context.Context, lines, size int) error {
	for {
		now := p.speed()
		p.lines.SetLimit(now.lines)
		p.bytes.SetLimit(now.bytes)
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
func (p *pace) of(ctx context.Context, r io.ReadCloser) *paced {
	return &paced{ReadCloser: r, ctx: ctx, pace: p}
}

// paced is a reader with a pace.
type paced struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the server's run, or of the request
	*pace
	whole bool // what is read is one message, and counts as a line
	read  bool // some of it
}

// Read implements [io.Reader].
func (p *paced) Read(data []byte) (int, error) {
	n, err := p.ReadCloser.Read(data)
	lines := bytes.Count(data[:n], []byte{'\n'})
	if p.whole {
		lines = 0
		if !p.read {
			lines, p.read = 1, true
		}
	}
	if slow := p.wait(p.ctx, lines, n); slow != nil {
		return n, slow // the run has ended
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
