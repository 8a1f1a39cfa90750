package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// open builds the plugin of one session in a directory.
func open(t *testing.T, dir string) *files {
	t.Helper()
	factory, err := Factory(Config{Root: dir})
	runtest.NoError(t, err)
	return openAs(t, factory)
}

func openAs(t *testing.T, factory plugin.Factory) *files {
	t.Helper()
	p, err := factory.Build(plugin.BuildContext{})
	runtest.NoError(t, err)
	return p.(*files)
}

func (f *files) calls(t *testing.T) (read func(readRequest) string, write func(path, content string) string, edit func(editRequest) string) {
	t.Helper()
	said := func(out string, err error) string {
		if err != nil {
			return "refused: " + err.Error()
		}
		return out
	}
	return func(r readRequest) string {
			return said(in(f, "read_file", f.read)(t.Context(), plugin.Call{Key: "r"}, r))
		},
		func(path, content string) string {
			return said(in(f, "write_file", f.write)(t.Context(), plugin.Call{Key: "w"}, writeRequest{path, content}))
		},
		func(r editRequest) string {
			return said(in(f, "edit_file", f.edit)(t.Context(), plugin.Call{Key: "e"}, r))
		}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	runtest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	runtest.NoError(t, err)
	return string(data)
}

// TestEditKeepsEndsOfLines edits files with each end of lines by texts with each.
func TestEditKeepsEndsOfLines(t *testing.T) {
	t.Parallel()
	ends := map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"}
	for of, end := range ends {
		for by, asked := range ends {
			t.Run(of+"_by_"+by, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				_, _, edit := open(t, dir).calls(t)
				for _, tc := range []struct{ file, old, new, want string }{
					{"a|b|c|", "a|b", "A|B", "A|B|c|"},
					{"a|b|c|", "a|b|", "A|B|B2|", "A|B|B2|c|"},
					{"a|b|c|", "c", "C|D", "a|b|C|D|"},
					{"a|b|c", "c", "C|D", "a|b|C|D"},
					{"a|b|c", "b|c|", "B|C|", "a|B|C"},
					{"a|b|c", "c", "c|", "a|b|c|"},
					{"\ufeffa|b|", "a|", "A|A2|", "\ufeffA|A2|b|"},
					{"a  |b|", "a  |", "A|", "A|b|"},
				} {
					put(t, dir, "f", strings.ReplaceAll(tc.file, "|", end))
					asked := strings.NewReplacer("|", asked)
					got := edit(editRequest{"f", asked.Replace(tc.old), asked.Replace(tc.new)})
					if now, want := content(t, dir, "f"), strings.ReplaceAll(tc.want, "|", end); now != want {
						t.Errorf("%q by %q: got %q (%s), want %q", tc.file, tc.old, now, got, want)
					}
				}
			})
		}
	}
}

// TestEditFindsOnce has texts of mixed ends and normal forms, and refuses what stands there never, twice or within a character.
func TestEditFindsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, _, edit := open(t, dir).calls(t)
	for name, tc := range map[string]struct{ file, old, new, want, said string }{
		"mixed ends":       {"a\r\nb\nc\rd\r\n", "a\nb\nc\nd", "A\nB\nC\nD", "A\r\nB\nC\rD\r\n", "at line 1"},
		"mixed, longer":    {"a\r\nb\nc\n", "a\nb\n", "A\nB\nB2\n", "A\r\nB\nB2\nc\n", "at line 1"},
		"CR within a line": {"10%\r20%\nb\n", "b", "B\nC", "10%\r20%\nB\nC\n", "at line 3"},
		"composed":         {"x\ncafe\u0301 ok\n", "caf\u00e9 ok", "tea", "x\ntea\n", "at line 2"},
		"decomposed":       {"caf\u00e9 ok\n", "cafe\u0301", "tea", "tea ok\n", "at line 1"},
		"its neighbours":   {"e\u0301a\u0308o\n", "o", "O", "e\u0301a\u0308O\n", "at line 1"},
		"Hangul":           {"\u1112\u1161\u11ab!\n", "\ud55c", "x", "x!\n", "at line 1"},
		"a part":           {"e\u0301\n", "e", "x", "", "stands 0 times"},
		"within a piece":   {"e\u0301\u0323", "\u0301", "x", "", "stands 0 times"},
		"twice by form":    {"\u00e9\ne\u0301\n", "\u00e9", "x", "", "stands 2 times"},
		"twice by ends":    {"a\r\nb\na\nb\n", "a\nb", "x", "", "stands 2 times"},
		"overlapping":      {"}\n}\n}\n", "}\n}\n", "x", "", "stands 2 times"},
		"ends alone":       {"a\r\nb\r\n", "a\r\n", "a\n", "", "differs from what stands there by the ends of lines alone"},
	} {
		put(t, dir, "f", tc.file)
		want := tc.want
		if want == "" {
			want = tc.file
		}
		if said := edit(editRequest{"f", tc.old, tc.new}); !strings.Contains(said, tc.said) || content(t, dir, "f") != want {
			t.Errorf("%s: got %q and %q, want %q and %q", name, said, content(t, dir, "f"), tc.said, want)
		}
	}
}

