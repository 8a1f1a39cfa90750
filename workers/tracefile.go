package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/session/api"
)

// Bounds of a [TraceFile].
const (
	maxTraceLine  = 256 << 10 // bytes of one line; longer ones are lost
	maxTraceLines = 4096      // that wait to be written
	maxTraceBytes = 8 << 20   // likewise; more are lost
	traceWrite    = 64 << 10  // bytes gathered for one write, more or less
	traceWarnings = 10 * time.Second
)

// TraceFile writes a trace as lines of JSON, one [api.TraceRecord] each. Every
// write holds whole lines and nothing is held back, so that several processes
// may append to one file and a reader may follow it.
//
// It keeps nobody waiting: what cannot be written, or comes faster than it is
// written, is lost, counted and warned of.
type TraceFile struct {
	to   io.Writer
	log  *zap.Logger
	torn bool // the last write ended within a line

	mu      sync.RWMutex
	closed  bool         // under mu
	lines   chan []byte  // under mu to send; closed with it
	waiting atomic.Int64 // bytes in lines
	lost    atomic.Int64
	warned  atomic.Int64 // when, unix nanoseconds
	done    chan struct{}
}

// OpenTraceFile appends to a file, which is made where there is none.
func OpenTraceFile(path string, log *zap.Logger) (*TraceFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	t := newTraceFile(f, log)
	last := make([]byte, 1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		_, err = f.ReadAt(last, info.Size()-1)
		t.torn = err == nil && last[0] != '\n' // somebody was killed over it
	}
	go t.run()
	return t, nil
}

// NewTraceFile writes to anything. What is an [io.Closer] too is closed in the end. A nil logger is silent.
func NewTraceFile(to io.Writer, log *zap.Logger) *TraceFile {
	t := newTraceFile(to, log)
	go t.run()
	return t
}

func newTraceFile(to io.Writer, log *zap.Logger) *TraceFile {
	if log == nil {
		log = zap.NewNop()
	}
	return &TraceFile{
		to: to, log: log.Named("trace"),
		lines: make(chan []byte, maxTraceLines), done: make(chan struct{}),
	}
}

// Trace is the [session.TraceFunc] of the file.
func (t *TraceFile) Trace(r api.TraceRecord) {
	line, err := json.Marshal(r)
	if err == nil && len(line) >= maxTraceLine {
		err = fmt.Errorf("the line has %d bytes, limit is %d", len(line), maxTraceLine)
	}
	if err == nil {
		err = t.send(append(line, '\n'))
	}
	if err != nil {
		t.lose(1, err)
	}
}

// send lets a line wait to be written, where there is room.
func (t *TraceFile) send(line []byte) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return errTraceClosed
	}
	if t.waiting.Add(int64(len(line))) <= maxTraceBytes {
		select {
		case t.lines <- line:
			return nil
		default:
		}
	}
	t.waiting.Add(-int64(len(line)))
	return errTraceBehind
}

var (
	errTraceClosed = errors.New("the trace is closed")
	errTraceBehind = errors.New("writing is slower than what is traced")
)

// Lost counts the lines that were not written.
func (t *TraceFile) Lost() int64 { return t.lost.Load() }

// lose counts lines, and warns now and then.
func (t *TraceFile) lose(n int64, err error) {
	total, now, last := t.lost.Add(n), time.Now().UnixNano(), t.warned.Load()
	if now-last >= int64(traceWarnings) && t.warned.CompareAndSwap(last, now) {
		t.log.Warn("trace lines are lost", zap.Int64("lost", total), zap.Error(err))
	}
}

// run writes until the file is closed and nothing waits.
func (t *TraceFile) run() {
	defer close(t.done)
	for line := range t.lines {
		t.write(line)
	}
}

// write writes a line, with those that wait already.
func (t *TraceFile) write(first []byte) {
	var all []byte
	if t.torn {
		all = append(all, '\n')
	}
	begin := len(all)
	all = append(all, first...)
	t.waiting.Add(-int64(len(first)))
	for more := true; more && len(all) < traceWrite; {
		select {
		case line := <-t.lines: // nothing where it is closed
			t.waiting.Add(-int64(len(line)))
			all = append(all, line...)
			more = line != nil
		default:
			more = false
		}
	}
	n, err := t.to.Write(all)
	if err == nil && n < len(all) {
		err = io.ErrShortWrite
	}
	if n > 0 {
		t.torn = all[n-1] != '\n'
	}
	if err != nil {
		t.lose(int64(bytes.Count(all[max(n, begin):], []byte{'\n'})), err)
	}
}

// Close writes what waits and ends the trace. When ctx ends first, what was not
// written is lost and the error says so.
func (t *TraceFile) Close(ctx context.Context) error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.lines)
	}
	t.mu.Unlock()
	var err error
	select {
	case <-t.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		t.lose(int64(len(t.lines)), err)
	}
	if c, ok := t.to.(io.Closer); ok {
		err = errors.Join(err, c.Close()) // which ends a write that hangs, where the system can
	}
	if lost := t.Lost(); lost > 0 {
		t.log.Warn("trace has ended", zap.Int64("lost", lost))
	}
	if err != nil {
		err = fmt.Errorf("close trace: %w", err)
	}
	return err
}
