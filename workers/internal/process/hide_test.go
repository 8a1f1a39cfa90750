package process

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// TestHide: what a command prints, and what is shown of it, in one read and in reads of one byte.
func TestHide(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	runtest.NoError(t, err)
	dir, link := filepath.Join(top, "app"), filepath.Join(top, "link")
	runtest.NoError(t, os.Symlink(dir, link))
	runtest.NoError(t, os.Mkdir(dir, 0o700))
	c := Command{In: plugin.Environment{Dir: link, Variables: map[string]string{"TOKEN": "abc-secret", "LONGER": "abc-secret-long", "SHORT": "abc"}}}
	for printed, want := range map[string]string{
		"":                              "",
		"nothing to hide\n":             "nothing to hide\n",
		"abc-secret":                    "[TOKEN]",
		"x=abc-secret\n":                "x=[TOKEN]\n",
		"abc-secret-long abc-secret-lo": "[LONGER] [TOKEN]-lo",
		"abcabc-secretabc-secret":       "abc[TOKEN][TOKEN]",
		"abc-secre abc":                 "abc-secre abc",
		dir:                             ".",
		link + "/a " + dir + "/b":       "./a ./b",
		dir + "\n" + dir + ".":          ".\n..",
		dir + "lication /mnt" + dir:     dir + "lication /mnt" + dir,
		"file://" + dir + "/x:" + dir:   "file://./x:.",
		dir + dir:                       "." + dir,
		"ü" + dir:                       "ü" + dir,
	} {
		for name, from := range map[string]io.Reader{"whole": strings.NewReader(printed), "bytes": iotest.OneByteReader(strings.NewReader(printed))} {
			var got []byte
			newHider(&c).reading(func(r io.Reader) { got, _ = io.ReadAll(r) })(from)
			if string(got) != want {
				t.Errorf("%q, %s: got %q, want %q", printed, name, got, want)
			}
		}
	}
	if newHider(&Command{In: plugin.Environment{Variables: map[string]string{"SHORT": "abc"}, Dir: "/"}}) != nil {
		t.Error("nothing to hide: got a hider")
	}
	c.Dir, c.Place = filepath.Join(dir, "none"), "x"
	if _, err := Start(t.Context(), c, func(io.Reader) {}, nil); err == nil || strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "./none") {
		t.Errorf("a directory that is not there: got %v, want ./none", err)
	}
}

// TestHideEarly: what cannot begin a hidden text is passed on before the next read.
func TestHideEarly(t *testing.T) {
	t.Parallel()
	from, to := io.Pipe()
	lines := make(chan string)
	go newHider(&Command{In: plugin.Environment{Variables: map[string]string{"TOKEN": "secret"}}}).reading(func(r io.Reader) {
		buf := make([]byte, 64)
		for {
			n, err := r.Read(buf)
			if err != nil {
				close(lines)
				return
			}
			lines <- string(buf[:n])
		}
	})(from)
	for _, c := range []struct{ write, want string }{{"one\n", "one\n"}, {"two sec", "two "}, {"ond", "second"}} {
		_, err := io.WriteString(to, c.write)
		runtest.NoError(t, err)
		if got := <-lines; got != c.want {
			t.Errorf("after %q: got %q, want %q", c.write, got, c.want)
		}
	}
	runtest.NoError(t, to.Close())
	if _, more := <-lines; more {
		t.Error("at the end: got more")
	}
}
