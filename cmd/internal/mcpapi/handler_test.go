package mcpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/mcpapi"
	"github.com/lash-go/lash/session/memory"
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

// TestUnknownMethods sends messages of methods that there are not: a request has an error of the protocol, a notification is taken, and what is
// no message is refused.
func TestUnknownMethods(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcpapi.Handler(http.NotFoundHandler()))
	t.Cleanup(s.Close)
	for message, want := range map[string]struct {
		status int
		body   string
	}{
		`{"jsonrpc":"2.0","id":"a","method":"no/such"}`:      {http.StatusOK, `{"error":{"code":-32601,"message":"there is no method \"no/such\""},"id":"a","jsonrpc":"2.0"}`},
		`{"jsonrpc":"2.0","method":"notifications/no_such"}`: {http.StatusAccepted, ""},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:     {http.StatusBadRequest, `invalid request: missing required "params"`},
		`{`: {http.StatusBadRequest, "malformed payload: unmarshaling jsonrpc message: unexpected EOF"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(message))
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
		if text := strings.TrimSpace(string(data)); got.StatusCode != want.status || text != want.body || err != nil {
			t.Errorf("%s: got %d %s, %v, want %d %s", message, got.StatusCode, text, err, want.status, want.body)
		}
	}
}

// TestAcceptedTypes sends requests of callers that take JSON alone, anything, a stream, or what this server does not have.
func TestAcceptedTypes(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(mcpapi.Handler(http.NotFoundHandler()))
	t.Cleanup(s.Close)
	for _, c := range []struct {
		accept, kind string
		status       int
	}{
		{"application/json, text/event-stream", "text/event-stream", http.StatusOK},
		{"application/json", "application/json", http.StatusOK},
		{"Application/JSON;q=0.9", "application/json", http.StatusOK},
		{"", "application/json", http.StatusOK},
		{"*/*", "text/event-stream", http.StatusOK},
		{"text/event-stream", "text/event-stream", http.StatusOK},
		{"text/html", "text/plain", http.StatusBadRequest},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		got, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		kind, _, _ := strings.Cut(got.Header.Get("Content-Type"), ";")
		if err != nil || got.StatusCode != c.status || kind != c.kind || c.status == http.StatusOK && !strings.Contains(string(data), `"run_turn"`) {
			t.Errorf("%q: got %d %s %.100s, %v, want %d %s", c.accept, got.StatusCode, kind, data, err, c.status, c.kind)
		}
	}
}

// TestLeavingEndsTheWait has callers of run_turn and wait_turn leave while the API has their requests, in an older version of the protocol
// and in the newest: each request of the API ends, and that of the caller.
func TestLeavingEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		for _, tool := range []string{"run_turn", "wait_turn"} {
			t.Run(version+"_"+tool, func(t *testing.T) {
				t.Parallel()
				waits, ended := make(chan struct{}, 1), make(chan struct{}, 1)
				api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet {
						w.WriteHeader(http.StatusAccepted)
						return
					}
					waits <- struct{}{}
					<-r.Context().Done()
					ended <- struct{}{}
				})
				served, agents := make(chan struct{}, 1), mcpapi.Handler(api)
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					agents.ServeHTTP(w, r)
					served <- struct{}{}
				}))
				t.Cleanup(s.Close)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				meta := `{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"session":"s1","turn":"t1"` + map[string]string{"run_turn": `,"text":"go"`}[tool] + `},"_meta":` + meta + `}}`
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range map[string]string{
					"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": tool,
				} {
					r.Header.Set(name, value)
				}
				answered := make(chan string, 1)
				go func() {
					got, err := s.Client().Do(r)
					if err != nil {
						answered <- err.Error()
						return
					}
					data, err := io.ReadAll(got.Body)
					_ = got.Body.Close()
					answered <- string(data) + " " + errorText(err)
				}()
				select {
				case <-waits:
				case early := <-answered:
					t.Fatalf("got %s before the wait", early)
				}
				leave()
				bustest.Receive(t, "the end of the API's request", ended)
				bustest.Receive(t, "the end of the caller's request", served)
			})
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestToolsDescribeTheirResults has every tool describe its result as an object, and return it as JSON beside the same text.
func TestToolsDescribeTheirResults(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"messages":[],"from":0,"of":0}`)
	}))
	t.Cleanup(api.Close)
	c := connected(t, api.URL)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) < 9 {
		t.Fatalf("got %+v, %v, want the tools", list, err)
	}
	for _, tool := range list.Tools {
		args := map[string]any{"session": "s1", "turn": "t1", "text": "x", "call": "t1/0/0", "granted": true}
		schema, _ := tool.InputSchema.(map[string]any)
		for name := range args {
			if properties, _ := schema["properties"].(map[string]any); properties[name] == nil {
				delete(args, name)
			}
		}
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		result, _ := tool.OutputSchema.(map[string]any)
		data, err := json.Marshal(r.StructuredContent)
		if text, _ := r.Content[0].(*mcp.TextContent); result["type"] != "object" || err != nil || r.IsError || !sameJSON(t, string(data), text.Text) {
			t.Errorf("%s: got %s beside %+v, of %v, want the same object", tool.Name, data, text, result["type"])
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var one, other any
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &other) == nil && reflect.DeepEqual(one, other)
}

// TestAnswersTakeMemory calls a tool whose answer is large, and one that reads many such answers, each in the place of the one before: they have the
// memory of the request.
func TestAnswersTakeMemory(t *testing.T) {
	t.Parallel()
	page := `{"messages":[{"parts":[{"type":"text","text":"` + strings.Repeat("x", 200<<10) + `"}]}],"from":0,"of":5,"next":%s}`
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, "{}")
			return
		}
		next := map[string]string{"0": "1", "1": "2", "2": "3", "3": "4"}[r.URL.Query().Get("from")]
		_, _ = fmt.Fprintf(w, page, cmp.Or(next, "0"))
	})
	for _, c := range []struct {
		kib  int64
		tool string
		args string
		want string
	}{
		{900, "read_history", `{"session":"s"}`, ""},
		{700, "read_history", `{"session":"s"}`, "memory: needs "},
		{900, "search_history", `{"session":"s","text":"y"}`, ""},
		{700, "run_turn", `{"session":"s","turn":"t1","text":"y"}`, "turn t1 was accepted, do not ask again; wait_turn reads"},
	} {
		p := memory.NewPool(c.kib<<10, c.kib<<10)
		agents := mcpapi.Handler(api)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a := p.Account("agent", time.Minute)
			defer a.Close()
			agents.ServeHTTP(w, r.WithContext(a.In(r.Context())))
		}))
		t.Cleanup(s.Close)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+c.tool+`","arguments":`+c.args+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		got, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if failed := strings.Contains(string(data), `"isError":true`); err != nil || failed != (c.want != "") || !strings.Contains(string(data), c.want) {
			t.Errorf("%s with %d KiB: got %.300s, %v, want %q", c.tool, c.kib, data, err, c.want)
		}
	}
}
