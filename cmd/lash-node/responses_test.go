package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestServeResponses runs a turn through the Responses API on a served node.
func TestServeResponses(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + r.URL.Path {
		case "GET/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "POST/responses":
			request, _ := io.ReadAll(r.Body)
			if _, err := (llmtest.OpenAIResponses{}).Read(request); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body, end := llmtest.OpenAIResponses{}.Stream(llmtest.Text("done"))
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body+end)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(model.Close)
	s := serveModel(t, model.URL, "--provider", "openai-responses", "--store", t.TempDir(), "--listen", "127.0.0.1:0")
	defer s.stop(t, syscall.SIGTERM)
	h := clientOf(t, s)
	_, err := h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	_, err = h.Submit(limited(t), "s", api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}})
	runtest.NoError(t, err)
	if r, err := h.Await(limited(t), "s", "t"); err != nil || r.End != events.EndFinished || r.Text != "done" {
		t.Errorf("turn: got %+v, %v", r, err)
	}
}
