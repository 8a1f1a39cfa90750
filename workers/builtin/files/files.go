// Package files gives the model the files below one directory: to read, write, edit, list and search.
//
// Guarantees: no path and no link reaches a file outside of the directory. A file that is too large, or that is not a
// regular file, is neither read nor changed. A file is replaced as a whole or not at all. A write or an edit whose
// node died is never repeated: its result tells the model that the outcome is unknown. A file that the gate's rules
// deny is neither opened, by any link, nor searched. A search has limits for its patterns, its time, and the bytes
// and entries that it reads, and its result names a limit that it reached. The package imports session/plugin, events
// and builtin/gate.
package files

import (
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
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// ID names the plugin in histories.
const ID = "files"

// Config configures the plugin.
type Config struct {
	Root     string // required
	MaxBytes int64  // limit of a file that is read, written, edited or searched. Defaults to 1 MiB
	MaxShown int64  // limit of the text of one read. Defaults to 64 KiB
	MaxFound int    // limit of the entries of a list and of the lines of a search. Defaults to 500

	MaxVisited  int           // limit of the directory entries that one search or list reads. Defaults to 100 000
	MaxSearched int64         // limit of the bytes that one search reads. Defaults to 256 MiB
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
	writing, searches := new(sync.Mutex), make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))
	return plugin.New(ID, func(in plugin.BuildContext) (plugin.Plugin, error) {
		rules, err := gate.OptionsFor(in, cfg.Rules)
		own := cfg
		own.Rules = rules
		return &files{own, writing, searches}, errors.Join(err, rules.Check())
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
	writing  *sync.Mutex   // serialises the writes of one process
	searches chan struct{} // semaphore of the searches of one process: half of the cores stay free for turns
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
	plugin.AddTool(r, write("edit_file", "Replaces a text in a file. It must be there exactly once."), in(f, "edit_file", f.edit))
	return nil
}

// load reads a whole file.
func (f *files) load(root *os.Root, name string) (string, fs.FileInfo, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		return "", nil, badPath(name, err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", nil, badPath(name, err)
	case info.IsDir():
		return "", nil, plugin.InvalidArgs("path: %s is a directory: list_files lists it", name)
	case !info.Mode().IsRegular():
		return "", nil, plugin.InvalidArgs("path: %s is no regular file", name)
	case info.Size() > f.MaxBytes:
		return "", nil, f.tooLarge(name, info.Size())
	}
	data, err := io.ReadAll(io.LimitReader(file, f.MaxBytes+1)) // it may grow, or have no size of its own
	switch {
	case err != nil:
		return "", nil, badPath(name, err)
	case int64(len(data)) > f.MaxBytes:
		return "", nil, f.tooLarge(name, int64(len(data)))
	case !utf8.Valid(data) || strings.IndexByte(string(data), 0) >= 0:
		return "", nil, plugin.InvalidArgs("path: %s is no text (UTF-8)", name)
	}
	return string(data), info, nil
}

func (f *files) tooLarge(name string, size int64) error {
	return &plugin.Failure{
		Class: plugin.ClassResourceLimit, Code: "file_too_large",
		Message: fmt.Sprintf("path: %s has %d bytes or more, the limit is %d", name, size, f.MaxBytes),
	}
}

// store replaces a whole file and keeps its permissions.
func (f *files) store(root *os.Root, name, text, key string, mode fs.FileMode) error {
	if int64(len(text)) > f.MaxBytes {
		return &plugin.Failure{
			Class: plugin.ClassResourceLimit, Code: "file_too_large",
			Message: fmt.Sprintf("content: %d bytes, the limit is %d", len(text), f.MaxBytes),
		}
	}
	temporary := path.Join(path.Dir(name), ".lash-"+key)
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return badPath(name, err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return badPath(name, errors.Join(err, root.Remove(temporary)))
	}
	return nil
}

// check rejects a path that the rules deny to a tool.
func (f *files) check(tool, name string) error {
	if len(f.Rules.Deny) == 0 {
		return nil // names read each directory of the path
	}
	if names := gate.Names(f.Root, name); f.Rules.Denies(tool, names) {
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

// badPath is the system's error for a path, without the location of the directory.
func badPath(name string, err error) error {
	if bare, ok := errors.AsType[*fs.PathError](err); ok {
		err = bare.Err
	} else if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}
	return plugin.InvalidArgs("path: %s: %v", name, err)
}
