package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestReread looks at two files after each change: loaded is what two looks found, and a bad file changes nothing.
func TestReread(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	r := &rereader{log: zap.New(core)}
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var loaded []string
	load := func(contents [][]byte) error {
		if strings.HasPrefix(string(contents[0]), "bad") {
			return errors.New("it is bad")
		}
		loaded = append(loaded, string(contents[0])+string(contents[1]))
		return nil
	}
	put("a", "bad")
	put("b", "1")
	if err := r.add("--x", load, filepath.Join(dir, "a"), filepath.Join(dir, "b")); err == nil || err.Error() != "--x: it is bad" {
		t.Errorf("first load: got %v, want the flag and the fault", err)
	}
	put("a", "A")
	if err := r.add("--x", load, filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		change func()
		loaded string // after two looks more, and three; empty: nothing
		errors int
	}{
		{func() {}, "", 0},
		{func() { put("b", "2") }, "A2", 0},
		{func() { put("a", "bad") }, "", 1},
		{func() { put("a", "A") }, "A2", 0},
		{func() { put("a", "B"); put("b", "3") }, "B3", 0},
		{func() { _ = os.Remove(filepath.Join(dir, "b")) }, "", 1},
		{func() { put("b", "4") }, "B4", 0},
	} {
		loaded = nil
		logs.TakeAll()
		step.change()
		r.look()
		if len(loaded)+logs.Len() > 0 {
			t.Errorf("step %d: got %v after one look, want a second one first", i, loaded)
		}
		r.look()
		r.look()
		var want []string
		if step.loaded != "" {
			want = []string{step.loaded}
		}
		if got := logs.FilterLevelExact(zap.ErrorLevel).Len(); !slices.Equal(loaded, want) || got != step.errors {
			t.Errorf("step %d: got %q and %d errors, want %q and %d", i, loaded, got, want, step.errors)
		}
	}
}

// asks is a client of a node's HTTP door.
func (s *serving) asks(t *testing.T, client *http.Client, token, method, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(limited(t), method, s.http+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := client.Do(r)
	if err != nil {
		return 0
	}
	_ = got.Body.Close()
	return got.StatusCode
}

// until asks until a status comes.
func (s *serving) until(t *testing.T, client *http.Client, token string, want int) {
	t.Helper()
	for ctx := limited(t); s.asks(t, client, token, "GET", "/sessions/s", "") != want; {
		select {
		case <-ctx.Done():
			t.Fatalf("token %s: never got %d", token, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestTokensAreReadAgain replaces the file of a node that serves: by another one, by a broken one, by an empty one, and back.
func TestTokensAreReadAgain(t *testing.T) {
	t.Parallel()
	line := func(name, text string) string { return fmt.Sprintf("%s write %x\n", name, sha256.Sum256([]byte(text))) }
	tokens := file(t, "tokens", []byte(line("me", "one")))
	s := serve(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokens)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(tokens+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tokens+".new", tokens); err != nil {
			t.Fatal(err)
		}
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.asks(t, client, "one", "POST", "/sessions", `{"id":"s"}`); got != http.StatusCreated {
		t.Fatalf("create: got %d, want 201", got)
	}
	replace(line("me", "one") + line("you", "two"))
	s.until(t, client, "two", http.StatusOK)
	replace(line("you", "two"))
	s.until(t, client, "one", http.StatusUnauthorized)
	for _, bad := range []string{"you write hunter2\n", "", line("you", "two") + line("she", "two")} {
		replace(bad)
		for s.err.Scan() && !strings.Contains(s.err.Text(), "is not loaded: what was loaded before stays in use") {
			if strings.Contains(s.err.Text(), "hunter2") {
				t.Errorf("log: got %s, want nothing of the file", s.err.Text())
			}
		}
		if got := s.asks(t, client, "two", "GET", "/sessions/s", ""); got != http.StatusOK {
			t.Errorf("after the bad file %q: got %d, want 200", bad, got)
		}
	}
	s.stop(t, syscall.SIGTERM)
}
