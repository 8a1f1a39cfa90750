package files

import (
	"cmp"
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

	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// request is the arguments of any of the tools.
type request interface{ path() string }

// target is the file or directory of one call.
type target struct {
	*files
	root  *os.Root
	Root  string // of the session's environment
	name  string // as the call gives it
	place string // where that led when the call began, without links: the rules were asked about it. Absolute if it is outside
}

// base is the name of the target in its directory.
func (t *target) base() string { return path.Base(t.place) }

// in finds the place of one call, and asks the rules about it.
func in[In request](f *files, tool string, work func(context.Context, *target, plugin.Call, In) (string, error)) func(context.Context, plugin.Call, In) (string, error) {
	return func(ctx context.Context, call plugin.Call, args In) (string, error) {
		name, err := clean(args.path())
		if err != nil {
			return "", err
		}
		where, err := call.Environment("")
		if err != nil {
			return "", err
		}
		dir := cmp.Or(where.Dir, f.Root)
		names, err := gate.At(dir, "path", name, call)
		if err != nil {
			return "", err
		}
		if err := f.check(tool, names...); err != nil {
			return "", err
		}
		if tool == "edit_file" { // its result depends on the content of the file
			if err := f.check("read_file", names...); err != nil {
				return "", err
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", &plugin.Failure{Class: plugin.ClassUnavailable, Message: "the directory of the files is not there"}
		}
		defer root.Close() //nolint:errcheck // nothing is lost
		return work(ctx, &target{f, root, dir, name, names[len(names)-1]}, call, args)
	}
}

// open opens the directory at a place below another one. perm are the rights of the directories that it makes; 0: it makes none.
func (t *target) open(from *os.Root, place string, perm fs.FileMode) (*os.Root, error) {
	dir, err := below(from, place, perm)
	if err != nil {
		return nil, t.failed(err)
	}
	return dir, nil
}

// below opens a directory like open, with errors of the system.
func below(from *os.Root, place string, perm fs.FileMode) (*os.Root, error) {
	if path.IsAbs(place) {
		return nil, errors.New("path escapes from parent")
	}
	return localfile.Below(from, place, perm)
}

// failed is the error of a tool for one of the system, without the location of the directory.
func (t *target) failed(err error) error {
	if refused, ok := errors.AsType[*plugin.Failure](err); ok {
		return refused
	}
	return gate.NotThere(t.Root, "path", t.name, t.place, bareError(err))
}

// bareError is an error of the system without its path.
func bareError(err error) error {
	if bare, ok := errors.AsType[*fs.PathError](err); ok {
		err = bare.Err
	} else if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}
	return err
}

// isLink reports whether the path of the call ends in a link.
func (t *target) isLink() bool {
	info, err := t.root.Lstat(t.name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

type writeRequest struct {
	Path    string `json:"path"`
	Content string `json:"content" jsonschema:"the whole file"`
}

func (r writeRequest) path() string { return r.Path }

func (f *files) write(ctx context.Context, t *target, call plugin.Call, in writeRequest) (string, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	noFile := t.failed(errors.New("is no regular file"))
	if int64(len(in.Content)) > f.MaxBytes {
		return "", &plugin.Failure{
			Class: plugin.ClassResourceLimit, Code: "file_too_large",
			Message: fmt.Sprintf("content: %d bytes, the limit is %d", len(in.Content), f.MaxBytes),
		}
	}
	if t.isLink() {
		return "", noFile
	}
	dir, err := t.open(t.root, path.Dir(t.place), 0o755)
	if err != nil {
		return "", err
	}
	defer dir.Close() //nolint:errcheck // what is written is synchronized
	note := ""
	was, err := dir.Lstat(t.base())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.known(t.place) != nil {
			note = ", which was gone"
		}
		was = nil
	case err != nil:
		return "", t.failed(err)
	case !was.Mode().IsRegular():
		return "", noFile
	default:
		if err := t.mayWrite(dir, was); err != nil {
			return "", err
		}
		if err := t.unchanged(ctx, dir); err != nil {
			return "", err
		}
	}
	lost, err := t.store(dir, in.Content, digest(call), was)
	if err != nil {
		return "", err
	}
	f.remember(t.place, sumOf(in.Content), int64(len(in.Content)), in.Content)
	return fmt.Sprintf("%d bytes written to %s%s", len(in.Content), t.name, note+lost), nil
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

func (f *files) list(_ context.Context, t *target, _ plugin.Call, _ listRequest) (string, error) {
	dir, err := t.open(t.root, t.place, 0)
	if err != nil {
		return "", err
	}
	defer dir.Close() //nolint:errcheck // it is only read
	entries, err := t.entries(dir, f.MaxVisited)
	if err != nil {
		return "", t.failed(err)
	}
	var text strings.Builder
	for i, e := range entries {
		if i == f.MaxFound {
			fmt.Fprintf(&text, "[%d more]\n", len(entries)-i)
			break
		}
		names := []string{path.Join(t.place, e.Name())}
		if e.Type()&fs.ModeSymlink != 0 && len(f.Rules.Deny) > 0 {
			names = gate.Names(t.Root, names[0])
		}
		if f.check("list_files", names...) != nil {
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
func (t *target) entries(dir *os.Root, limit int) ([]fs.DirEntry, error) {
	file, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	entries, err := file.ReadDir(limit + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case len(entries) > limit:
		return nil, &plugin.Failure{
			Class: plugin.ClassResourceLimit, Code: "too_many_entries",
			Message: fmt.Sprintf("path: %s has more entries than the limit of %d that one call visits", t.name, t.MaxVisited),
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
