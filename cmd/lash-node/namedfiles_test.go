//go:build unix

package main

import (
	"errors"
	"os"
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

// lineOf is the shortest command line of a command, without a value.
func lineOf(leaf *kong.Node, without *kong.Value) []string {
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
// folder. The command ends before it does anything, with the flag or argument and the path. So does one whose --config names them.
// A new flag is tested too: of paths, the placeholder says whether they are files.
func TestEveryFileIsRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	parser, err := line(&cli{}).Parser(&streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, leaf := range parser.Model.Leaves(false) {
		var values []*kong.Value
		for _, f := range slices.Concat(leaf.AllFlags(false)...) { // with those of the program
			if f.Tag.Type == "path" && f.PlaceHolder != "FILE" && f.PlaceHolder != "DIR" {
				t.Errorf("%s --%s: has the placeholder %q, want FILE or DIR for a path", leaf.Path(), f.Name, f.PlaceHolder)
			}
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
				args, name := append(lineOf(leaf, v), path), "<file>"
				if v.Flag != nil {
					name = "--" + v.Name
					args = slices.Insert(args, len(args)-1, name)
				}
				text := failing(t, args)
				if !strings.Contains(text, "lash-node: "+name+": "+path+" is not a regular file") {
					t.Errorf("%s: got %q, want %s and the path", strings.Join(args, " "), text, name)
				}
				tested++
			}
		}
	}
	if tested < 150 {
		t.Errorf("%d command lines were tested", tested)
	}
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte(`{"locks":"`+pipe+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := failing(t, []string{"serve", "--config", config}); !strings.Contains(text, "--locks: "+pipe) {
		t.Errorf("in --config: got %q, want the flag", text)
	}
}

// TestWrittenFilesDoNotWait gives flags of files that are written a named pipe without a reader: the command ends, and names the flag.
func TestWrittenFilesDoNotWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(filepath.Join(dir, "bad.lash"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"serve", "--store", filepath.Join(dir, "st"), "--listen", "127.0.0.1:0", "--heads", pipe},
		{"bench", "--cpuprofile", pipe},
		{"check", filepath.Join(dir, "bad.lash"), "--junit", pipe},
	} {
		flag := args[len(args)-2]
		if text := failing(t, args); !strings.Contains(text, flag+": "+pipe+" is a pipe that no program reads") {
			t.Errorf("%s: got %q, want the flag and the path", strings.Join(args, " "), text)
		}
	}
}

// TestVariablesOfPluginRun gives `lash-node plugin run` variables that are wrong. The error names the variable, and not a flag.
func TestVariablesOfPluginRun(t *testing.T) {
	t.Parallel()
	pipe, file := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "connection.json")
	text := `{"url":"nats://127.0.0.1:1","tls_ca":"` + pipe + `"}`
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for variable, c := range map[string][2]string{
		"LASH_PLUGIN_INSTANCE": {"a b", "must be 1 to 64 characters"}, "LASH_PLUGIN_NKEY": {pipe, pipe + " is not a regular file"}, "LASH_PLUGIN_TLS_CA": {pipe, pipe + " is not a regular file"},
		"LASH_PLUGIN_TLS_CERT": {pipe, pipe + " is not a regular file"}, "LASH_PLUGIN_TLS_KEY": {pipe, pipe + " is not a regular file"},
	} {
		got := failingIn(t, map[string]string{"LASH_PLUGIN_NATS": "nats://127.0.0.1:1", variable: c[0]}, []string{"plugin", "run", "x", "--", "true"})
		if !strings.Contains(got, "lash-node: "+variable+": "+c[1]) {
			t.Errorf("%s: got %q, want %q", variable, got, c[1])
		}
	}
	for value, want := range map[string]string{pipe: pipe + " is not a regular file", file: file + ": tls_ca: " + pipe + " is not a regular file"} {
		got := failingIn(t, map[string]string{"LASH_PLUGIN_CONNECTION": value}, []string{"plugin", "run", "x", "--", "true"})
		if !strings.Contains(got, "lash-node: LASH_PLUGIN_CONNECTION: "+want) {
			t.Errorf("LASH_PLUGIN_CONNECTION=%s: got %q, want %q", value, got, want)
		}
	}
}
