package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/anthropic"
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/openai"
)

// BenchmarkStream receives a reply of a thousand pieces of text over each wire, which the endpoint sends at once.
func BenchmarkStream(b *testing.B) {
	words := make([]string, 1000)
	for i := range words {
		words[i] = fmt.Sprintf("word%d ", i)
	}
	for name, c := range map[string]struct {
		wire llmtest.Wire
		open func(llm.Config) (*llm.Endpoint, error)
	}{
		"chat": {llmtest.OpenAI{}, openai.New}, "responses": {llmtest.OpenAIResponses{}, openai.NewResponses}, "messages": {llmtest.Anthropic{}, anthropic.New},
	} {
		b.Run(name, func(b *testing.B) {
			body, end := c.wire.Stream(llmtest.Text(words...))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, body+end)
			}))
			b.Cleanup(server.Close)
			p, err := c.open(llm.Config{APIKey: llmtest.Key, BaseURL: server.URL})
			runtest.NoError(b, err)
			ask := llm.Request{Model: "m", Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "go on"}}}}}
			for b.Loop() {
				_, err = p.Complete(b.Context(), ask, func(llm.Delta) {})
				runtest.NoError(b, err)
			}
		})
	}
}
