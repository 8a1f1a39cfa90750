package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongIndependentVerifier runs the verifier in JavaScript, which shares no code with this module, on untouched, redacted
// and changed archives.
func TestLongIndependentVerifier(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, map[string]string{"node": "nodejs"}, "node")
	source, err := os.ReadFile(filepath.Join("..", "..", "sdk", "verify", "verify.mjs"))
	if lines := strings.Count(string(source), "\n"); err != nil || lines >= 300 {
		t.Errorf("verifier: got %d lines, %v, want less than 300", lines, err)
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	store := in("store")
	runtest.NoError(t, makeSigned([]string{store}))
	command(t, "export", "signed", "--store", store, "-o", in("whole.lash"))
	command(t, "export", "signed", "--store", store, "-o", in("redacted.lash"), "--redact", "model.*", "--redact", "session.opened", "--reason", "asked to", "--as", "ann")
	key := filepath.Join(store, "keys", "tenant.pub")
	command(t, "export", in("redacted.lash"), "-o", in("twice.lash"), "--redact", "tool.*", "--reason", "more", "--as", "bob")
	for _, change := range []string{"reason", "unrecorded"} {
		runtest.NoError(t, forgeArchive([]string{in("redacted.lash"), in(change + ".lash"), change}))
	}
	for _, change := range []string{"alter", "remove", "swap", "insert", "cut", "strip"} {
		runtest.NoError(t, forgeArchive([]string{in("whole.lash"), in(change + ".lash"), change}))
	}
	for _, tt := range []struct {
		archive string
		code    int
		want    string
	}{
		{"whole.lash", 0, "signed: 3 heads verified, commits 1 to 12 are signed, 0 come after the last head"},
		{"redacted.lash", 0, "signed: 3 heads verified, commits 1 to 12 are signed, 0 come after the last head"},
		{"redacted.lash", 0, ".0: session.opened, redacted\nsequence "},
		{"redacted.lash", 0, `by "ann": "asked to" (["model.*","session.opened"]), signed by node-`},
		{"twice.lash", 0, `by "bob": "more" (["tool.*"]), which is not signed`},
		{"twice.lash", 0, `by "ann": "asked to" (["model.*","session.opened"]), signed by node-`},
		{"reason.lash", 1, `a redaction by "ann" is not the one that was signed`},
		{"unrecorded.lash", 0, ".0: session.opened, redacted\nsequence "},
		{"alter.lash", 1, "sequence 3, commit"},
		{"remove.lash", 1, "sequence 3, commit"},
		{"swap.lash", 1, "sequence 2, commit"},
		{"insert.lash", 1, "sequence 4, commit 01JD6Z0000000000000000000A:"},
		{"cut.lash", 0, "commits 1 to 9 are signed, 2 come after the last head"},
		{"strip.lash", 1, "0 heads verified"},
	} {
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join("..", "..", "sdk", "verify", "verify.mjs"), in(tt.archive), key) //nolint:gosec // of this test
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: got exit code %d, %v, want %d and %q:\n%s", tt.archive, code, err, tt.code, tt.want, out)
		}
	}
}

// command runs lash-replay, which must succeed, and returns its output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(t.Context(), args, &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }}); code != 0 {
		t.Fatalf("lash-replay %s: got exit code %d: %s%s", strings.Join(args, " "), code, &out, &errs)
	}
	return out.String()
}
