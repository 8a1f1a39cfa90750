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
	llmtest.TestWire(t, llmtest.Anthropic{}, func(t *testing.T, baseURL, key string, client *http.Client) llm.Provider {
		t.Helper()
		p, err := anthropic.New(anthropic.Config{APIKey: key, BaseURL: baseURL, HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}
