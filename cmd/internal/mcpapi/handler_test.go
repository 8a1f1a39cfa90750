package mcpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/mcpapi"
)

// TestLongEveryURIIsAnswered reads resources whose URIs have each of the first characters of Unicode, some others, and bytes that are no
// text. None of them exists, and each request has an answer of JSON-RPC with a reason.
func TestLongEveryURIIsAnswered(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcpapi.Handler(http.NotFoundHandler()))
	t.Cleanup(s.Close)
	uris := []string{"", "\xff\xfe", "\u2028", "\u202e", "\U000e0001", "\ufeff", "lash://sessions/", "lash://sessions/%00", "lash://sessions/%zz"}
	for r := range rune(0x180) {
		uris = append(uris, string(r), "lash://sessions/"+string(r)+"/x")
	}
	for _, uri := range uris {
		params, err := json.Marshal(map[string]string{"uri": uri})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":`+string(params)+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		got, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		_, message, _ := strings.Cut(string(data), "data: ")
		var answer struct {
			ID    int
			Error struct{ Message string }
		}
		if err != nil || json.Unmarshal([]byte(message), &answer) != nil || answer.ID != 1 || answer.Error.Message == "" {
			t.Errorf("%q: got %q, %v, want an error with a reason", uri, data, err)
		}
	}
}
