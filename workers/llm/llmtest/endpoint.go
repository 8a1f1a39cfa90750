package llmtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Endpoint is an HTTP server with OpenAI's API and the models "m" and "gpt-4o-mini". It responds to each request with
// answer, which may be called from many goroutines; of the faults of a reply it has [FaultHang]. The context of the request ends with its connection. url is for
// OPENAI_BASE_URL.
func Endpoint(tb testing.TB, answer func(*http.Request, llm.Request) Reply) (url string) {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m"},{"id":"gpt-4o-mini"}]}`)
			return
		}
		request, err := io.ReadAll(r.Body)
		var req llm.Request
		if err == nil {
			req, err = OpenAI{}.Read(request)
		}
		if err != nil {
			tb.Errorf("request to the model: %v", err)
			http.Error(w, "malformed", http.StatusBadRequest)
			return
		}
		reply := answer(r, req)
		body, end := OpenAI{}.Stream(reply)
		w.Header().Set("Content-Type", "text/event-stream")
		if reply.Fault == FaultHang {
			_, _ = io.WriteString(w, body)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, body+end)
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

// Calls scripts a reply with tool calls.
func Calls(calls ...events.Part) Reply {
	r := Reply{Stop: events.StopToolUse}
	for i, c := range calls {
		r.Chunks = append(r.Chunks, Chunk{Kind: events.PartToolCall, Index: i, Call: c.Call, Tool: c.Tool, Text: string(c.Args)})
	}
	return r
}

// Results are the results of calls in a request, in the order of the conversation.
func Results(req llm.Request) (list []events.Part) {
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Kind == events.PartToolResult {
				list = append(list, p)
			}
		}
	}
	return list
}
