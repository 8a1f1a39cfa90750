package chat

import (
	"bytes"
	"os"
)

// ahead reads a terminal that received lines before the program read it key by key. Until then the terminal turns
// enter into a line feed. The first read has all those lines, and turns their line feeds back into enter. Later a line
// feed is ctrl-j.
type ahead struct {
	*os.File
	read bool
}

func (a *ahead) Read(p []byte) (int, error) {
	n, err := a.File.Read(p)
	if !a.read && n > 0 {
		a.read = true
		copy(p, bytes.ReplaceAll(p[:n], []byte("\n"), []byte("\r")))
	}
	return n, err
}
