// Package files gives the model the files below one directory: to read, write, edit, list and search.
//
// Guarantees: no path and no link reaches a file outside of the directory. A call works at one place: the directory to which its
// path leads when it begins is opened component by component, without links, the rules are asked about that place, and nothing
// that happens to links meanwhile leads the call elsewhere. A call that the gate judged at another place is refused. What is not a regular file is neither read nor changed.
// What a call shows has limits, the size of a file that it names and of its lines has none. A file is replaced as a whole or not
// at all, and not without the right to write it. A write over a file that changed after the session read it is refused, also
// where another node read it. An edit keeps the ends of the file's lines. A write or an edit whose
// node died is never repeated: its result tells the model that the outcome is unknown. A file that the gate's rules
// deny is neither opened, by any link, nor searched. A search has limits for its patterns, its time, and the bytes
// and entries that it reads, and its result names a limit that it reached, and what it did not read. The package imports
// session/plugin, events, events/localfile, builtin/gate and x/text/unicode/norm.
package files

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// ID names the plugin in histories.
const ID = "files"

// Config configures the plugin.
type Config struct {
	Root     string // required; the directory of the session's environment takes its place
	MaxBytes int64  // limit of a text that is written, and of a file that the search of a directory reads. Defaults to 1 MiB
	MaxShown int64  // limit of the text of one read. Defaults to 64 KiB
	MaxFound int    // limit of the entries of a list and of the lines of a search. Defaults to 500

	MaxVisited  int           // limit of the directory entries that one search or list reads. Defaults to 100 000
	MaxSearched int64         // limit of the bytes that the search of a directory reads. Defaults to 256 MiB
	SearchTime  time.Duration // limit of one search. Defaults to 30 s

	Rules gate.Options // of the gate: what they deny is not done, with or without the gate. A session's own rules replace these, except Deny
}

// Factory builds the plugin. The directory must exist.
func Factory(cfg Config) (plugin.Factory, error) {
	root, err := os.OpenRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("files: root: %w", err)
	}
	if err := root.Close(); err != nil {
		return nil, fmt.Errorf("files: root: %w", err)
	}
	if cfg, err = withDefaults(cfg); err != nil {
		return nil, err
	}
	writing, searches, kept := new(sync.Mutex), make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)), new(texts)
	return plugin.New(ID, func(in plugin.BuildContext) (plugin.Plugin, error) {
		rules, err := gate.OptionsFor(in, cfg.Rules)
		own := cfg
		own.Rules = rules
		return &files{Config: own, writing: writing, searches: searches, texts: kept}, errors.Join(err, rules.Check())
	}), nil
}

func withDefaults(cfg Config) (Config, error) {
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), 1<<20)
	cfg.MaxShown = cmp.Or(max(cfg.MaxShown, 0), 64<<10)
	cfg.MaxFound = cmp.Or(max(cfg.MaxFound, 0), 500)
	cfg.MaxVisited = cmp.Or(max(cfg.MaxVisited, 0), 100_000)
	cfg.MaxSearched = cmp.Or(max(cfg.MaxSearched, 0), 256<<20)
	cfg.SearchTime = cmp.Or(max(cfg.SearchTime, 0), 30*time.Second)
	if err := cfg.Rules.Check(); err != nil {
		return cfg, fmt.Errorf("files: rules: %w", err)
	}
	return cfg, nil
}

type files struct {
	Config
	plugin.State[[]version]
	writing  *sync.Mutex   // serialises the writes of one process
	searches chan struct{} // semaphore of the searches of one process: half of the cores stay free for turns
	texts    *texts
}

func (f *files) Register(r *plugin.Registrar) error {
	read := func(name, description string) plugin.Tool {
		return plugin.Tool{Name: name, Description: description, Effects: events.EffectsNone, Timeout: time.Minute}
	}
	write := func(name, description string) plugin.Tool {
		return plugin.Tool{Name: name, Description: description, Serial: true} // in the order of the reply, and at most once
	}
	plugin.AddTool(r, read("read_file", "Reads lines of a text file."), in(f, "read_file", f.read))
	plugin.AddTool(r, read("list_files", "Lists a directory."), in(f, "list_files", f.list))
	plugin.AddTool(r, read("search_files", "Finds the lines that a regular expression matches, in the files below a directory."), in(f, "search_files", f.search))
	plugin.AddTool(r, write("write_file", "Creates a file with its directories, or replaces it."), in(f, "write_file", f.write))
	plugin.AddTool(r, write("edit_file", "Replaces a text in a file. It must be there exactly once. The ends of lines need not be those of the file, which it keeps."), in(f, "edit_file", f.edit))
	return nil
}

