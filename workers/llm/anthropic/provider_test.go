package anthropic_test

import (
	"net/http"
	"testing"

	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/anthropic"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

func TestProviderAgainstWire(t *testing.T) {
	t.Parallel()
	llmtest.TestWire(t, llmtest.Anthropic{}, opened)
}

func FuzzMessages(f *testing.F) { llmtest.FuzzReader(f, llmtest.Anthropic{}, opened) }

func opened(t *testing.T, baseURL, key string, client *http.Client) llm.Provider {
	t.Helper()
	return open(t, anthropic.Config{APIKey: key, BaseURL: baseURL, HTTPClient: client})
}
