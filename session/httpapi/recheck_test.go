package httpapi_test

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
)

// awaited is a service that signals when a request waits for a turn.
type awaited struct {
	operation.Host
	began chan<- struct{}
}

func (a awaited) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	close(a.began)
	return a.Host.Await(ctx, id, turn)
}

// clock is the clock of tokens: the real one, until the test sets it.
type clock struct{ at atomic.Pointer[time.Time] }

func (c *clock) now() time.Time {
	if t := c.at.Load(); t != nil {
		return *t
	}
	return time.Now()
}

// TestOpenRequestEndsWithItsToken revokes a caller's token in every way while a stream and a waiting request are
// open. Both end, and those of another caller continue.
func TestOpenRequestEndsWithItsToken(t *testing.T) {
	t.Parallel()
	token := func(name string, change func(*httpapi.Token)) httpapi.Token {
		k := httpapi.Token{Name: name, Digest: sha256.Sum256([]byte(name)), Scope: api.ScopeWrite}
		change(&k)
		return k
	}
	expires := time.Now().Add(time.Hour)
	for name, change := range map[string]func(*httpapi.Tokens, *clock) error{
		"removed": func(k *httpapi.Tokens, _ *clock) error { return k.Replace(nil) },
		"expired": func(_ *httpapi.Tokens, c *clock) error {
			c.at.Store(&expires)
			return nil
		},
		"renamed": func(k *httpapi.Tokens, _ *clock) error {
			return k.Replace([]httpapi.Token{token("you", func(k *httpapi.Token) { k.Name = "she" })})
		},
		"right": func(k *httpapi.Tokens, _ *clock) error {
			return k.Replace([]httpapi.Token{token("you", func(k *httpapi.Token) { k.Scope = "approve" })})
		},
		"own_alone": func(k *httpapi.Tokens, _ *clock) error {
			return k.Replace([]httpapi.Token{token("you", func(k *httpapi.Token) { k.Own = true })})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens, err := httpapi.NewTokens([]httpapi.Token{token("you", func(k *httpapi.Token) { k.Expires = expires })})
			if err != nil {
				t.Fatal(err)
			}
			now, began := &clock{}, make(chan struct{})
			tokens.SetNow(now.now)
			cfg := config(t)
			cfg.Service = awaited{cfg.Service, began}
			cfg.Identity, cfg.Recheck, cfg.KeepAlive = []httpapi.Identifier{tokens}, 5*time.Millisecond, time.Millisecond
			s := newServer(t, cfg)
			served := httptest.NewServer(s)
			t.Cleanup(func() { s.Drain(); served.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
			ask(t, s, "POST", "/v1/sessions/s/turns", `{"id":"t","text":"hello"}`)
			open := func(token, path string) *http.Response {
				t.Helper()
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, served.URL+path, nil)
				r.Header.Set("Authorization", "Bearer "+token)
				got, err := served.Client().Do(r)
				if err != nil || got.StatusCode >= http.StatusBadRequest {
					t.Fatalf("%s: got %v, %v, want an answer", path, got, err)
				}
				t.Cleanup(func() { _ = got.Body.Close() })
				return got
			}
			mine, stream := open(secret, "/v1/sessions/s/events"), open("you", "/v1/sessions/s/events") //nolint:bodyclose // closed at the end of the test
			waited := make(chan int, 1)
			go func() {
				r := httptest.NewRequestWithContext(ctx, "GET", "/v1/sessions/s/turns/t?wait=300", nil)
				r.Header.Set("Authorization", "Bearer you")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				waited <- w.Code
			}()
			if _, err := io.ReadFull(stream.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			<-began
			if err := change(tokens, now); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(stream.Body); err != nil {
				t.Errorf("stream: got %v, want its end in order", err)
			}
			if got := <-waited; got != http.StatusAccepted {
				t.Errorf("request that waits: got %d, want 202", got)
			}
			if _, err := io.ReadFull(mine.Body, make([]byte, 200)); err != nil { // comments, at least
				t.Errorf("another caller's stream: got %v, want it open", err)
			}
		})
	}
}
