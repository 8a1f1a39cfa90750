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
	r     *bufio.Reader
	limit int    // bytes of a line without its ending
	n     int    // number of the last line, from 1; 0 before the first
	buf   []byte // last line
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next line that is not blank, without its ending, or io.EOF. The line is valid until the next call.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		if l.n == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			return line, nil
		}
	}
}

func (l *lines) read() ([]byte, error) {
	l.buf = l.buf[:0]
	l.n++
	for {
		chunk, err := l.r.ReadSlice('\n')
		l.buf = append(l.buf, chunk...)
		if len(bytes.TrimRight(l.buf, "\r\n")) > l.limit {
			return nil, fmt.Errorf("line longer than %d bytes", l.limit)
		}
		switch {
		case err == nil:
			return l.buf, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.buf) > 0:
			return l.buf, nil // the next call returns io.EOF again
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("read: %w", err)
		}
	}
}

// whole is the object that begins with a line and has all others, too: people indent what programs write as one line. Errors: cause, where
// there is none.
func (l *lines) whole(begin []byte, cause error) ([]byte, object, error) {
	first, all := l.n, bytes.Clone(begin)
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			o, err := parseLine(all)
			if err == nil {
				return all, o, nil
			}
			l.n = first
			return nil, nil, cause
		}
		if err != nil || len(all) > l.limit {
			l.n = first
			return nil, nil, cause
		}
		all = append(append(all, '\n'), line...)
	}
}
