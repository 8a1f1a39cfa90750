package files

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/session/plugin"
)

type readRequest struct {
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty" jsonschema:"the first line to read, from 1"`
	Lines int    `json:"lines,omitempty" jsonschema:"how many lines"`
}

func (r readRequest) path() string { return r.Path }

// read shows lines of a file. It reads the rest too, to count the lines and to know the version of the file, unless the file is
// above [Config.MaxSearched].
func (f *files) read(ctx context.Context, t *target, _ plugin.Call, in readRequest) (string, error) {
	dir, err := t.open(t.root, path.Dir(t.place), 0)
	if err != nil {
		return "", err
	}
	defer dir.Close() //nolint:errcheck // it is only read
	file, info, err := openFile(dir, t.base())
	if err != nil {
		return "", t.failed(err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	sum := sha256.New()
	got := excerpt{from: max(in.Line-1, 0), most: in.Lines, bytes: f.MaxShown}
	huge := info.Size() > f.MaxSearched
	for lines := bufio.NewReaderSize(io.TeeReader(file, sum), 64<<10); ; {
		piece, err := lines.ReadSlice('\n')
		got.add(piece)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return "", t.failed(err)
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) {
			got.add(nil)
			huge = false
			break
		}
		if huge && got.full() {
			break
		}
	}
	if got.from > 0 && got.shown == 0 {
		return "", plugin.InvalidArgs("line: %d, the file has %d lines", in.Line, got.lines)
	}
	if !isText(got.text) {
		return "", t.failed(errNoText)
	}
	text := string(got.text)
	switch last := got.from + got.shown; {
	case huge:
		return fmt.Sprintf("%s\n[lines %d to %d of %d bytes]", strings.TrimSuffix(text, "\n"), got.from+1, last, info.Size()), nil
	case got.from > 0 || last < got.lines:
		f.remember(t.place, short(sum), got.size, "")
		return fmt.Sprintf("%s\n[lines %d to %d of %d]", strings.TrimSuffix(text, "\n"), got.from+1, last, got.lines), nil
	}
	f.remember(t.place, short(sum), got.size, text)
	return text, nil
}

// excerpt collects lines while a file is read piece by piece.
type excerpt struct {
	from  int   // the first line, from 0
	most  int   // of lines; 0: no limit
	bytes int64 // limit of text. The first line is cut there; lines that do not fit are left out

	text  []byte
	shown int   // lines in text
	lines int   // of the file, so far
	size  int64 // likewise, in bytes
	line  []byte
	long  int64 // bytes of the line that has begun
	over  bool  // a line did not fit
}

// full reports whether no more text will be added.
func (e *excerpt) full() bool { return e.over || e.most > 0 && e.shown == e.most }

// add takes the next bytes, of one line at most. Without any, the file has ended.
func (e *excerpt) add(piece []byte) {
	e.size += int64(len(piece))
	e.long += int64(len(piece))
	wanted := e.lines >= e.from && !e.full()
	if wanted {
		e.line = append(e.line, piece[:min(int64(len(piece)), max(e.bytes+1-int64(len(e.line)), 0))]...)
	}
	if e.long == 0 || len(piece) > 0 && !bytes.HasSuffix(piece, []byte("\n")) {
		return
	}
	e.lines++
	if wanted {
		e.end()
	}
	e.line, e.long = e.line[:0], 0
}

// end takes the line that has ended.
func (e *excerpt) end() {
	switch {
	case int64(len(e.text))+e.long <= e.bytes:
		e.text = append(e.text, e.line...)
	case e.shown > 0:
		e.over = true
		return
	default:
		e.text = append(wholeRunes(e.line[:e.bytes]), " [the line is cut]\n"...)
		e.over = true
	}
	e.shown++
}

// wholeRunes leaves out a character that is cut at the end.
func wholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			return text[:i]
		}
	}
	return text
}
