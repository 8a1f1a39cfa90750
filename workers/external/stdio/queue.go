package stdio

import (
	"io"
	"sync"
)

// maxQueued limits the bytes that wait for a program that does not read its input.
const maxQueued = 64 << 20

// queue has the lines that a program has not read yet.
type queue struct {
	ready chan struct{} // has an element after a change

	mu    sync.Mutex
	lines [][]byte
	bytes int
	ended bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// put adds a line. It returns false where too much waits. A line after [queue.end] is dropped.
func (q *queue) put(line []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return true
	}
	q.lines, q.bytes = append(q.lines, line), q.bytes+len(line)
	q.changedLocked()
	return q.bytes <= maxQueued
}

// end closes the program's input after the lines that wait.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changedLocked()
}

func (q *queue) changedLocked() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *queue) take() (lines [][]byte, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines, q.lines = q.lines, nil
	return lines, q.ended
}

// write writes lines to the input, until the queue ends, the program has gone, or its input is closed.
func (q *queue) write(to io.WriteCloser, gone <-chan struct{}) {
	defer to.Close() //nolint:errcheck // the program may have ended
	for {
		lines, ended := q.take()
		for _, line := range lines {
			if _, err := to.Write(line); err != nil {
				return
			}
			q.written(len(line))
		}
		if ended {
			return
		}
		select {
		case <-q.ready:
		case <-gone:
			return
		}
	}
}

func (q *queue) written(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
}
