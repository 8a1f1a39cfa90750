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
	llmtest.TestWire(t, llmtest.OpenAI{}, opened)
}

func FuzzChat(f *testing.F) { llmtest.FuzzReader(f, llmtest.OpenAI{}, opened) }

func opened(t *testing.T, baseURL, key string, client *http.Client) llm.Provider {
	t.Helper()
	return open(t, openai.Config{APIKey: key, BaseURL: baseURL, HTTPClient: client})
}
