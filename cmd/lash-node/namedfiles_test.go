//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program/programtest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongEveryFileIsRegular tests the files that flags and arguments name, and those that --config names.
func TestLongEveryFileIsRegular(t *testing.T) {
	t.Parallel()
	parser, err := line(&cli{}).Parser(&streams{}, func(int) {})
	runtest.NoError(t, err)
	lines := programtest.EveryFileIsRegular(t, parser.Model, func(args []string) string { return failing(t, args) })
	if lines < 150 {
		t.Errorf("%d command lines were tested", lines)
	}
	dir := t.TempDir()
	pipe, config := filepath.Join(dir, "pipe"), filepath.Join(dir, "config.json")
	runtest.NoError(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(config, []byte(`{"locks":"`+pipe+`"}`), 0o600)))
	runtest.Contains(t, "in --config", failing(t, []string{"serve", "--config", config}), "setting locks: "+pipe)
}

// TestWrittenFilesDoNotWait gives flags of files that are written a named pipe without a reader: the command ends, and names the flag.
func TestWrittenFilesDoNotWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	runtest.NoError(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(filepath.Join(dir, "bad.lash"), nil, 0o600)))
	for _, args := range [][]string{
		{"serve", "--store", filepath.Join(dir, "st"), "--listen", "127.0.0.1:0", "--set", "heads=" + pipe},
		{"check", filepath.Join(dir, "bad.lash"), "--junit", pipe},
	} {
		flag, _, _ := strings.Cut(strings.Replace(strings.Join(args[len(args)-2:], " "), "--set ", "setting ", 1), "=")
		flag, _, _ = strings.Cut(flag, " "+pipe)
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
	runtest.NoError(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte(text), 0o600)))
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
