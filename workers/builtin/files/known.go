package files

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/lash-go/lash/session/plugin"
)

// version is a file as the session read or wrote it last. The history has the versions, so every node knows them.
type version struct {
	Place string `json:"place"`
	Sum   string `json:"sum"`
	Size  int64  `json:"size"`
}

// maxKnown limits the files of a session whose versions are known: those that it read or wrote last.
const maxKnown = 64

func short(sum hash.Hash) string { return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:12]) }

func sumOf(text string) string {
	sum := sha256.New()
	_, _ = io.WriteString(sum, text) // never fails
	return short(sum)
}

// known is the version that the session knows; nil without one.
func (f *files) known(place string) *version {
	list := f.Load()
	if at := slices.IndexFunc(list, func(v version) bool { return v.Place == place }); at >= 0 {
		return &list[at]
	}
	return nil
}

// remember records a version. text is empty where the session did not read all of it.
func (f *files) remember(place, sum string, size int64, text string) {
	if size == int64(len(text)) && size <= f.MaxShown {
		f.texts.keep(sum, text)
	}
	if was := f.known(place); was != nil && was.Sum == sum {
		return
	}
	f.Update(func(list *[]version) { // a new list: what Load returned is being read
		next := slices.DeleteFunc(slices.Clone(*list), func(v version) bool { return v.Place == place })
		next = append(next, version{place, sum, size})
		*list = next[max(0, len(next)-maxKnown):]
	})
}

// unchanged refuses to replace a file that is not as the session knows it. A file that it never read may be replaced.
func (t *target) unchanged(ctx context.Context, dir *os.Root) error {
	was := t.known(t.place)
	if was == nil {
		return nil
	}
	file, info, err := openFile(dir, t.base())
	if err != nil {
		return t.failed(err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	sum := sha256.New()
	if _, err := io.Copy(sum, readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return file.Read(p)
	})); err != nil {
		return t.failed(err)
	}
	if short(sum) == was.Sum {
		return nil
	}
	what := fmt.Sprintf("it had %d bytes, it has %d", was.Size, info.Size())
	if before, ok := t.texts.of(was.Sum); ok {
		if now, _, err := t.load(dir, t.base(), t.MaxBytes); err == nil {
			what += difference(before, now)
		}
	}
	return plugin.InvalidArgs("path: %s changed after this session read it: %s\nRead it again, then write what is to stand there", t.name, what)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// maxDifference limits the lines of each side in a difference.
const maxDifference = 20

// difference shows the lines between the first and the last that differ.
func difference(before, now string) string {
	was, is := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(now))
	same := 0
	for same < min(len(was), len(is)) && was[same] == is[same] {
		same++
	}
	was, is = was[same:], is[same:]
	for len(was) > 0 && len(is) > 0 && was[len(was)-1] == is[len(is)-1] {
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "; from line %d:", same+1)
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"-", was}, {"+", is}} {
		for i, line := range side.lines {
			if i == maxDifference {
				fmt.Fprintf(&b, "\n%s [%d more]", side.sign, len(side.lines)-i)
				break
			}
			line = strings.TrimRight(line, "\r\n")
			b.WriteString("\n" + side.sign + strings.ToValidUTF8(line[:min(len(line), maxLine)], ""))
		}
	}
	return b.String()
}

// texts are the last texts that this process read or wrote, by their sums. With the text a refusal can show what changed.
type texts struct {
	mu   sync.Mutex
	list []keptText
}

type keptText struct{ sum, text string }

func (k *texts) keep(sum, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.DeleteFunc(k.list, func(t keptText) bool { return t.sum == sum })
	if len(k.list) == maxKnown {
		k.list = slices.Delete(k.list, 0, 1)
	}
	k.list = append(k.list, keptText{sum, text})
}

func (k *texts) of(sum string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := slices.IndexFunc(k.list, func(t keptText) bool { return t.sum == sum })
	if at < 0 {
		return "", false
	}
	return k.list[at].text, true
}
