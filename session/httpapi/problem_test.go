package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/session"
)

// TestProblemIsOneSentence sends the client one sentence, and the log the operations that the error passed through.
func TestProblemIsOneSentence(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	core, logged := observer.New(zap.DebugLevel)
	cfg.Logger = zap.New(core)
	s := newServer(t, cfg)
	w := ask(t, s, "POST", "/v1/sessions/nope/turns", `{"text":"hi"}`)
	var p struct{ Detail string }
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Detail != "session nope: no such session" {
		t.Errorf("got %s, %v, want one sentence", w.Body, err)
	}
	list := logged.FilterMessage("request refused").All()
	if len(list) != 1 || !strings.Contains(fmt.Sprint(list[0].ContextMap()["error"]), "submit") {
		t.Errorf("log: got %v, want the operations of the error", list)
	}
}

// TestErasedSessionSaysWho: the problem says when, by which caller and why the session was erased.
func TestErasedSessionSaysWho(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	s := newServer(t, cfg)
	ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
	if _, err := cfg.Service.(*session.Host).Erase(t.Context(), "s", "asked to"); err != nil {
		t.Fatal(err)
	}
	w := ask(t, s, "GET", "/v1/sessions/s", "")
	if got := code(t, w); got != "404 session_erased" || !strings.Contains(w.Body.String(), `"by":"host"`) || !strings.Contains(w.Body.String(), "Z by host: asked to\"") {
		t.Errorf("got %s: %s, want when, by whom and why", got, w.Body)
	}
}
