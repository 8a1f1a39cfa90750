//go:build unix

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program/programtest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/keyring"
)

// TestLongFileFlags gives every flag of some commands, of a file that is read as a whole, a file above the limit, a named pipe and
// an endless device. The command ends with the flag, the path, and the limit or that it wants a file. A new flag of these
// commands is tested too.
func TestLongFileFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refused := refusedFiles(t)
	const nowhere = "--nats nats://127.0.0.1:1"
	with := map[string]string{ // what a command needs before it reads the file, by the flag or the command
		"serve http-tokens": "--http 127.0.0.1:0", "serve http-oidc": "--http 127.0.0.1:0",
		"plugin run": nowhere + " -- true", "plugin run connection": "-- true",
	}
	// These are written, are read piece by piece, have a limit of their own, or are read as --http-tokens is.
	others := []string{"heads", "trace", "junit", "cpuprofile", "chats", "config", "http-client-ca", "http-tls-cert", "http-tls-key"}
	commands := map[string][]string{
		"serve":            {"serve", "--store", filepath.Join(dir, "st"), "--listen", "127.0.0.1:0"},
		"mcp":              {"mcp"},
		"approvals":        {"approvals", "--nats", "nats://127.0.0.1:1"},
		"plugin run":       {"plugin", "run", "weather"},
		"keys bodies show": {"keys", "bodies", "show"},
		"keys bodies add":  {"keys", "bodies", "add"},
	}
	parser, err := kong.New(&cli{}, kong.Vars{"plugins": "", "version": ""})
	runtest.NoError(t, err)
	tested := 0
	for _, leaf := range parser.Model.Leaves(false) {
		command := strings.Fields(strings.TrimPrefix(leaf.FullPath(), parser.Model.Name+" "))
		name := strings.Join(slices.DeleteFunc(command, func(word string) bool { return strings.ContainsAny(word, "<[") }), " ")
		args := commands[name]
		if args == nil {
			continue
		}
		for _, f := range leaf.Flags {
			if f.PlaceHolder != "FILE" || slices.Contains(others, f.Name) || name == "plugin run" && f.Name == "bodies-key" { // plugins have no bodies
				continue
			}
			for path, want := range refused {
				given, flag := programtest.Give(f, path)
				line := append(slices.Clone(args), given...)
				if slices.Contains([]string{"creds", "tls-ca", "tls-cert", "tls-key", "nats-scopes"}, f.Name) && args[0] == "serve" {
					line = append([]string{"serve", "--nats", "nats://127.0.0.1:1"}, line[len(args):]...)
				}
				switch f.Name {
				case "tls-cert":
					line = append(line, "--tls-key", path)
				case "tls-key":
					line = append(line, "--tls-cert", path)
				}
				line = append(line, strings.Fields(cmp.Or(with[name+" "+f.Name], with[name]))...)
				text := failing(t, line)
				if !strings.Contains(text, flag) || !strings.Contains(text, path) || !strings.Contains(text, want) {
					t.Errorf("%s: got %q, want the flag, the path and %q", strings.Join(line, " "), text, want)
				}
				tested++
			}
		}
	}
	if tested < 60 {
		t.Errorf("%d command lines were tested", tested)
	}
}

// TestLongFilesNamedInFiles gives commands files that name others, and a directory of keys, where the named file is above the limit, a named
// pipe or an endless device. The command ends and says so.
func TestLongFilesNamedInFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings, keys := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "keys")
	for path, want := range refusedFiles(t) {
		text := fmt.Sprintf(`{"mcpServers": {"x": {"command": "cat", "env": {"KEY": "${file:%s}"}}}}`, path)
		runtest.NoError(t, os.WriteFile(settings, []byte(text), 0o600))
		lines := [][]string{
			{"serve", "--store", filepath.Join(dir, "st"), "--listen", "127.0.0.1:0", "--mcp", settings},
		}
		for _, name := range []string{keyring.NodeKey, keyring.Certificate, keyring.TenantPub} {
			of := filepath.Join(keys, filepath.Base(path)+name)
			runtest.NoError(t, errors.Join(os.MkdirAll(of, 0o700), os.Symlink(path, filepath.Join(of, name))))
			lines = append(lines, []string{"keys", "show", "--dir", of}, []string{"serve", "--store", filepath.Join(dir, "st"), "--listen", "127.0.0.1:0", "--set", "keys=" + of})
		}
		for _, line := range lines {
			runtest.Contains(t, strings.Join(line, " "), failing(t, line), want)
		}
	}
}

// refusedFiles are a file above the limit, a named pipe and an endless device, with what the refusal of each says.
func refusedFiles(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	large, pipe := filepath.Join(dir, "large"), filepath.Join(dir, "pipe")
	runtest.NoError(t, errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, 100<<20), syscall.Mkfifo(pipe, 0o600)))
	return map[string]string{large: "limit of 16777216 bytes", pipe: "is not a regular file", "/dev/zero": "is not a regular file"}
}

// failing runs a command line that fails, and returns its messages.
func failing(t *testing.T, args []string) string {
	t.Helper()
	return failingIn(t, map[string]string{"LASH_TOKEN": "x"}, args)
}

// failingIn is failing with variables.
func failingIn(t *testing.T, variables map[string]string, args []string) string {
	t.Helper()
	var messages bytes.Buffer
	in, err := os.Open(os.DevNull)
	runtest.NoError(t, err)
	defer func() { _ = in.Close() }()
	ended := make(chan int, 1)
	env := func(name string) string { return variables[name] }
	go func() {
		ended <- line(&cli{}).Run(t.Context(), args, &streams{Out: io.Discard, Err: &messages, In: in, Env: env})
	}()
	if code := bustest.Receive(t, fmt.Sprintf("the end of %v", args), ended); code == 0 {
		t.Errorf("%v: succeeded", args)
	}
	return messages.String()
}