// openFile opens a regular file of a directory.
func openFile(dir *os.Root, base string) (*os.File, fs.FileInfo, error) {
	file, info, err := localfile.OpenIn(dir, base, os.O_RDONLY|syscall.O_NONBLOCK) // a pipe would wait for its writer
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		err = errors.New("is a directory: list_files lists it")
	case !info.Mode().IsRegular():
		err = errors.New("is no regular file")
	default:
		return file, info, nil
	}
	_ = file.Close()
	return nil, nil, err
}

// errNoText is about bytes that no model can be shown.
var errNoText = errors.New("is no text (UTF-8)")

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// load reads a whole file of a directory, up to a limit.
func (t *target) load(dir *os.Root, base string, limit int64) (string, fs.FileInfo, error) {
	file, info, err := openFile(dir, base)
	if err != nil {
		return "", nil, t.failed(err)
	}
	defer file.Close()                                     //nolint:errcheck // it is only read
	data, err := io.ReadAll(io.LimitReader(file, limit+1)) // it may grow, or have no size of its own
	switch {
	case err != nil:
		return "", nil, t.failed(err)
	case int64(len(data)) > limit:
		return "", nil, &plugin.Failure{
			Class: plugin.ClassResourceLimit, Code: "file_too_large",
			Message: fmt.Sprintf("path: %s has %d bytes or more, the limit is %d", t.name, max(info.Size(), limit+1), limit),
		}
	case !isText(data):
		return "", nil, t.failed(errNoText)
	}
	return string(data), info, nil
}

// mayWrite refuses a file without the right to write: to replace it needs the rights of its directory only.
func (t *target) mayWrite(dir *os.Root, info fs.FileInfo) error {
	if info.Mode().Perm()&0o222 == 0 { // a superuser's node could write it
		return &plugin.Failure{
			Class:   plugin.ClassPermissionDenied,
			Message: fmt.Sprintf("path: %s may not be written, its rights are %v: let the user decide whether to change them", t.name, info.Mode().Perm()),
		}
	}
	file, _, err := localfile.OpenIn(dir, t.base(), os.O_WRONLY|syscall.O_NONBLOCK)
	if err != nil {
		return t.failed(err)
	}
	return file.Close()
}

// store replaces the whole file of a call, in its directory. It keeps the owner and the rights of the one that was there; was is nil
// where none was. lost says what it could not keep.
func (t *target) store(dir *os.Root, text, key string, was fs.FileInfo) (lost string, err error) {
	temporary := ".lash-" + key
	mode := fs.FileMode(0o644)
	if was != nil {
		mode = was.Mode().Perm()
	}
	file, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", t.failed(err)
	}
	if was != nil {
		lost = keepOwner(file, was)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err == nil {
		err = dir.Rename(temporary, t.base())
	}
	if err != nil {
		return "", t.failed(errors.Join(err, dir.Remove(temporary)))
	}
	return lost, nil
}

// keepOwner gives a new file the owner of the one that it replaces. It says what is lost with that.
func keepOwner(file *os.File, was fs.FileInfo) (lost string) {
	old, ok := was.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	if file.Chown(int(old.Uid), int(old.Gid)) != nil {
		_ = file.Chown(-1, int(old.Gid)) // of a group of the node's user
		lost = fmt.Sprintf("; its owner was the user %d, and is the node's now", old.Uid)
	}
	if old.Nlink > 1 {
		lost += fmt.Sprintf("; it had %d names: the others have what was there before", old.Nlink)
	}
	return lost
}

// check rejects a file that the rules deny to a tool, by any of its names.
func (f *files) check(tool string, names ...string) error {
	if f.Rules.Denies(tool, names) {
		return &plugin.Failure{Class: plugin.ClassInvalidRequest, Code: gate.ID, Message: tool + " is not allowed here " + strings.Join(names, ", which is ")}
	}
	return nil
}

// clean returns a path relative to the directory, or rejects it.
func clean(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name) || len(name) > 4096 {
		return "", plugin.InvalidArgs("path: is no path of at most 4096 bytes")
	}
	local := path.Clean("./" + name)
	if path.IsAbs(name) || local == ".." || strings.HasPrefix(local, "../") {
		return "", plugin.InvalidArgs("path: %q is not below this directory: paths are relative to it", name)
	}
	return local, nil
}
