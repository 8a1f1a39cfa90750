package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLineBytes is the longest line that [Read] accepts, without its ending.
const maxLineBytes = 64 << 20

const byteOrderMark = "\xef\xbb\xbf"

// lines splits a file into lines.
type lines struct {
	s     *bufio.Scanner
	limit int // bytes of a line without its ending
	n     int // number of the last line, from 1; 0 before the first
}

func newLines(r io.Reader, limit int) *lines {
	l := &lines{s: bufio.NewScanner(r), limit: limit}
	l.s.Buffer(nil, limit+len("\r\n")+1)
	return l
}

// next returns the next line that is not blank, without its ending, or io.EOF. The line is valid until the next call.
func (l *lines) next() ([]byte, error) {
	for l.n++; l.s.Scan(); l.n++ {
		line := l.s.Bytes()
		if len(line) > l.limit {
			return nil, l.tooLong()
		}
		if l.n == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			return line, nil
		}
	}
	switch err := l.s.Err(); {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, l.tooLong()
	default:
		return nil, fmt.Errorf("read: %w", err)
	}
}

func (l *lines) tooLong() error { return fmt.Errorf("line longer than %d bytes", l.limit) }

// whole is the object that begins with a line and has all others, too: people indent what programs write as one line. Errors: cause, where
// there is none.
func (l *lines) whole(begin []byte, cause error) ([]byte, object, error) {
	first, all := l.n, bytes.Clone(begin)
	for line, err := l.next(); err == nil && len(all) <= l.limit; line, err = l.next() {
		all = append(append(all, '\n'), line...)
	}
	if all, o, err := parseLine(all); err == nil {
		return all, o, nil
	}
	l.n = first
	return nil, nil, cause
}
