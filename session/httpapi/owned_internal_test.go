package httpapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/lash-go/lash/session/api"
)

// TestOwnersLimitHasNoRetry checks that only a refusal for a limit that clears by itself has a Retry-After.
func TestOwnersLimitHasNoRetry(t *testing.T) {
	t.Parallel()
	s := &Server{log: zap.NewNop()}
	for what, retry := range map[string]string{api.OpenSessions: "", api.StoredBytes: "", "queued turns": "1", "hot sessions": "1"} {
		w := httptest.NewRecorder()
		s.refuse(&responseWriter{ResponseWriter: w}, httptest.NewRequest("POST", "/v1/sessions", nil), fmt.Errorf("create: %w", &api.LimitError{What: what, Limit: 4}))
		if got := w.Header().Get("Retry-After"); w.Code != 429 || got != retry {
			t.Errorf("%s: got status %d and Retry-After %q, want 429 and %q", what, w.Code, got, retry)
		}
		for advice, of := range map[string]string{"close one: DELETE /v1/sessions/{id}": api.OpenSessions, "erase some: lash-node erase": api.StoredBytes} {
			if says := strings.Contains(w.Body.String(), advice); says != (what == of) {
				t.Errorf("%s: got %s", what, w.Body)
			}
		}
	}
}
