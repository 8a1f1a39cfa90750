package process

import (
	"bufio"
	"bytes"
	"io"
)

// maxLine limits a line of [Lines].
const maxLine = 8 << 10

// Lines calls note with each line that a command prints, as valid UTF-8, without the rest of one of more than 8 KiB.
func Lines(r io.Reader, note func(line string)) {
	in := bufio.NewReaderSize(r, maxLine)
	for rest := false; ; {
		line, prefix, err := in.ReadLine()
		if err != nil {
			return
		}
		if !rest {
			note(string(bytes.ToValidUTF8(line, []byte("\uFFFD"))))
		}
		rest = prefix
	}
}
