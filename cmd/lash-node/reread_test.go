package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// request sends a request to the node's HTTP server and returns the status.
func (s *serving) request(t *testing.T, client *http.Client, token, method, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(limited(t), method, s.http+path, strings.NewReader(body))
	runtest.NoError(t, err)
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

// until repeats a request until the status is want.
func (s *serving) until(t *testing.T, client *http.Client, token string, want int) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("%d for token %s", want, token), func() bool {
		return s.request(t, client, token, "GET", "/sessions/s", "") == want
	})
}

// TestLongTokensAreReadAgain replaces the token file of a serving node: by another file, a broken one, an empty one, and
// the first one.
func TestLongTokensAreReadAgain(t *testing.T) {
	t.Parallel()
	line := func(name, text string) string { return fmt.Sprintf("%s write %x\n", name, sha256.Sum256([]byte(text))) }
	tokens := file(t, "tokens", []byte(line("me", "one")))
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokens)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	replace := func(text string) {
		t.Helper()
		runtest.NoError(t, os.WriteFile(tokens+".new", []byte(text), 0o600))
		runtest.NoError(t, os.Rename(tokens+".new", tokens))
		runtest.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	}
	if got := s.request(t, client, "one", "POST", "/sessions", `{"id":"s"}`); got != http.StatusCreated {
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
		if strings.Contains(s.err.Text(), "stacktrace") {
			t.Errorf("log: got %s, want no stack of an expected fault", s.err.Text())
		}
		runtest.Equal(t, fmt.Sprintf("after the bad file %q", bad), s.request(t, client, "two", "GET", "/sessions/s", ""), http.StatusOK)
	}
	s.stop(t, syscall.SIGTERM)
}
