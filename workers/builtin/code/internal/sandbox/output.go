package sandbox

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// output keeps the head and the tail of a text.
type output struct {
	limit int64
	head  []byte
	tail  []byte // at most twice half of limit; its end counts
	total int64
}

func (o *output) half() int { return int(max(o.limit/2, 1)) }

func (o *output) write(s string) {
	o.total += int64(len(s))
	if n := min(o.half()-len(o.head), len(s)); n > 0 {
		o.head = append(o.head, s[:n]...)
		s = s[n:]
	}
	half := o.half()
	if len(s) >= half {
		o.tail = append(o.tail[:0], s[len(s)-half:]...)
		return
	}
	o.tail = append(o.tail, s...)
	if len(o.tail) > 2*half {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-half:]...)
	}
}

// text is the kept text, valid UTF-8, and the number of bytes that were cut.
func (o *output) text() (string, int64) {
	head, tail := string(o.head), string(o.tail)
	if len(tail) > o.half() {
		tail = tail[len(tail)-o.half():]
	}
	if int64(len(head)+len(tail)) == o.total {
		return strings.ToValidUTF8(head+tail, "\uFFFD"), 0
	}
	for i := len(head) - 1; i >= 0 && i >= len(head)-utf8.UTFMax; i-- {
		if utf8.RuneStart(head[i]) {
			if !utf8.FullRuneInString(head[i:]) {
				head = head[:i]
			}
			break
		}
	}
	for i := 0; i < utf8.UTFMax && tail != "" && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	cut := o.total - int64(len(head)+len(tail))
	return strings.ToValidUTF8(fmt.Sprintf("%s\n... %d bytes cut ...\n%s", head, cut, tail), "\uFFFD"), cut
}
