//go:build unix

package main

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/program"
)

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

// TestEveryFileIsRegular gives each flag and argument of each command, that names a file to read, a named pipe, an endless device, and a
// folder. The command ends before it does anything, with the flag or argument and the path. A new flag
// is tested too.
func TestEveryFileIsRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	parser, err := line(&cli{}).Parser(&program.Streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, leaf := range parser.Model.Leaves(false) {
		var values []*kong.Value
		for _, f := range slices.Concat(leaf.AllFlags(false)...) { // with those of the program
			values = append(values, f.Value)
		}
		for _, v := range append(values, leaf.Positional...) {
			if !program.NamesFile(v) {
				continue
			}
			for _, path := range []string{pipe, "/dev/zero", dir} {
				if path == dir && v.Tag.Has("folders") {
					continue
				}
				args, name := append(shortestLine(leaf, v), path), "<file>"
				if v.Flag != nil {
					name = "--" + v.Name
					args = slices.Insert(args, len(args)-1, name)
				}
				var messages bytes.Buffer
				code := run(t.Context(), args, &program.Streams{Out: io.Discard, Err: &messages, Env: func(string) string { return "" }})
				if text := messages.String(); code != exitError || !strings.Contains(text, "lash-replay: "+name+": "+path+" is not a regular file") {
					t.Errorf("%s: got %q, want %s and the path", strings.Join(args, " "), text, name)
				}
				tested++
			}
		}
	}
	if tested < 100 {
		t.Errorf("%d command lines were tested", tested)
	}
}
