package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/openai"
)

// TestLessons: where an endpoint refuses a request for several things, one after the other, the request is made once more for each,
// and later ones are made as it wants them.
func TestLessons(t *testing.T) {
	t.Parallel()
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		var sent struct {
			MaxTokens int `json:"max_tokens"`
			Messages  []map[string]any
		}
		_ = json.Unmarshal(body, &sent)
		refusal := ""
		switch {
		case strings.Count(string(body), "é") > 512:
			refusal = "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024"
		case len(sent.Messages) > 1 && sent.Messages[1]["channel"] != nil:
			refusal = "property 'channel' is unsupported"
		case sent.MaxTokens == 0:
			refusal = "max_tokens: Field required"
		default:
			_, _ = io.WriteString(w, sse(delta(`{"content":"ok","channel":"final"}`, `"stop"`)))
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, refusal)
	}))
	t.Cleanup(s.Close)
	p := open(t, openai.Config{BaseURL: s.URL, HTTPClient: s.Client()})
	first, err := p.Complete(t.Context(), request(), nil) // learns the limit alone
	if err != nil || calls != 2 {
		t.Fatalf("got %v after %d requests, want 2", err, calls)
	}
	req := request(events.Message{Role: events.RoleAssistant, Parts: first.Parts}, user("on"))
	req.Tools = []llm.Tool{{Name: "f", Description: strings.Repeat("é", 3000), InputSchema: []byte(`{}`)}}
	for _, want := range []int{5, 6} {
		if _, err := p.Complete(t.Context(), req, nil); err != nil || calls != want {
			t.Errorf("got %v after %d requests, want %d", err, calls, want)
		}
	}
}
