package process

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Output is what a command printed on both outputs, in the order of the writes.
type Output struct {
	Exit
	Text  string // valid UTF-8
	Bytes int64  // number of all printed bytes
}

// Run runs a command to its end. It keeps maxBytes of the output: the beginning and the end, with a note of the
// missing bytes between.
func Run(ctx context.Context, c Command, maxBytes int) (Output, error) {
	kept := window{half: max(maxBytes/2, 1)}
	read := func(r io.Reader) {
		if c.Show != nil {
			r = io.TeeReader(r, shown(c.Show))
		}
		_, _ = io.Copy(&kept, r) // a pipe that Attend closes has ended
	}
	p, err := Start(ctx, c, read, nil)
	if err != nil {
		return Output{}, err
	}
	exit := p.Attend(ctx)
	return Output{Exit: exit, Text: kept.text(), Bytes: kept.all}, nil
}

// shown is a writer of a function.
type shown func(text string)

func (s shown) Write(data []byte) (int, error) {
	s(string(data))
	return len(data), nil
}

// window keeps the beginning and the end of the written bytes.
type window struct {
	half int
	head []byte
	tail []byte // last bytes: at most half of the limit
	all  int64
}

func (w *window) Write(data []byte) (int, error) {
	w.all += int64(len(data))
	take := min(len(data), w.half-len(w.head))
	w.head = append(w.head, data[:take]...)
	w.tail = append(w.tail, data[take:]...)
	if len(w.tail) > 2*w.half {
		w.tail = append(w.tail[:0], w.tail[len(w.tail)-w.half:]...)
	}
	return len(data), nil
}

func (w *window) text() string {
	tail := w.tail[max(0, len(w.tail)-w.half):]
	text := string(w.head)
	if missing := w.all - int64(len(w.head)+len(tail)); missing > 0 {
		text += fmt.Sprintf("\n[%d bytes are not shown]\n", missing)
	}
	return strings.ToValidUTF8(text+string(tail), "\uFFFD")
}
