package files

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/lash-go/lash/session/plugin"
)

// maxEdited limits a file that is edited, which is in memory as a whole.
const maxEdited = 64 << 20

type editRequest struct {
	Path string `json:"path"`
	Old  string `json:"old" jsonschema:"what stands there, exactly once"`
	New  string `json:"new"`
}

func (r editRequest) path() string { return r.Path }

func (f *files) edit(_ context.Context, t *target, call plugin.Call, in editRequest) (string, error) {
	if in.Old == "" {
		return "", plugin.InvalidArgs("old: is empty")
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	if t.isLink() {
		return "", t.failed(errors.New("is a link: edit what it leads to"))
	}
	dir, err := t.open(t.root, path.Dir(t.place), 0)
	if err != nil {
		return "", err
	}
	defer dir.Close() //nolint:errcheck // what is written is synchronized
	text, info, err := t.load(dir, t.base(), maxEdited)
	if err != nil {
		return "", err
	}
	if err := t.mayWrite(dir, info); err != nil {
		return "", err
	}
	from, to, n := find(text, in.Old)
	if n != 1 {
		return "", plugin.InvalidArgs("old: stands %d times in %s, want once", n, t.name)
	}
	edited := text[:from] + withEnds(in.New, in.Old, text, from, to) + text[to:]
	if edited == text && in.New != in.Old {
		return "", plugin.InvalidArgs("new: differs from what stands there by the ends of lines alone, which an edit keeps: write_file changes them")
	}
	lost, err := t.store(dir, edited, digest(call), info)
	if err != nil {
		return "", err
	}
	if was := f.known(t.place); was == nil || was.Sum == sumOf(text) { // otherwise a write over it would lose what else changed
		f.remember(t.place, sumOf(edited), int64(len(edited)), edited)
	}
	return fmt.Sprintf("%s is changed at line %d%s", t.name, 1+strings.Count(fold(text[:from]), "\n"), lost), nil
}

// find is where a text stands in another one, and how often. Texts are the same whatever their normal form and the ends of their
// lines are; the end of the file ends a line too. A text that begins or ends within a character is not found.
func find(text, old string) (from, to, count int) {
	in, what := fold(text), fold(old)
	count = places(in, what)
	at := strings.Index(in, what)
	if last, ok := strings.CutSuffix(what, "\n"); count == 0 && ok && last != "" && strings.HasSuffix(in, last) {
		what, at, count = last, len(in)-len(last), 1
	}
	if count != 1 {
		return 0, 0, count
	}
	if from, to = unfold(text, at), unfold(text, at+len(what)); from < 0 || to < 0 {
		return 0, 0, 0
	}
	return from, to, 1
}

// places counts where a text stands in another one, overlapping itself too.
func places(in, what string) (n int) {
	for at := strings.Index(in, what); at >= 0 && what != ""; n++ {
		in = in[at+1:]
		at = strings.Index(in, what)
	}
	return n
}

// fold is a text in the form in which texts are compared: NFC, and lines that end with LF.
func fold(text string) string {
	return lineFeeds(norm.NFC.String(text))
}

// unfold is the place in a text of a place in its [fold]; -1 within what differs.
func unfold(text string, place int) int {
	at, folded := 0, 0
	for at < len(text) && folded < place {
		n := 1
		switch {
		case strings.HasPrefix(text[at:], "\r\n"):
			n = 2
			folded++
		case text[at] < utf8.RuneSelf && (at+1 == len(text) || text[at+1] < utf8.RuneSelf):
			folded++
		default:
			n = norm.NFC.NextBoundaryInString(text[at:], true)
			piece := text[at : at+n]
			if folded+n > place && norm.NFC.IsNormalString(piece) {
				return at + place - folded
			}
			folded += len(norm.NFC.String(piece))
		}
		at += n
	}
	if folded != place {
		return -1
	}
	return at
}

// lineFeeds is a text with every end of a line as LF.
func lineFeeds(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// withEnds is what takes the place of an old text in a file: each of its lines ends as the same line of the old text does there,
// and further ones as the last or the nearest one. The end of the file without an end of line stays so.
func withEnds(text, old, in string, from, to int) string {
	there := in[from:to]
	if strings.HasSuffix(lineFeeds(old), "\n") && !strings.HasSuffix(lineFeeds(there), "\n") {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	ends := endsOf(there)
	if len(ends) == 0 {
		ends = nearestEnd(in, from)
	}
	if len(ends) == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(lineFeeds(text)) {
		line, ended := strings.CutSuffix(line, "\n")
		b.WriteString(line)
		if ended {
			b.WriteString(ends[0])
			ends = ends[min(1, len(ends)-1):]
		}
	}
	return b.String()
}

// endsOf are the ends of the lines of a text.
func endsOf(text string) (ends []string) {
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "\r\n"):
			ends = append(ends, "\r\n")
			i++
		case text[i] == '\r' || text[i] == '\n':
			ends = append(ends, text[i:i+1])
		}
	}
	return ends
}

// nearestEnd is the end of the line at a place, or of the one before it. CR alone counts only in files without LF, because many
// programs print it within lines.
func nearestEnd(in string, from int) []string {
	end := strings.IndexByte(in[from:], '\n')
	if end += from; end < from {
		end = strings.LastIndexByte(in[:from], '\n')
	}
	switch {
	case end < 0 && !strings.Contains(in, "\r"):
		return nil
	case end < 0:
		return []string{"\r"}
	case end > 0 && in[end-1] == '\r':
		return []string{"\r\n"}
	}
	return []string{"\n"}
}
