package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/lash-go/lash/session/plugin"
)

// request is the arguments of any of the tools.
type request interface{ path() string }

// in opens the directory for one call, after it has checked the path against the rules.
func in[In request](f *files, tool string, work func(context.Context, *os.Root, plugin.Call, In) (string, error)) func(context.Context, plugin.Call, In) (string, error) {
	return func(ctx context.Context, call plugin.Call, args In) (string, error) {
		name, err := clean(args.path())
		if err != nil {
			return "", err
		}
		if err := f.check(tool, name); err != nil {
			return "", err
		}
		if tool == "edit_file" { // its result depends on the content of the file
			if err := f.check("read_file", name); err != nil {
				return "", err
			}
		}
		root, err := os.OpenRoot(f.Root)
		if err != nil {
			return "", &plugin.Failure{Class: plugin.ClassUnavailable, Message: "the directory of the files is not there"}
		}
		defer root.Close() //nolint:errcheck // nothing is lost
		return work(ctx, root, call, args)
	}
}

type readRequest struct {
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty" jsonschema:"the first line to read, from 1"`
	Lines int    `json:"lines,omitempty" jsonschema:"how many lines"`
}

func (r readRequest) path() string { return r.Path }

func (f *files) read(_ context.Context, root *os.Root, _ plugin.Call, in readRequest) (string, error) {
	name, err := clean(in.Path)
	if err != nil {
		return "", err
	}
	text, _, err := f.load(root, name)
	if err != nil {
		return "", err
	}
	all := slices.Collect(strings.Lines(text))
	from := max(in.Line-1, 0)
	if from > 0 && from >= len(all) {
		return "", plugin.InvalidArgs("line: %d, the file has %d lines", in.Line, len(all))
	}
	upto, shown := from, int64(0)
	for upto < len(all) && (in.Lines <= 0 || upto-from < in.Lines) && (upto == from || shown+int64(len(all[upto])) <= f.MaxShown) {
		shown += int64(len(all[upto]))
		upto++
	}
	text = strings.Join(all[from:upto], "")
	if shown > f.MaxShown {
		text = strings.ToValidUTF8(text[:f.MaxShown], "") + " [the line is cut]\n"
	}
	if from > 0 || upto < len(all) {
		text = fmt.Sprintf("%s\n[lines %d to %d of %d]", strings.TrimSuffix(text, "\n"), from+1, upto, len(all))
	}
	return text, nil
}

type writeRequest struct {
	Path    string `json:"path"`
	Content string `json:"content" jsonschema:"the whole file"`
}

func (r writeRequest) path() string { return r.Path }

func (f *files) write(_ context.Context, root *os.Root, call plugin.Call, in writeRequest) (string, error) {
	name, err := clean(in.Path)
	if err != nil {
		return "", err
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	mode := fs.FileMode(0o644)
	switch info, err := root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return "", badPath(name, err)
		}
	case err != nil:
		return "", badPath(name, err)
	case !info.Mode().IsRegular():
		return "", plugin.InvalidArgs("path: %s is no regular file", name)
	default:
		mode = info.Mode().Perm()
	}
	if err := f.store(root, name, in.Content, digest(call), mode); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes written to %s", len(in.Content), name), nil
}

type editRequest struct {
	Path string `json:"path"`
	Old  string `json:"old" jsonschema:"what stands there, exactly once"`
	New  string `json:"new"`
}

func (r editRequest) path() string { return r.Path }

func (f *files) edit(_ context.Context, root *os.Root, call plugin.Call, in editRequest) (string, error) {
	name, err := clean(in.Path)
	if err != nil {
		return "", err
	}
	if in.Old == "" {
		return "", plugin.InvalidArgs("old: is empty")
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	if info, err := root.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", plugin.InvalidArgs("path: %s is a link: edit what it leads to", name)
	}
	text, info, err := f.load(root, name)
	if err != nil {
		return "", err
	}
	if n := strings.Count(text, in.Old); n != 1 {
		return "", plugin.InvalidArgs("old: stands %d times in %s, want once", n, name)
	}
	line := 1 + strings.Count(text[:strings.Index(text, in.Old)], "\n")
	if err := f.store(root, name, strings.Replace(text, in.Old, in.New, 1), digest(call), info.Mode().Perm()); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is changed at line %d", name, line), nil
}

// digest names the temporary file of a call. No other call has the same one.
func digest(call plugin.Call) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", call.Key, call.Attempt))
	return hex.EncodeToString(sum[:8])
}

type listRequest struct {
	Path string `json:"path,omitempty" jsonschema:"a directory; by default the uppermost one"`
}

func (r listRequest) path() string { return r.Path }

func (f *files) list(_ context.Context, root *os.Root, _ plugin.Call, in listRequest) (string, error) {
	name, err := clean(in.Path)
	if err != nil {
		return "", err
	}
	entries, err := f.entries(root, name, f.MaxVisited)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for i, e := range entries {
		if i == f.MaxFound {
			fmt.Fprintf(&text, "[%d more]\n", len(entries)-i)
			break
		}
		if f.check("list_files", path.Join(name, e.Name())) != nil {
			text.WriteString(e.Name() + " (not allowed here)\n")
			continue
		}
		text.WriteString(describe(e))
	}
	if len(entries) == 0 {
		return "[empty]", nil
	}
	return strings.ToValidUTF8(text.String(), "\uFFFD"), nil
}

func describe(e fs.DirEntry) string {
	switch info, err := e.Info(); {
	case e.IsDir():
		return e.Name() + "/\n"
	case e.Type()&fs.ModeSymlink != 0:
		return e.Name() + " (link)\n"
	case err != nil || !info.Mode().IsRegular():
		return e.Name() + " (no regular file)\n"
	default:
		return fmt.Sprintf("%s (%d bytes)\n", e.Name(), info.Size())
	}
}

// entries are the entries of a directory, sorted. More than limit are an error.
func (f *files) entries(root *os.Root, name string, limit int) ([]fs.DirEntry, error) {
	dir, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return nil, badPath(name, err)
	}
	defer dir.Close() //nolint:errcheck // it is only read
	entries, err := dir.ReadDir(limit + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, badPath(name, err)
	case len(entries) > limit:
		return nil, &plugin.Failure{
			Class: plugin.ClassResourceLimit, Code: "too_many_entries",
			Message: fmt.Sprintf("path: %s has more entries than the limit of %d that one call visits", name, f.MaxVisited),
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
