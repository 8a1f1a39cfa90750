package files

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// longLine matches a line of which only the beginning fits the buffer, while it reads the rest.
func (s *searching) longLine(ctx context.Context, in *bufio.Reader, begin []byte) (shown string, found bool, err error) {
	rest := &restOfLine{ctx: ctx, in: in}
	defer func() { s.read += int64(len(begin)) + rest.size }()
	begin = slices.Clone(begin) // the next read overwrites it
	line := &textRunes{in: bufio.NewReader(norm.NFC.Reader(io.MultiReader(bytes.NewReader(begin), rest)))}
	at := s.pattern.FindReaderIndex(line)
	_, err = io.Copy(io.Discard, rest)
	switch {
	case err != nil:
		return "", false, err
	case line.binary:
		return "", false, errNoText
	case at == nil:
		return "", false, nil
	}
	return fmt.Sprintf("%s [the line is long, it matches at byte %d]", wholeRunes(begin[:maxLine]), at[0]+1), true, nil
}

// restOfLine reads to the end of a line, which it leaves out.
type restOfLine struct {
	ctx   context.Context //nolint:containedctx // the pattern's match calls Read
	in    *bufio.Reader
	ended bool
	size  int64
}

func (r *restOfLine) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.ended || len(p) == 0 {
		return 0, io.EOF
	}
	if _, err := r.in.Peek(1); err != nil {
		return 0, err
	}
	data, _ := r.in.Peek(min(len(p), r.in.Buffered())) // never fails: it is there
	n := bytes.IndexByte(data, '\n')
	if r.ended = n >= 0; !r.ended {
		n = len(data)
	}
	copy(p, data[:n])
	skip := n
	if r.ended {
		skip++
	}
	_, _ = r.in.Discard(skip) // likewise
	r.size += int64(skip)
	return n, nil
}

// textRunes are the characters of a line, without a CR at its end. They end where the line is no text.
type textRunes struct {
	in     *bufio.Reader
	binary bool
}

func (t *textRunes) ReadRune() (rune, int, error) {
	r, n, err := t.in.ReadRune()
	switch {
	case err != nil:
	case r == 0, r == utf8.RuneError && n == 1:
		t.binary = true
		return 0, 0, io.EOF
	case r == '\r':
		if _, last := t.in.Peek(1); last != nil {
			return 0, 0, io.EOF
		}
	}
	return r, n, err
}
