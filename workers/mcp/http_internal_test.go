package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
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
	call := &activeCall{}
	ctx := context.WithValue(t.Context(), activeCallKey{}, call)
	through := &headed{streams: rate.NewLimiter(rate.Inf, 1), pace: newPace(func() bool { return true }), life: t.Context(), others: make(chan struct{}, 1), wait: time.Minute}
	for i, method := range []string{http.MethodPost, method} {
		r, err := http.NewRequestWithContext(ctx, method, server.URL, strings.NewReader("{}"))
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
	return over != nil && over.renews(nil)
}