// TestOwnersAndNames writes and edits a file of another user, with rights of its own and a second name: it keeps its owner and its rights,
// and the result says that the other name has what was there before.
func TestOwnersAndNames(t *testing.T) {
	t.Parallel()
	runtest.Root(t)
	dir := t.TempDir()
	_, write, edit := open(t, dir).calls(t)
	for what, do := range map[string]func(name string) string{
		"write": func(name string) string { return write(name, "two\n") },
		"edit":  func(name string) string { return edit(editRequest{name, "one", "two"}) },
	} {
		put(t, dir, what, "one\n")
		file := filepath.Join(dir, what)
		runtest.NoError(t, errors.Join(os.Chown(file, 1234, 4321), os.Chmod(file, 0o640), os.Link(file, file+"2")))
		if got := do(what); !strings.Contains(got, "; it had 2 names") {
			t.Errorf("%s: got %q, want it to speak of the other name", what, got)
		}
		info, err := os.Stat(file)
		runtest.NoError(t, err)
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 1234 || stat.Gid != 4321 || info.Mode() != 0o640 || content(t, dir, what) != "two\n" || content(t, dir, what+"2") != "one\n" { //nolint:forcetypeassert // it is one here
			t.Errorf("%s: got %v, of %d and %d, want it to keep its rights and its owner", what, info.Mode(), stat.Uid, stat.Gid)
		}
	}
}

// TestStaleWrites changes files behind a session that read or wrote them.
func TestStaleWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	read, write, edit := f.calls(t)
	want := func(step, got, part string) {
		t.Helper()
		if !strings.Contains(got, part) {
			t.Errorf("%s: got %q, want %q in it", step, got, part)
		}
	}
	put(t, dir, "f", "one\ntwo\nthree\n")
	want("never read", write("f", "mine\n"), "5 bytes written to f")
	put(t, dir, "f", "mine\ntheirs\n")
	want("changed since written", write("f", "mine again\n"), "refused: path: f changed after this session read it: it had 5 bytes, it has 12; from line 2:\n+theirs\nRead it again")
	want("once more", write("f", "mine again\n"), "refused: path: f changed")
	runtest.Equal(t, "refused", content(t, dir, "f"), "mine\ntheirs\n")
	want("read", read(readRequest{Path: "f", Line: 2}), "theirs")
	want("read again", write("f", "a\nb\nc\n"), "written")
	put(t, dir, "f", "a\nB\nc\n")
	want("an edit keeps the rest", edit(editRequest{"f", "a", "A"}), "changed at line 1")
	want("and the write still knows", write("f", "a\nb\nc\n"), "refused: path: f changed after this session read it: it had 6 bytes, it has 6; from line 1:\n-a\n-b\n+A\n+B\n")
	read(readRequest{Path: "f"})
	want("an edit of what is known", edit(editRequest{"f", "B", "b"}), "changed")
	want("and a write over it", write("f", "x"), "written")
	runtest.NoError(t, os.Chtimes(filepath.Join(dir, "f"), filetime, filetime))
	want("touched alone", write("f", "y"), "written")
	runtest.NoError(t, os.Remove(filepath.Join(dir, "f")))
	want("deleted", write("f", "z"), "1 bytes written to f, which was gone")

	put(t, dir, "g", strings.Repeat("line\n", 300_000))
	want("a part of a large one", read(readRequest{Path: "g", Line: 299_999, Lines: 1}), "[lines 299999 to 299999 of 300000]")
	put(t, dir, "g", strings.Repeat("line\n", 299_999)+"LINE\n")
	want("large", write("g", "short"), "refused: path: g changed after this session read it: it had 1500000 bytes, it has 1500000\n")
	want("an edit of it", edit(editRequest{"g", "LINE", "end"}), "g is changed at line 300000")
}

