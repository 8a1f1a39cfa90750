package task

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/task"
)

// lineCut marks a line that is longer than an event allows.
const lineCut = " [cut: the line is longer than 64 KiB]"

// readLines sends lines that are not blank. It cuts lines that are too long, and marks them.
func readLines(ctx context.Context, from io.Reader, stderr bool, to chan<- task.Line) {
	in := bufio.NewReaderSize(from, 4<<10)
	const maxText = events.MaxMonitorLine - len(lineCut)
	var line []byte
	cut := false
	for {
		piece, err := in.ReadSlice('\n')
		take := min(len(piece), maxText+1-len(line))
		line, cut = append(line, piece[:take]...), cut || take < len(piece)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		text := strings.TrimSpace(strings.ToValidUTF8(string(line), "?"))
		if cut || len(text) > maxText {
			text = strings.ToValidUTF8(text[:min(len(text), maxText)], "") + lineCut
		}
		if text != "" {
			select {
			case to <- task.Line{Text: text, Stderr: stderr}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
		line, cut = line[:0], false
	}
}
