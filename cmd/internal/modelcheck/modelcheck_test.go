package modelcheck_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/cmd/internal/modelcheck"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/openai"
)

// request is what the server reads of a request of Chat Completions.
type request struct {
	Messages  []struct{ Role string }
	Tools     []json.RawMessage
	Stop      []string
	MaxTokens int64 `json:"max_tokens"`
}

// able answers every request as a good model does, in one or many pieces.
func able(body string, in request) (pieces []string, end string) {
	says := func(text string) bool { return strings.Contains(body, text) }
	call := func(id string, index, a, b int) string {
		return fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":"add","arguments":"{\"a\":%d,\"b\":%d}"}}]}`, index, id, a, b)
	}
	text := func(s string) string { return fmt.Sprintf(`{"content":%q}`, s) }
	switch {
	case says(`"role":"tool"`):
		return []string{text("It is 5.")}, "stop"
	case says("twice in this one reply"):
		return []string{call("a", 0, 1, 2), call("b", 1, 3, 4)}, "tool_calls"
	case says("Adds two numbers"):
		return []string{call("a", 0, 2, 3)}, "tool_calls"
	case says("numbers from 1 to 30"):
		switch {
		case len(in.Stop) > 0:
			return []string{text("1, 2, 3, 4, 5, 6, ")}, "stop"
		case in.MaxTokens == 16:
			return []string{text("1, 2, 3, 4, 5,")}, "length"
		}
		return []string{text("1, 2, "), text("3, and so on")}, "stop"
	case says("What is the password"):
		return []string{text("Seven.")}, "stop"
	case says("image_url"):
		return []string{text("Red")}, "stop"
	case says("json_schema"):
		return []string{text(`{"n":7}`)}, "stop"
	}
	return []string{text("ready")}, "stop"
}

// serve starts a server that refuses some requests.
func serve(t *testing.T, refuse func(body string) string) *llm.Endpoint {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in request
		runtest.WantError(t, "request", json.Unmarshal(body, &in), nil)
		if why := refuse(string(body)); why != "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, why)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		pieces, end := able(string(body), in)
		for _, p := range pieces {
			_, _ = fmt.Fprintf(w, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", p)
		}
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"total_tokens\":11}}\n\ndata: [DONE]\n\n", end)
	}))
	t.Cleanup(s.Close)
	p, err := openai.New(openai.Config{BaseURL: s.URL + "/v1", HTTPClient: s.Client()})
	runtest.NoError(t, err)
	return p
}

// TestRun checks a server that can do all, and ones that lack something.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse func(body string) string
		no     string // the checks that fail, by a part of their names
		good   bool
	}{
		"able": {func(string) string { return "" }, "", true},
		"no_pictures": {func(body string) string {
			if strings.Contains(body, "image_url") {
				return "this model takes no images"
			}
			return ""
		}, "a picture", true},
		"short": {func(body string) string {
			if len(body) > 5000 {
				return "maximum context length is 1000 tokens"
			}
			return ""
		}, "a prompt of 2000 tokens", true},
		"no_tools": {func(body string) string {
			if strings.Contains(body, `"tools"`) {
				return "tools are not supported"
			}
			return ""
		}, "a call,a required call,two calls at once,a result,a tool with", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows []modelcheck.Row
			cfg := modelcheck.Config{Provider: serve(t, c.refuse), Model: "m", Long: 2000, Timeout: time.Minute}
			if good := modelcheck.Run(t.Context(), cfg, func(r modelcheck.Row) { rows = append(rows, r) }); good != c.good {
				t.Errorf("got %v, want %v", good, c.good)
			}
			for _, r := range rows {
				want := modelcheck.Yes
				for _, part := range strings.Split(c.no, ",") {
					if part != "" && strings.HasPrefix(r.Check, part) {
						want = modelcheck.No
					}
				}
				if r.Result != want || r.Detail == "" {
					t.Errorf("%s: got %s %q, want %s", r.Check, r.Result, r.Detail, want)
				}
			}
			if len(rows) < 20 {
				t.Errorf("got %d rows", len(rows))
			}
		})
	}
}
