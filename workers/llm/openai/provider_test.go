package openai_test

import (
	"net/http"
	"testing"

	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/openai"
)

func TestProviderAgainstWire(t *testing.T) {
	t.Parallel()
	llmtest.TestWire(t, llmtest.OpenAI{}, func(t *testing.T, baseURL, key string, client *http.Client) llm.Provider {
		t.Helper()
		p, err := openai.New(openai.Config{APIKey: key, BaseURL: baseURL, HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}
