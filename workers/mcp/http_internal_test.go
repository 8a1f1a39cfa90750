package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMissingSession sends requests of a call to servers that answer with all sequences of codes. Only a 404 in answer to the request
// that has the call, to its last address, says that the server has not handled the call, and that it may in another session.
func TestMissingSession(t *testing.T) {
	t.Parallel()
	codes := []int{http.StatusOK, http.StatusTemporaryRedirect, http.StatusNotFound, http.StatusServiceUnavailable}
	for _, first := range codes {
		for _, second := range codes {
			for _, method := range []string{http.MethodPost, http.MethodGet} {
				for _, session := range []string{"", "1"} {
					if got, want := missing(t, method, session, first, second), session != "" &&
						(first == http.StatusNotFound || first == http.StatusTemporaryRedirect && second == http.StatusNotFound && method == http.MethodPost); got != want {
						t.Errorf("session %q, POST with %d, %s with %d: got missing %t, want %t", session, first, method, second, got, want)
					}
				}
			}
		}
	}
}

// missing sends a POST and another request of a call, whose answers have these codes.
func missing(t *testing.T, method, session string, codes ...int) bool {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(codes[n])
		n++
	}))
	defer server.Close()
	call := &attempt{}
	ctx := context.WithValue(t.Context(), attemptKey{}, call)
	run := newTestRun(t)
	run.server.URL = server.URL
	through := newWeb(run)
	for i, method := range []string{http.MethodPost, method} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`
		switch {
		case method == http.MethodGet:
			body = ""
		case i > 0 && codes[0] != http.StatusTemporaryRedirect: // the library tells the server of the end
			body = `{"jsonrpc":"2.0","method":"notifications/cancelled"}`
		}
		r, err := http.NewRequestWithContext(ctx, method, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if session != "" {
			r.Header.Set(sessionHeader, session)
		}
		answer, err := through.RoundTrip(r)
		if err != nil {
			t.Fatal(fmt.Errorf("request %d: %w", i, err))
		}
		_ = answer.Body.Close()
	}
	over := call.refused.Load()
	return over != nil && over.forgets()
}