var filetime = time.Unix(1, 0)

// TestVersionsAreOfTheSession restores the state of a session in another process, and has another session write.
func TestVersionsAreOfTheSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	read, _, _ := f.calls(t)
	put(t, dir, "f", "one\n")
	read(readRequest{Path: "./f"})
	state, err := f.Snapshot(nil)
	runtest.NoError(t, err)
	_, write, _ := open(t, dir).calls(t)
	runtest.Contains(t, "another session", write("f", "other\n"), "written")
	later := open(t, dir)
	runtest.NoError(t, later.Restore(plugin.Meta{State: state}, plugin.SnapshotReader{}))
	_, write, _ = later.calls(t)
	runtest.Contains(t, "restored", write("f", "two\n"), "f changed after this session read it: it had 4 bytes, it has 6\n")
	for i := range 2 * maxKnown {
		later.remember(string(rune('a'+i)), "sum", 1, "")
	}
	runtest.Equal(t, "known files", len(later.Load()), maxKnown)
}

// TestFilesWithoutRightsAreKept has files that their rights do not let be written. A superuser could.
func TestFilesWithoutRightsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, write, edit := open(t, dir).calls(t)
	put(t, dir, "f", "one\n")
	runtest.NoError(t, os.Chmod(filepath.Join(dir, "f"), 0o444))
	for step, got := range map[string]string{"write": write("f", "x"), "edit": edit(editRequest{"f", "one", "x"})} {
		if want := "refused: path: f may not be written, its rights are -r--r--r--"; !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	runtest.Equal(t, "content", content(t, dir, "f"), "one\n")
	runtest.NoError(t, os.Chmod(filepath.Join(dir, "f"), 0o751))
	write("f", "x")
	if info, err := os.Stat(filepath.Join(dir, "f")); err != nil || info.Mode() != fs.FileMode(0o751) {
		t.Errorf("rights: got %v, %v, want those of before", info.Mode(), err)
	}
}

// TestReadShowsLinesOfAnyFile has limits on what is shown alone.
func TestReadShowsLinesOfAnyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	f.MaxShown, f.MaxSearched = 100, 90_000
	read, _, _ := f.calls(t)
	long := strings.Repeat("é", 40_000)
	for name, tc := range map[string]struct {
		file string
		req  readRequest
		want string
	}{
		"after a long line":  {long + "\nb\nc", readRequest{Line: 2}, "b\nc\n[lines 2 to 3 of 3]"},
		"a long line":        {"a\n" + long + "\nc\n", readRequest{Line: 2, Lines: 1}, strings.Repeat("é", 50) + " [the line is cut]\n[lines 2 to 2 of 3]"},
		"a long last line":   {"a\n" + long, readRequest{Line: 2}, strings.Repeat("é", 50) + " [the line is cut]\n[lines 2 to 2 of 2]"},
		"as many as fit":     {strings.Repeat("123456789\n", 11), readRequest{}, strings.Repeat("123456789\n", 9) + "123456789\n[lines 1 to 10 of 11]"},
		"not beyond the end": {"a\nb", readRequest{Line: 3}, "refused: line: 3, the file has 2 lines"},
		"huge":               {strings.Repeat("123456789\n", 10_000), readRequest{Line: 5, Lines: 2}, "123456789\n123456789\n[lines 5 to 6 of 100000 bytes]"},
		"huge, to its end":   {strings.Repeat("123456789\n", 10_000), readRequest{Line: 10_000}, "123456789\n[lines 10000 to 10000 of 10000]"},
		"text before binary": {"a\n\x00\n", readRequest{Lines: 1}, "a\n[lines 1 to 1 of 2]"},
		"binary":             {"a\n\x00\n", readRequest{}, "refused: path: f: is no text (UTF-8)"},
		"a long binary line": {strings.Repeat("\xe9", 200), readRequest{}, "refused: path: f: is no text (UTF-8)"},
		"empty":              {"", readRequest{}, ""},
	} {
		put(t, dir, "f", tc.file)
		tc.req.Path = "f"
		if got := read(tc.req); got != tc.want {
			t.Errorf("%s: got %.300q, want %.300q", name, got, tc.want)
		}
	}
}
