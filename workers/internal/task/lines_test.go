package task

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/task"
)

// TestReadLines splits an output into lines that an event can have.
func TestReadLines(t *testing.T) {
	t.Parallel()
	const room = events.MaxMonitorLine - len(lineCut)
	long := strings.Repeat("x", room)
	for what, c := range map[string]struct {
		in   string
		want []string
	}{
		"none":      {"", nil},
		"two":       {"a\nb\n", []string{"a", "b"}},
		"unended":   {"a\nb", []string{"a", "b"}},
		"blank":     {"\n \t\n\na\n\n", []string{"a"}},
		"spaces":    {"  a  b \r\n", []string{"a  b"}},
		"notUTF8":   {"a\xff\xfeb\n", []string{"a?b"}},
		"full":      {long + "\na\n", []string{long, "a"}},
		"tooLong":   {long + "y\na\n", []string{long + lineCut, "a"}},
		"veryLong":  {strings.Repeat("z", 5*events.MaxMonitorLine) + "\na\n", []string{strings.Repeat("z", room) + lineCut, "a"}},
		"cutInRune": {long[1:] + "é\na\n", []string{long[1:] + lineCut, "a"}},
	} {
		for _, from := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			lines := make(chan task.Line, 10)
			readLines(t.Context(), from, true, lines)
			close(lines)
			var texts []string
			for l := range lines {
				texts = append(texts, l.Text)
				if !l.Stderr || len(l.Text) > events.MaxMonitorLine {
					t.Errorf("%s: got a line of %d bytes, stderr %v", what, len(l.Text), l.Stderr)
				}
			}
			if !slices.Equal(texts, c.want) {
				t.Errorf("%s: got %.80q, want %.80q", what, texts, c.want)
			}
		}
	}
}

// TestReadLinesEnds returns when nothing takes the lines and the context ends.
func TestReadLinesEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { readLines(ctx, strings.NewReader("a\nb\n"), false, make(chan task.Line)); close(ended) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("got an end before the line was taken")
		default:
		}
		cancel()
		<-ended
	})
}

// TestGather joins lines until the time, the number or the size of a commit is reached.
func TestGather(t *testing.T) {
	t.Parallel()
	full := task.Line{Text: strings.Repeat("x", events.MaxMonitorLine)}
	for what, c := range map[string]struct {
		send    []task.Line
		open    bool // no more lines, and the channel stays open
		batch   int
		pending bool
		took    time.Duration
	}{
		"alone":  {nil, true, 1, false, gatherFor},
		"closed": {make([]task.Line, 3), false, 4, false, 0},
		"some":   {make([]task.Line, 3), true, 4, false, gatherFor},
		"many":   {make([]task.Line, gatherLines+5), true, gatherLines, false, 0},
		"large":  {[]task.Line{full, full, {Text: "over"}}, true, events.MaxMonitorBatch / events.MaxMonitorLine, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			lines := make(chan task.Line, gatherLines+5)
			for _, l := range c.send {
				lines <- l
			}
			if !c.open {
				close(lines)
			}
			began := time.Now()
			batch, next, pending := gather(full, lines)
			if len(batch) != c.batch || batch[0] != full || pending != c.pending || time.Since(began) != c.took {
				t.Errorf("%s: got %d lines, pending %v, after %v, want %d, %v, %v", what, len(batch), pending, time.Since(began), c.batch, c.pending, c.took)
			}
			if pending && next.Text != "over" {
				t.Errorf("%s: got %.20q for the next batch, want the line that does not fit", what, next.Text)
			}
		})
	}
}
