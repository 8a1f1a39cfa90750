package chat

import (
	"bytes"
	"os"
)

// ahead is a terminal that lines may have been typed in before it is read key by key. Until then it makes a line feed of enter: in the
// first read, which has all that was typed by then, it is enter again. From then on a line feed is ctrl-j.
type ahead struct {
	*os.File
	read bool
}

// Read implements [io.Reader].
func (a *ahead) Read(p []byte) (int, error) {
	n, err := a.File.Read(p)
	if !a.read && n > 0 {
		a.read = true
		copy(p, bytes.ReplaceAll(p[:n], []byte("\n"), []byte("\r")))
	}
	return n, err
}
