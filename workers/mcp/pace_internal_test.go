package mcp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// TestAnswersShareThePace reads two answers of one server over HTTP: the second waits for the limit that the first used.
func TestAnswersShareThePace(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("\n", 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	t.Cleanup(server.Close)
	shared := &pace{messages: rate.NewLimiter(rate.Every(time.Hour), len(body)), bytes: rate.NewLimiter(rate.Inf, 0)} // one answer, and then none
	h := &headed{pace: shared, life: t.Context(), others: make(chan struct{}, 1), wait: time.Minute}
	read := func() (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a wait beyond it fails at once
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := h.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		data, err := io.ReadAll(answer.Body)
		return len(data), err
	}
	if n, err := read(); n != len(body) || err != nil {
		t.Fatalf("first answer: got %d bytes, %v, want %d", n, err, len(body))
	}
	if _, err := read(); err == nil {
		t.Error("second answer: got it whole, want it to wait for the limit of the server")
	}
}
