package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// makeEncrypted makes a store with an encrypted session, and the file of its keys.
func makeEncrypted(t *testing.T) (store, file string) {
	t.Helper()
	dir := t.TempDir()
	store, file = filepath.Join(dir, "store"), filepath.Join(dir, "bodies.key")
	keys, err := keyring.MakeBodies(file)
	runtest.NoError(t, err)
	provider := scripted.New(func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Parts: textParts("the secret answer"), Stop: events.StopEnd}}, nil
	})
	l, err := embedded.Start(t.Context(), embedded.Config{Provider: provider, Model: "m1", StoreDir: store, Keys: keys})
	runtest.NoError(t, err)
	defer l.Stop()
	_, err = l.Create(t.Context(), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	large := strings.Repeat("the large secret question ", 10_000)
	_, err = l.Run(t.Context(), "s", api.Ask(large))
	runtest.NoError(t, err)
	return store, file
}

// both runs lash-replay, and returns both outputs.
func both(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var text strings.Builder
	code = run(t.Context(), args, &program.Streams{Out: &text, Err: &text, Env: func(string) string { return "" }})
	return text.String(), code
}

// TestLongEncryptedHistory reads an encrypted history with its key and without, from the store and from its archive. Without the
// key everything but the bodies can be read, and the proof holds.
func TestLongEncryptedHistory(t *testing.T) {
	t.Parallel()
	store, file := makeEncrypted(t)
	dir := t.TempDir()
	public := filepath.Join(store, "keys", "tenant.pub")
	archive, without := filepath.Join(dir, "s.lash"), filepath.Join(dir, "without.lash")
	for _, tt := range []struct {
		args []string
		code int
		want string
		not  string
	}{
		{[]string{"show", "s", "--store", store, "--bodies-key", file}, 0, "the secret answer", "which is not here"},
		{[]string{"show", "s", "--store", store}, 0, "which is not here: --bodies-key FILE", "secret"},
		{[]string{"events", "s", "--store", store}, 0, "model.replied", "secret"},
		{[]string{"events", "s", "--store", store, "--json"}, 0, `"key":`, "secret"},
		{[]string{"verify", "s", "--store", store, "--key", public}, 0, "verified 1 session", "secret"},
		{[]string{"verify", "s", "--store", store, "--key", public, "--bodies-key", file}, 0, "verified 1 session", "which is not here"},
		{[]string{"ls", "--store", store}, 0, "s", "secret"},
		{[]string{"stats", "s", "--store", store}, 0, "s", "secret"},
		{[]string{"search", "secret", "--store", store}, 0, "", "the secret"},
		{[]string{"export", "s", "--store", store, "-o", without}, 0, "bodies that they refer to are not in the archive", "secret"},
		{[]string{"export", "s", "--store", store, "-o", archive, "--bodies-key", file}, 0, "1 blob", "which is not here"},
		{[]string{"export", "s", "--store", store, "-o", filepath.Join(dir, "s.json"), "--format", "record"}, 2, "which is not here: --bodies-key FILE", "secret"},
		{[]string{"export", "s", "--store", store, "-o", filepath.Join(dir, "s.md"), "--format", "markdown", "--bodies-key", file}, 0, "s.md", "which is not here"},
		{[]string{"export", "s", "--store", store, "-o", filepath.Join(dir, "cut.lash"), "--at", "4", "--bodies-key", file}, 0, "1 blob", "which is not here"},
		{[]string{"show", filepath.Join(dir, "cut.lash"), "--bodies-key", file}, 0, "the large secret question", "which is not here"},
		{[]string{"verify", archive, "--key", public}, 0, "verified 1 session", "secret"},
		{[]string{"verify", archive, "--key", public, "--bodies-key", file}, 0, "verified 1 session", "which is not here"},
		{[]string{"verify", without, "--key", public}, 0, "verified 1 session", "secret"},
		{[]string{"show", archive, "--bodies-key", file}, 0, "the secret answer", "which is not here"},
		{[]string{"show", archive}, 0, "which is not here", "secret"},
		{[]string{"check", archive, "--bodies-key", file}, 0, "", "which is not here"},
		{[]string{"show", archive, "--bodies-key", filepath.Join(dir, "none")}, 2, "--bodies-key", "secret"},
		{[]string{"show", archive, "--bodies-key", public}, 2, "--bodies-key", "secret"},
	} {
		out, code := both(t, tt.args...)
		if code != tt.code || !strings.Contains(out, tt.want) || tt.not != "" && strings.Contains(out, tt.not) {
			t.Errorf("%q: got exit code %d, want %d, with %q and without %q:\n%.1500s", tt.args, code, tt.code, tt.want, tt.not, out)
		}
	}
	for _, path := range []string{archive, without, filepath.Join(dir, "cut.lash")} {
		if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "secret") {
			t.Errorf("%s: %v, or it has a body", path, err)
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Log("no node: the verifier in sdk/verify is not run")
		return
	}
	out, err := exec.CommandContext(t.Context(), node, filepath.Join("..", "..", "sdk", "verify", "verify.mjs"), archive, public).CombinedOutput() //nolint:gosec // of this test
	if err != nil || !strings.Contains(string(out), "1 heads verified") {
		t.Errorf("the independent verifier: %v:\n%s", err, out)
	}
}

