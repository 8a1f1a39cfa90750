package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestLongRequestsAreLogged sends more requests a second than a sampling logger writes. Each has its line, and the metrics
// count it.
func TestLongRequestsAreLogged(t *testing.T) {
	t.Parallel()
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "open sesame"), "--ops", "127.0.0.1:0")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if got := s.request(t, client, "open sesame", "POST", "/sessions", `{"id":"s"}`); got != http.StatusCreated {
		t.Fatalf("create: got %d, want 201", got)
	}
	const n = 400
	for range n {
		if got := s.request(t, client, "a guess", "GET", "/sessions/s", ""); got != http.StatusUnauthorized {
			t.Fatalf("got %d, want 401", got)
		}
	}
	metrics := get(t, s.ops+"/metrics")
	for _, want := range []string{
		`lash_requests_total{api="http",code="ok",operation="createSession"} 1`, fmt.Sprintf(`lash_requests_total{api="http",code="unauthorized",operation="getSession"} %d`, n),
		fmt.Sprintf(`lash_refusals_total{caller="(unknown)",code="unauthorized"} %d`, n),
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics: got nothing of %s", want)
		}
	}
	s.stop(t, syscall.SIGTERM)
	output := strings.Join(s.lines, "\n")
	if got := strings.Count(output, `"code":"unauthorized"`); got != n {
		t.Errorf("log: got %d lines of refusals, want %d", got, n)
	}
	if !strings.Contains(output, `"op":"createSession","session":"","caller":"me","status":201`) || strings.Contains(output, "sesame") || strings.Contains(output, "guess") {
		t.Errorf("log: got %.2000s, want who created the session, and no token", output)
	}
}
