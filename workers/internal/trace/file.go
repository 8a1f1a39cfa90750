package trace

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

// Limits of a [File].
const (
	maxLine    = 256 << 10 // bytes of one line; longer ones are dropped
	maxLines   = 4096      // lines in the queue; more are dropped
	maxBytes   = 8 << 20   // bytes in the queue; more are dropped
	writeBytes = 64 << 10  // bytes of one write, roughly
	warnEvery  = 10 * time.Second
)

// File writes a trace as lines of JSON, one [api.TraceRecord] each. Each write has whole lines, so that several
// processes may append to one file and a reader may follow it. A line may be empty: a process that opens the file
// during another's write cannot tell that write from one that was cut off, and ends the line.
//
// It does not block its callers. It drops and counts a line that cannot be written, or that arrives while the queue
// is full, and logs a warning. Its methods may be called concurrently.
type File struct {
	to   io.Writer
	log  *zap.Logger
	torn bool // the last write ended within a line

	mu      sync.RWMutex
	closed  bool         // under mu
	lines   chan []byte  // under mu to send; closed with it
	waiting atomic.Int64 // bytes in lines
	lost    atomic.Int64
	warned  atomic.Int64 // time of the last warning, unix nanoseconds
	done    chan struct{}
}

// OpenFile appends to a file, and creates it if it does not exist.
func OpenFile(path string, log *zap.Logger) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	t := newFile(f, log)
	last := make([]byte, 1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		_, err = f.ReadAt(last, info.Size()-1)
		t.torn = err == nil && last[0] != '\n' // a process was killed during a write
	}
	go t.writeLines()
	return t, nil
}

// NewFile writes to any writer. [File.Close] closes a writer that is an [io.Closer]. A nil logger logs nothing.
func NewFile(to io.Writer, log *zap.Logger) *File {
	t := newFile(to, log)
	go t.writeLines()
	return t
}

func newFile(to io.Writer, log *zap.Logger) *File {
	if log == nil {
		log = zap.NewNop()
	}
	return &File{
		to: to, log: log.Named("trace"),
		lines: make(chan []byte, maxLines), done: make(chan struct{}),
	}
}

// Trace writes a record. It is a [session.TraceFunc].
func (t *File) Trace(r api.TraceRecord) {
	line, err := json.Marshal(r)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("the line has %d bytes, limit is %d", len(line), maxLine)
	}
	if err == nil {
		err = t.send(append(line, '\n'))
	}
	if err != nil {
		t.lose(1, err)
	}
}

// send puts a line into the queue, if it fits.
func (t *File) send(line []byte) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return errClosed
	}
	if t.waiting.Add(int64(len(line))) <= maxBytes {
		select {
		case t.lines <- line:
			return nil
		default:
		}
	}
	t.waiting.Add(-int64(len(line)))
	return errBehind
}

var (
	errClosed = errors.New("the trace is closed")
	errBehind = errors.New("writing is slower than what is traced")
)

// Lost counts the lines that were not written.
func (t *File) Lost() int64 { return t.lost.Load() }

// lose counts dropped lines, and logs a warning every [warnEvery] at most.
func (t *File) lose(n int64, err error) {
	total, now, last := t.lost.Add(n), time.Now().UnixNano(), t.warned.Load()
	if now-last >= int64(warnEvery) && t.warned.CompareAndSwap(last, now) {
		t.log.Warn("trace lines are lost", zap.Int64("lost", total), zap.Error(err))
	}
}

// writeLines writes until the file is closed and the queue is empty.
func (t *File) writeLines() {
	defer close(t.done)
	for line := range t.lines {
		t.write(line)
	}
}

// write writes a line, with those that are already in the queue.
func (t *File) write(first []byte) {
	var all []byte
	if t.torn {
		all = append(all, '\n')
	}
	begin := len(all)
	all = append(all, first...)
	t.waiting.Add(-int64(len(first)))
	for more := true; more && len(all) < writeBytes; {
		select {
		case line := <-t.lines: // nil if it is closed
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

// Close writes the lines in the queue and ends the trace. If ctx ends first, it drops the rest and returns the cause.
func (t *File) Close(ctx context.Context) error {
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
		err = errors.Join(err, c.Close()) // ends a write that hangs, if the system can
	}
	if lost := t.Lost(); lost > 0 {
		t.log.Warn("trace has ended", zap.Int64("lost", lost))
	}
	if err != nil {
		err = fmt.Errorf("close trace: %w", err)
	}
	return err
}