// TestVerifyNamesPlainCommits verifies archives of an encrypted history with a plain commit at its end or in its middle, with the key
// and without, and one that is plain up to its middle.
func TestVerifyNamesPlainCommits(t *testing.T) {
	t.Parallel()
	store, file := makeEncrypted(t)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.lash")
	if out, code := both(t, "export", "s", "--store", store, "-o", whole, "--bodies-key", file); code != 0 {
		t.Fatal(out)
	}
	for name, at := range map[string]int{"end": -1, "middle": 3} {
		forged := filepath.Join(dir, name+".lash")
		seq := insertPlain(t, whole, forged, at)
		for _, flags := range [][]string{nil, {"--bodies-key", file}} {
			out, code := both(t, append([]string{"verify", forged}, flags...)...)
			if want := fmt.Sprintf("commit %d, 01ARZ3NDEKTSV4RRFFQ69G5FAV, has plain payloads", seq); code != 1 || !strings.Contains(out, want) {
				t.Errorf("%s, %q: got exit code %d, want 1 with %q:\n%.1500s", name, flags, code, want, out)
			}
		}
		for _, command := range []string{"show", "check", "events"} {
			out, code := both(t, command, forged, "--bodies-key", file)
			if code == 0 || !strings.Contains(out, "without its key") {
				t.Errorf("%s of %s: got exit code %d:\n%.1500s", command, name, code, out)
			}
		}
	}
	plain := filepath.Join(dir, "plain.lash")
	insertPlain(t, "", plain, -1)
	if out, _ := both(t, "verify", plain, "--bodies-key", file); !strings.Contains(out, "session s: it is stored plain as a whole") {
		t.Errorf("a plain archive: no note:\n%.1500s", out)
	}
}

// insertPlain copies an archive with a plain commit after a number of commits, -1 for all, and returns its sequence. Without an archive it is
// the only commit.
func insertPlain(t *testing.T, from, to string, after int) events.Seq {
	t.Helper()
	out, err := os.Create(to)
	runtest.NoError(t, err)
	w, err := events.NewArchiveWriter(out, "s", 1)
	runtest.NoError(t, err)
	seq := events.Seq(0)
	insert := func() events.Seq {
		seq++
		c := &events.Commit{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorClient, ID: "eve"}, Events: []events.Event{events.Of("", &events.SessionOpened{})}}
		data, err := events.Encode(c)
		if err == nil {
			err = w.Commit(events.Entry{Seq: seq, Commit: c, Data: data})
		}
		runtest.NoError(t, err)
		return seq
	}
	inserted := events.Seq(0)
	if from != "" {
		in, err := os.Open(from)
		runtest.NoError(t, err)
		a, err := events.ReadArchive(in, 64<<20)
		runtest.NoError(t, err)
		for _, body := range a.Blobs {
			runtest.NoError(t, w.Blob(body))
		}
		for e, err := range a.Log.Read(t.Context(), "s", 1) {
			seq++
			if e.Seq = seq; err == nil {
				err = w.Commit(e)
			}
			runtest.NoError(t, err)
			if int(seq) == after {
				inserted = insert()
			}
		}
	}
	if inserted == 0 {
		inserted = insert()
	}
	runtest.NoError(t, errors.Join(w.Close(), out.Close()))
	return inserted
}
