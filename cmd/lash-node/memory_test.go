package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestLongMemoryHasOwners asks for views and a body of a large session hundreds of times at once. Each request ends with what it asked
// for, or is told to come again; turns of another caller go on; and the node stays within its memory.
func TestLongMemoryHasOwners(t *testing.T) {
	t.Parallel()
	const budget, beside, atOnce = 256, 200, 640 // MiB, MiB, requests
	tokens := file(t, "tokens", fmt.Appendf(nil, "greedy write %x\nother write %x\n", sha256.Sum256([]byte("greedy")), sha256.Sum256([]byte("other"))))
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokens, "--memory", fmt.Sprintf("%dMiB", budget))
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 200, MaxIdleConnsPerHost: 200}}
	ask := func(token, method, path, body string) (status, size int) {
		r, err := http.NewRequestWithContext(limited(t), method, s.http+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		r.Header.Set("Authorization", "Bearer "+token)
		got, err := client.Do(r)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
			return 0, 0
		}
		defer got.Body.Close() //nolint:errcheck // it was read
		n, err := io.Copy(io.Discard, got.Body)
		runtest.WantError(t, fmt.Sprintf("%s %s", method, path), err, nil)
		return got.StatusCode, int(n)
	}
	for id, owner := range map[string]string{"large": "greedy", "mine": "other"} {
		if got, _ := ask(owner, "POST", "/sessions", fmt.Sprintf(`{"id":%q}`, id)); got != http.StatusCreated {
			t.Fatalf("create %s: got %d", id, got)
		}
	}
	const each, requests = 14, 24 // messages of 60 000 bytes: 20 MB
	for n := range requests {
		var nodes []string
		for i := range each {
			nodes = append(nodes, fmt.Sprintf(`{"id":"n%d-%d","message":{"role":"user","parts":[{"type":"text","text":%q}]}}`, n, i, strings.Repeat("x", 60000)))
		}
		if got, _ := ask("greedy", "POST", "/sessions/large/nodes", `{"nodes":[`+strings.Join(nodes, ",")+`]}`); got != http.StatusOK && got != http.StatusCreated {
			t.Fatalf("append: got %d", got)
		}
	}
	stored, err := http.NewRequestWithContext(limited(t), http.MethodPost, s.http+"/sessions/large/blobs", bytes.NewReader(make([]byte, 16<<20)))
	runtest.NoError(t, err)
	stored.Header.Set("Authorization", "Bearer greedy")
	got, err := client.Do(stored)
	if err != nil || got.StatusCode != http.StatusCreated {
		t.Fatalf("store a body: got %+v, %v", got, err)
	}
	_ = got.Body.Close()
	turns := 0
	for _, what := range []string{"/view", "/view?at=20", "/view?last=1", "/view?from=100&limit=1", "/blobs/" + path.Base(got.Header.Get("Location"))} {
		var all sync.WaitGroup
		var mu sync.Mutex
		answers := make(map[int]int)
		for range atOnce {
			all.Go(func() {
				status, _ := ask("greedy", "GET", "/sessions/large"+what, "")
				mu.Lock()
				defer mu.Unlock()
				answers[status]++
			})
		}
		for range 5 {
			turns++
			if got, _ := ask("other", "POST", "/sessions/mine/turns?wait=60", fmt.Sprintf(`{"id":"t%d","text":"hi"}`, turns)); got != http.StatusOK && got != http.StatusCreated {
				t.Errorf("another caller's turn beside %q: got %d", what, got)
			}
		}
		all.Wait()
		if answers[http.StatusOK] == 0 || answers[http.StatusOK]+answers[http.StatusTooManyRequests] != atOnce {
			t.Errorf("%s: got %v, want 200 and 429 alone", what, answers)
		}
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)); err == nil { // on Linux
		var most int
		for line := range strings.Lines(string(status)) {
			_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &most)
		}
		if most == 0 || most>>10 > budget+beside {
			t.Errorf("memory: got %d MiB, want at most %d", most>>10, budget+beside)
		}
	}
	s.stop(t, syscall.SIGTERM)
}
