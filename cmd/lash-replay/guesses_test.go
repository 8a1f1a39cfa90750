package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestGuesses redacts the request "yes" of an archive, and tests guesses with what stays, as FORMAT.md lists it: neither the digest of
// the payload nor that of the request shows which guess is right. The digest of the prompt does, which the command says, until the reply is
// redacted too.
func TestGuesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	askYes(t, store)
	export := func(name string, what ...string) (*archive, string) {
		args := []string{"export", "s", "--store", store, "-o", filepath.Join(dir, name), "--reason", "asked to", "--as", "ann"}
		for _, one := range what {
			args = append(args, "--redact", one)
		}
		var out, errs strings.Builder
		if code := run(t.Context(), args, &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }}); code != 0 {
			t.Fatalf("export: got exit code %d: %s", code, &errs)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		runtest.NoError(t, err)
		a, err := openArchive(filepath.Join(dir, name), 64, nil)
		if err != nil || bytes.Contains(data, []byte("yes")) {
			t.Fatalf("archive: got %v, and the text in it: %t", err, bytes.Contains(data, []byte("yes")))
		}
		return a, errs.String()
	}

	input, said := export("input.lash", "turn.requested")
	if want := "digests of prompts: 1, which redacting model.* removes)"; !strings.Contains(said, want) {
		t.Errorf("export: got %q, want %q", said, want)
	}
	seen := 0
	for e, err := range input.Log().Read(t.Context(), "s", 1) {
		runtest.NoError(t, err)
		for i := range e.Commit.Events {
			if ev := &e.Commit.Events[i]; ev.Redacted != nil {
				seen++
				testGuess(t, e.Commit, ev)
			}
		}
	}
	if seen != 1 {
		t.Fatalf("got %d redacted events, want 1", seen)
	}
	for guess, wrong := range map[string]bool{"yes": false, "no": true} {
		if got := wrongPrompts(t, input, guess); (got > 0) != wrong {
			t.Errorf("guess %q: got %d prompts with another digest, want some: %t", guess, got, wrong)
		}
	}

	both, said := export("both.lash", "turn.requested", "model.*")
	if strings.Contains(said, "guesses") {
		t.Errorf("export with model.*: got %q, want no digest that guesses can be tested with", said)
	}
	for _, guess := range []string{"yes", "no"} {
		if got := wrongPrompts(t, both, guess); got != 0 {
			t.Errorf("with model.*, guess %q: got %d prompts with another digest, want none to compare", guess, got)
		}
	}
}

// askYes makes a store with a session in which a request with a key says yes.
func askYes(t *testing.T, store string) {
	t.Helper()
	provider := scripted.New(func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Parts: textParts("done"), Stop: events.StopEnd}}, nil
	})
	l, err := embedded.Start(t.Context(), embedded.Config{Provider: provider, Model: "m1", StoreDir: store})
	runtest.NoError(t, err)
	defer l.Stop()
	_, err = l.Create(t.Context(), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	for range 2 { // the second one is a repeat
		req := api.Ask("yes")
		req.ID = "t1"
		_, err = l.Run(api.WithRequestMeta(t.Context(), api.RequestMeta{Key: "k1"}), "s", req)
		runtest.NoError(t, err)
	}
}

// testGuess compares the digests of a redacted request with those of the right guess.
func testGuess(t *testing.T, c *events.Commit, ev *events.Event) {
	t.Helper()
	payload, err := events.EncodePayload(guessOf("yes"))
	runtest.NoError(t, err)
	plain := sha256.Sum256(payload)
	salted := sha256.Sum256(append(bytes.Clone(c.Salt), payload...))
	if bytes.Equal(ev.Redacted, plain[:]) || bytes.Equal(ev.Redacted, salted[:]) {
		t.Errorf("digest of the payload: got %x, which the right guess has", ev.Redacted)
	}
	if c.Key != "k1" || !events.IsSalted(c.Digest) {
		t.Errorf("digest of the request: got %q, want a salted one", c.Digest)
	}
	if len(c.Salt) == events.SaltBytes && len(c.Events) != 2 {
		t.Errorf("salt: got %x in a commit of %d events, one of them redacted", c.Salt, len(c.Events))
	}
}

func guessOf(text string) *events.TurnRequested {
	return &events.TurnRequested{Input: events.TurnInput{Parts: textParts(text)}}
}

// wrongPrompts folds a redacted archive with a guess in place of the redacted request, and counts the prompts whose digest is another one.
func wrongPrompts(t *testing.T, a *archive, guess string) (wrong int) {
	t.Helper()
	v := projector.NewUnprovenVerifier("s")
	for e, err := range a.Log().Read(t.Context(), "s", 1) {
		runtest.NoError(t, err)
		for i := range e.Commit.Events {
			if ev := &e.Commit.Events[i]; ev.Redacted != nil && ev.Kind == events.KindTurnRequested {
				ev.Redacted, ev.Payload = nil, guessOf(guess)
			}
		}
		found, err := follow.Verify(t.Context(), a, v, e)
		runtest.NoError(t, err)
		for _, f := range found {
			if f.Check == projector.RulePrompt {
				wrong++
			}
		}
	}
	return wrong
}
