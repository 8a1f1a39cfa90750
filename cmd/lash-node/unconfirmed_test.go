package main

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestLongWithoutYes runs every command that has --yes without it, as text and as JSON: nothing is done, the exit code is 2, and the last
// line says what --yes does. The list of commands is that of the program.
func TestLongWithoutYes(t *testing.T) {
	t.Parallel()
	node := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0")
	h := clientOf(t, node)
	_, err := h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	commands := map[string][]string{
		"erase":  {"s", "--reason", "x"},
		"redact": {"s", "--reason", "x", "--kind", "session.opened", "--close"},
	}
	parser, err := kong.New(new(cli), kong.Vars{"version": ""})
	runtest.NoError(t, err)
	want := regexp.MustCompile(`^lash-node: nothing is done: --yes \w+ .*session s, which cannot be undone$`)
	for _, leaf := range parser.Model.Leaves(false) {
		if !slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "yes" }) {
			continue
		}
		command := strings.TrimPrefix(leaf.FullPath(), parser.Model.Name+" ")
		args, ok := commands[command]
		if !ok {
			t.Errorf("%s: this test has no arguments for it", command)
			continue
		}
		delete(commands, command)
		for _, more := range [][]string{nil, {"--json"}} {
			out, errs, code := lashNode(t, slices.Concat(strings.Fields(command), []string{"--store", node.store}, args, more)...)
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			if code != exitFailed || !want.MatchString(lines[len(lines)-1]) {
				t.Errorf("%s %q: got code %d, %q %q, want %d and a last line like %s", command, more, code, out, errs, exitFailed, want)
			}
		}
	}
	if len(commands) > 0 {
		t.Errorf("commands without --yes: got %v", commands)
	}
	if s, err := h.State(limited(t), "s"); err != nil || s.Status != "open" || s.Seq != 1 || s.Redacted != 0 {
		t.Errorf("session: got %+v, %v, want it as it was", s, err)
	}
	node.stop(t, syscall.SIGTERM)
}
