package llm_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/workers/llm"
)

// TestRawErrorHasNoKey removes a key in every escaped form.
func TestRawErrorHasNoKey(t *testing.T) {
	t.Parallel()
	const key = "sk-a+b/c=d&e"
	for _, body := range []string{
		key, `{"error":"` + key + `"}`, `{"error":"sk-a\u002bb\/c\u003dd\u0026e"}`, `["\u0073\u006b-a+b/c=d&e"]`, `{"` + key + `":1}`,
	} {
		if got := llm.RawBody([]byte(body), key); strings.Contains(got, key) || !strings.Contains(got, "[redacted]") || strings.Contains(got, `\u00`) {
			t.Errorf("%s: got %s, want the key redacted", body, got)
		}
	}
}
