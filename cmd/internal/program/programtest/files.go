//go:build unix

// Package programtest tests the command lines of the programs by the models of their flags and arguments.
package programtest

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/program"
)

// EveryFileIsRegular gives each flag and argument of each command, that names a file to read, a named pipe, an endless device, and a
// folder. fail runs a command line that must fail, and returns its messages. They must name the program, the flag or argument, and the
// path. EveryFileIsRegular returns the number of lines that it ran. A new flag is tested too: of paths, the placeholder says whether they are files.
func EveryFileIsRegular(t *testing.T, model *kong.Application, fail func(args []string) (messages string)) (lines int) {
	t.Helper()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, leaf := range model.Leaves(false) {
		for _, v := range files(t, leaf) {
			for _, path := range []string{pipe, "/dev/zero", dir} {
				if path == dir && v.Tag.Has("folders") {
					continue
				}
				args, name := append(shortestLine(leaf, v), path), "<file>"
				if v.Flag != nil {
					var given []string
					given, name = Give(v.Flag, path)
					args = append(args[:len(args)-1], given...)
				}
				if text := fail(args); !strings.Contains(text, model.Name+": "+name+": "+path+" is not a regular file") {
					t.Errorf("%s: got %q, want %s and the path", strings.Join(args, " "), text, name)
				}
				lines++
			}
		}
	}
	return lines
}

// Give gives a flag a value, on the command line or as a setting. Errors have the name.
func Give(f *kong.Flag, value string) (args []string, name string) {
	if f.Tag.Has("setting") {
		return []string{"--set", f.Name + "=" + value}, "setting " + f.Name
	}
	return []string{"--" + f.Name, value}, "--" + f.Name
}

// files are the flags and arguments of a command, with those of its program, that name a file to read.
func files(t *testing.T, leaf *kong.Node) (values []*kong.Value) {
	t.Helper()
	for _, f := range slices.Concat(leaf.AllFlags(false)...) {
		if f.Tag.Type == "path" && f.PlaceHolder != "FILE" && f.PlaceHolder != "DIR" {
			t.Errorf("%s --%s: has the placeholder %q, want FILE or DIR for a path", leaf.Path(), f.Name, f.PlaceHolder)
		}
		values = append(values, f.Value)
	}
	return slices.DeleteFunc(append(values, leaf.Positional...), func(v *kong.Value) bool { return !program.NamesFile(v) })
}

// shortestLine is the shortest command line of a command, without a value.
func shortestLine(leaf *kong.Node, without *kong.Value) []string {
	var line []string
	for n := leaf; n != nil && n.Type == kong.CommandNode; n = n.Parent {
		line = slices.Insert(line, 0, n.Name)
	}
	for _, f := range leaf.Flags {
		if f.Required && f.Value != without {
			line = append(line, "--"+f.Name, sampleOf(f.Value))
		}
	}
	for _, v := range leaf.Positional {
		if v.Required && v != without {
			line = append(line, sampleOf(v))
		}
	}
	return line
}

// sampleOf is a value that a flag or an argument takes.
func sampleOf(v *kong.Value) string {
	switch {
	case v.Enum != "":
		return v.EnumSlice()[0]
	case v.Target.CanInt(), v.Target.CanUint():
		return "1"
	}
	return "x"
}
