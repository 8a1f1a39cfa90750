package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/openai"
)

const key = "sk-test-secret"

// bundle is a provider and the requests to its endpoint.
type bundle struct {
	*llm.Endpoint
	url    string
	body   map[string]any
	header http.Header
}

// setup starts an endpoint that responds to everything with status 200 and stream.
func setup(t *testing.T, stream string) *bundle {
	t.Helper()
	return setupStatus(t, http.StatusOK, "text/event-stream", stream)
}

func setupStatus(t *testing.T, status int, media, body string) *bundle {
	t.Helper()
	b := &bundle{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		b.header, b.body = r.Header, nil
		runtest.WantError(t, "request is no JSON", json.Unmarshal(sent, &b.body), nil)
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	b.url = s.URL
	b.Endpoint = open(t, openai.Config{APIKey: key, BaseURL: s.URL + "/v1", HTTPClient: s.Client()})
	return b
}

func open(t *testing.T, cfg openai.Config) *llm.Endpoint {
	t.Helper()
	p, err := openai.New(cfg)
	runtest.NoError(t, err)
	return p
}

// sse makes a stream of the given chunks.
func sse(chunks ...string) string {
	return "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\n"
}

func delta(d, finish string) string {
	return fmt.Sprintf(`{"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, d, finish)
}

func user(text string) events.Message {
	return events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
}

func streamedCall(id events.CallID, tool, args string) events.Part {
	return events.Part{Kind: events.PartToolCall, Call: id, Tool: tool, Args: []byte(args)}
}

func request(messages ...events.Message) llm.Request {
	return llm.Request{Model: "m", Messages: append([]events.Message{user("hi")}, messages...)}
}

// TestDialects reads the variants of compatible endpoints.
func TestDialects(t *testing.T) {
	t.Parallel()
	say := delta(`{"content":"ok"}`, "null")
	text := []events.Part{{Kind: events.PartText, Text: "ok"}}
	tool := func(s string) string { return delta(`{"tool_calls":[`+s+`]}`, "null") }
	for name, c := range map[string]struct {
		stream string
		parts  []events.Part
		stop   events.StopReason
	}{
		"stop_with_calls":      {sse(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), delta("{}", `"stop"`), "[DONE]"), []events.Part{streamedCall("a", "f", "{}")}, events.StopToolUse},
		"function_call":        {sse(delta(`{"function_call":{"name":"f","arguments":"{\"a\""}}`, "null"), delta(`{"function_call":{"arguments":":1}"}}`, `"function_call"`)), []events.Part{streamedCall("", "f", `{"a":1}`)}, events.StopToolUse},
		"function_call_beside": {sse(delta(`{"function_call":{"name":"f","arguments":"{}"},"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`)), []events.Part{streamedCall("a", "f", "{}")}, events.StopToolUse},
		"index_0_streamed":     {sse(tool(`{"index":0,"function":{"name":"f","arguments":"{\"n\":1}"}}`), tool(`{"index":0,"function":{"name":"g","arguments":""}}`), tool(`{"index":0,"function":{"arguments":"{\"n\":2}"}}`), delta("{}", `"tool_calls"`)), []events.Part{streamedCall("", "f", `{"n":1}`), streamedCall("", "g", `{"n":2}`)}, events.StopToolUse},
		"empty_delta":          {sse(`{"choices":[{"index":0,"delta":{},"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`), text, events.StopEnd},
		"id_alone":             {sse(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), tool(`{"index":1,"id":"b","type":"function","function":{"name":"","arguments":""}}`), delta("{}", `"tool_calls"`)), []events.Part{streamedCall("a", "f", "{}")}, events.StopToolUse},
		"reason_none":          {sse(delta(`{"content":"ok"}`, `"None"`), delta("{}", `"stop"`)), text, events.StopEnd},
		"empty_errors":         {sse(`{"error":{"message":"","type":"","code":null},"choices":[{"error":{},"delta":{"content":"ok"},"finish_reason":"stop"}]}`), text, events.StopEnd},
		"arguments_list":       {sse(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":[]}}`), delta("{}", `"tool_calls"`)), []events.Part{streamedCall("a", "f", "{}")}, events.StopToolUse},
		"cut_call":             {sse(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}`), delta("{}", `"length"`)), []events.Part{streamedCall("a", "f", `{"x`)}, events.StopOutputLimit},
		"unknown_reason":       {sse(say, delta("{}", `"steered"`), "[DONE]"), text, events.StopUnknown},
		"done_only":            {sse(say, "[DONE]"), text, events.StopUnknown},
		"no_done":              {sse(say, delta("{}", `"stop"`)), text, events.StopEnd},
		"crlf":                 {strings.ReplaceAll(sse(say, delta("{}", `"stop"`), "[DONE]"), "\n", "\r\n"), text, events.StopEnd},
		"comments":             {": PROCESSING\n\n" + sse(say, delta("{}", `"stop"`)) + ": bye\n\n", text, events.StopEnd},
		"null_error":           {sse(`{"error":null,"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`), text, events.StopEnd},
		"null_content":         {sse(delta(`{"content":null,"tool_calls":null}`, "null"), say, delta(`{"content":null}`, `"stop"`)), text, events.StopEnd},
		"other_choices":        {sse(`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"}]}`, say, delta("{}", `"stop"`)), text, events.StopEnd},
		"refusal":              {sse(delta(`{"refusal":"ok"}`, "null"), delta("{}", `"content_filter"`)), text, events.StopContentFilter},
		"reasoning_field":      {sse(delta(`{"reasoning":"hm"}`, "null"), say, delta("{}", `"stop"`)), []events.Part{{Kind: events.PartReasoning, Text: "hm"}, text[0]}, events.StopEnd},
		"reasoning_twice":      {sse(delta(`{"reasoning":"hm","reasoning_content":"hm"}`, "null"), say, delta("{}", `"stop"`)), []events.Part{{Kind: events.PartReasoning, Text: "hm"}, text[0]}, events.StopEnd},
		"reasoning_object":     {sse(delta(`{"reasoning":{"effort":1},"content":"ok"}`, `"stop"`)), text, events.StopEnd},
		"every_index_0":        {sse(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`), tool(`{"index":0,"id":"b","function":{"name":"g","arguments":"{\"n\""}}`), tool(`{"index":0,"function":{"arguments":":2}"}}`), delta("{}", `"tool_calls"`)), []events.Part{streamedCall("a", "f", `{"n":1}`), streamedCall("b", "g", `{"n":2}`)}, events.StopToolUse},
		"name_repeated":        {sse(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), delta("{}", `"tool_calls"`)), []events.Part{streamedCall("a", "f", "{}")}, events.StopToolUse},
		"name_split":           {sse(tool(`{"index":0,"id":"a","function":{"name":"re"}}`), tool(`{"index":0,"function":{"name":"ad"}}`), delta("{}", `"tool_calls"`)), []events.Part{streamedCall("a", "read", "{}")}, events.StopToolUse},
		"no_ids":               {sse(tool(`{"index":0,"function":{"name":"f","arguments":"{}"}}`), tool(`{"index":1,"function":{"name":"g","arguments":"{}"}}`), delta("{}", `"tool_calls"`)), []events.Part{streamedCall("", "f", "{}"), streamedCall("", "g", "{}")}, events.StopToolUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := setup(t, c.stream).Complete(t.Context(), request(), nil)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			for i := range res.Parts {
				res.Parts[i].Meta = nil
			}
			if !reflect.DeepEqual(res.Parts, c.parts) || res.Stop != c.stop {
				t.Errorf("got %q %+v, want %q %+v", res.Stop, res.Parts, c.stop, c.parts)
			}
			if (res.Detail != "") != (c.stop == events.StopUnknown || c.stop == events.StopContentFilter) {
				t.Errorf("detail: got %q", res.Detail)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage string
		want  events.Usage
	}{
		"full": {
			`{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":20},"completion_tokens_details":{"reasoning_tokens":40}}`,
			events.Usage{Input: 50, Output: 50, CacheRead: 30, CacheWrite: 20, Reasoning: 40},
		},
		"plain":  {`{"prompt_tokens":100,"completion_tokens":50}`, events.Usage{Input: 100, Output: 50}},
		"absurd": {`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":30}}`, events.Usage{Output: 5, CacheRead: 30}},
		"null":   {`null`, events.Usage{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := sse(delta(`{"content":"ok"}`, `"stop"`), `{"choices":[],"usage":`+c.usage+`}`, "[DONE]")
			res, err := setup(t, stream).Complete(t.Context(), request(), nil)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			if res.Usage != c.want || res.Model != "m" {
				t.Errorf("got %+v of %q, want %+v of \"m\"", res.Usage, res.Model, c.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		kind   llm.ErrorKind
		code   string
		says   string
	}{
		"no_money":        {429, `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.KindAuth, "insufficient_quota", "quota"},
		"overflow_vllm":   {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, llm.KindOverflow, "400", "4096"},
		"overflow_llama":  {400, `{"error":{"code":400,"message":"too many","type":"exceed_context_size_error"}}`, llm.KindOverflow, "400", "too many"},
		"gemini":          {400, `[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]`, llm.KindAuth, "400", "not valid"},
		"no_model":        {503, `{"error":{"code":"model_not_found","message":"No available channel for model m","type":"new_api_error"}}`, llm.KindRequest, "model_not_found", "channel"},
		"native_error":    {200, sse(`{"choices":[{"index":0,"delta":{"content":"so"},"finish_reason":"stop","native_finish_reason":"network_error"}]}`), llm.KindServer, "network_error", "network_error"},
		"key_behind_500":  {500, `{"error":{"message":"no","type":"api_error","code":"401"}}`, llm.KindAuth, "401", "check the API key"},
		"limit_as_400":    {400, `{"error":{"message":"busy","code":429}}`, llm.KindRateLimit, "429", "busy"},
		"harmony":         {200, sse(`{"error":{"message":"Unexpected token 12606 while expecting start token 200006","type":"BadRequestError","code":400}}`), llm.KindUnfinished, "400", "12606"},
		"choice_text":     {200, sse(`{"choices":[{"index":0,"error":"upstream died","delta":{}}]}`), llm.KindServer, "", "upstream died"},
		"limit_of_reply":  {400, "{\"error\":{\"message\":\"`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model\"}}", llm.KindRequest, "", "8192"},
		"text":            {400, `{"error":"model not found"}`, llm.KindRequest, "", "model not found"},
		"detail":          {422, `{"detail":[{"loc":["body"],"msg":"extra fields not permitted"}]}`, llm.KindRequest, "", "extra fields"},
		"stream_limit":    {200, sse(`{"error":{"message":"slow down","code":429}}`), llm.KindRateLimit, "429", "slow down"},
		"stream_code":     {200, sse(`{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`), llm.KindRateLimit, "rate_limit_exceeded", "slow"},
		"stream_text":     {200, sse(`{"error":"upstream died"}`), llm.KindServer, "", "upstream died"},
		"stream_overflow": {200, sse(`{"error":{"message":"exceeds the context window","code":""}}`), llm.KindOverflow, "", "context window"},
		"stream_event":    {200, "event: error\ndata: {\"message\":\"bad\",\"type\":\"invalid_request_error\"}\n\n", llm.KindRequest, "invalid_request_error", "bad"},
		"stream_auth":     {200, sse(`{"error":{"message":"expired","code":"invalid_api_key"}}`), llm.KindAuth, "invalid_api_key", "expired"},
		"object_as_text":  {200, sse(delta(`{"content":{"x":"x"}}`, `"stop"`)), llm.KindMalformed, "", "text"},
		"wrong_shape":     {200, sse(`[1,2,3]`), llm.KindMalformed, "", "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := setupStatus(t, c.status, "text/event-stream", c.body).Complete(t.Context(), request(), nil)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Kind != c.kind || e.Code != c.code || !strings.Contains(e.Message, c.says) {
				t.Errorf("got %#v, want kind %s, code %q, message with %q", err, c.kind, c.code, c.says)
			}
		})
	}
}

// TestVendorFields expects an endpoint to receive its own fields again, and other endpoints not.
func TestVendorFields(t *testing.T) {
	t.Parallel()
	stream := sse(delta(`{"reasoning_content":"hm"}`, "null"),
		delta(`{"tool_calls":[{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"sig"}},"function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`))
	first, other := setup(t, stream), setup(t, stream)
	res, err := first.Complete(t.Context(), request(), nil)
	runtest.NoError(t, err)
	reply := events.Message{Role: events.RoleAssistant, Parts: res.Parts}
	result := events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: "a", Text: "done"}}}
	for _, b := range []*bundle{first, other} {
		_, err = b.Complete(t.Context(), request(reply, result), nil)
		runtest.NoError(t, err)
		assistant := b.body["messages"].([]any)[1].(map[string]any)
		sent := assistant["tool_calls"].([]any)[0].(map[string]any)
		got := fmt.Sprintf("%v %v", assistant["reasoning_content"], sent["extra_content"])
		want := "hm map[google:map[thought_signature:sig]]"
		if b == other {
			want = "<nil> <nil>"
		}
		runtest.Equal(t, "vendor fields", got, want)
	}
	reply.Parts = []events.Part{res.Parts[0], {Kind: events.PartText, Text: "bye"}}
	_, err = first.Complete(t.Context(), request(reply, user("on")), nil)
	runtest.NoError(t, err)
	if got, ok := first.body["messages"].([]any)[1].(map[string]any)["reasoning_content"]; ok {
		t.Errorf("reasoning outside a chain of calls: got %v, want none", got)
	}
}

// TestDescriptionsTooLong: where an endpoint refuses a tool's description as too long, its begin is sent from then on.
func TestDescriptionsTooLong(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"chat/completions": sse(delta(`{"content":"ok"}`, `"stop"`)), "responses": sse(added(0, message), streamed("output_text", 0, "ok"), completed("null"))} {
		calls := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			sent, _ := io.ReadAll(r.Body)
			if n := strings.Count(string(sent), "é"); n > 512 {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"error":{"message":"Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got a string with length %d instead."}}`, n)
				return
			}
			_, _ = io.WriteString(w, reply)
		}))
		t.Cleanup(s.Close)
		cfg := openai.Config{BaseURL: s.URL, HTTPClient: s.Client()}
		var p llm.Provider = open(t, cfg)
		if name == "responses" {
			p, _ = openai.NewResponses(cfg)
		}
		req := request()
		req.Tools = []llm.Tool{{Name: "f", Description: strings.Repeat("é", 3000), InputSchema: []byte(`{}`)}}
		for range 2 {
			_, err := p.Complete(t.Context(), req, nil)
			runtest.WantError(t, name, err, nil)
		}
		if calls != 3 {
			t.Errorf("%s: got %d requests, want 3", name, calls)
		}
	}
}

// TestWholeRepliesAsPieces: endpoints send whole replies in place of pieces.
func TestWholeRepliesAsPieces(t *testing.T) {
	t.Parallel()
	message := func(index int, text, end string) string {
		return fmt.Sprintf(`{"object":"chat.completion.chunk","choices":[{"index":%d,"message":{"role":"assistant","content":%q},"finish_reason":%s}]}`, index, text, end)
	}
	for name, stream := range map[string]string{
		"next_text":       sse(message(0, "one ", "null"), message(0, "two ", "null"), message(0, "three", "null"), message(0, "", `"stop"`)),
		"all_text_so_far": sse(message(0, "one ", "null"), message(0, "one two ", "null"), message(0, "one two three", `"stop"`)),
		"whole_at_end":    sse(delta(`{"content":"one "}`, "null"), delta(`{"content":"two three"}`, "null"), message(0, "one two three", `"stop"`)),
		"rest_at_end":     sse(delta(`{"content":"one "}`, "null"), message(0, "one two three", `"stop"`)),
		"whole_twice":     sse(message(0, "one two three", `"stop"`), message(0, "one two three", `"stop"`)),
		"thinking":        sse(message(0, "<think>a</think>", "null"), message(0, "<think>a</think>one two three", `"stop"`)),
		"repeated_word":   sse(message(0, "one ", "null"), message(0, "two ", "null"), message(0, "three", "null"), message(0, "", `"stop"`)),
		"two_choices":     sse(message(0, "one ", "null"), message(1, "no", "null"), message(0, "two three", `"stop"`), message(1, "no", `"length"`)),
	} {
		b := setup(t, stream)
		var said strings.Builder
		res, err := b.Complete(t.Context(), request(), func(d llm.Delta) { said.WriteString(d.Text) })
		if got := (events.Message{Parts: res.Parts}).Text(); err != nil || got != "one two three" || strings.TrimPrefix(said.String(), "a") != got || res.Stop != events.StopEnd {
			t.Errorf("%s: got %q, %q, deltas %q and %v, want the text once", name, got, res.Stop, said.String(), err)
		}
	}
}

// TestWishes: a field of the assistant's messages that an endpoint refuses, or misses, is left out, or given, from then on.
func TestWishes(t *testing.T) {
	t.Parallel()
	reply := sse(delta(`{"reasoning_content":"hm","channel":"analysis"}`, "null"), delta(`{"tool_calls":[{"index":0,"id":"a","mark":"x","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`))
	for words, c := range map[string]struct {
		reply   string
		refused func(assistant map[string]any) bool
	}{
		"property 'reasoning_content' is unsupported": {reply, func(m map[string]any) bool { return m["reasoning_content"] != nil }},
		"property 'channel' is unsupported":           {reply, func(m map[string]any) bool { return m["channel"] != nil }},
		"unknown field: mark":                         {reply, func(m map[string]any) bool { return m["tool_calls"].([]any)[0].(map[string]any)["mark"] != nil }},
		"thinking is enabled but reasoning_content is missing in assistant tool call message at index 1": {
			sse(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`)),
			func(m map[string]any) bool { return m["reasoning_content"] == nil },
		},
		"The `reasoning_content` in the thinking mode must be passed back to the API.": {
			sse(delta(`{"reasoning_content":"hm"}`, "null"), delta(`{"content":"ok"}`, `"stop"`)),
			func(m map[string]any) bool { return m["reasoning_content"] != "hm" },
		},
		"messages[1]: missing field `content` at line 17 column 9": {
			sse(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`)),
			func(m map[string]any) bool { return m["content"] == nil },
		},
		"Assistant message must have either content or tool_calls, but not both.": {
			sse(delta(`{"content":"so"}`, "null"), delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`)),
			func(m map[string]any) bool { return m["content"] != nil && m["tool_calls"] != nil },
		},
		"Function call is missing a thought_signature in functionCall parts.": {
			sse(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`)),
			func(m map[string]any) bool {
				return !reflect.DeepEqual(m["tool_calls"].([]any)[0].(map[string]any)["extra_content"], map[string]any{"google": map[string]any{"thought_signature": "skip_thought_signature_validator"}})
			},
		},
	} {
		calls := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			var sent struct{ Messages []map[string]any }
			_ = json.NewDecoder(r.Body).Decode(&sent)
			if len(sent.Messages) > 1 && c.refused(sent.Messages[1]) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, words)
				return
			}
			_, _ = io.WriteString(w, c.reply)
		}))
		t.Cleanup(s.Close)
		p := open(t, openai.Config{BaseURL: s.URL, HTTPClient: s.Client()})
		req := request()
		for range 3 {
			res, err := p.Complete(t.Context(), req, nil)
			if err != nil {
				t.Fatalf("%s: %v", words, err)
			}
			req.Messages = append(req.Messages[:1:1], events.Message{Role: events.RoleAssistant, Parts: res.Parts},
				events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: "a", Text: "done"}}})
		}
		if calls != 4 {
			t.Errorf("%s: got %d requests, want 4: one is refused", words, calls)
		}
	}
}

// TestEnvironment must not be parallel: it sets what official clients read.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-from-env")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("OPENAI_ORG_ID", "org-from-env")
	t.Setenv("OPENAI_PROJECT_ID", "proj-from-env")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-From-Env: yes")
	b := setup(t, sse("[DONE]"))
	for _, apiKey := range []string{key, ""} {
		p := open(t, openai.Config{APIKey: apiKey, BaseURL: b.url})
		_, err := p.Complete(t.Context(), request(), nil)
		runtest.NoError(t, err)
		if got := b.header.Get("Authorization"); got != strings.TrimSpace("Bearer "+apiKey) && got != "" || (apiKey != "") != (got != "") {
			t.Errorf("authorization: got %q, want that of key %q", got, apiKey)
		}
		for _, name := range []string{"OpenAI-Organization", "OpenAI-Project", "X-From-Env"} {
			runtest.Equal(t, name, b.header.Get(name), "")
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// transport is an [http.RoundTripper] made of a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOfficialEndpoint(t *testing.T) {
	t.Parallel()
	var url string
	var sent []byte
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		url = r.URL.String()
		sent, _ = io.ReadAll(r.Body)
		return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(sse("[DONE]")))}, nil
	})}
	req := request()
	req.MaxOutputTokens, req.Effort = 99, "low"
	if _, err := open(t, openai.Config{APIKey: key, HTTPClient: client}).Complete(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	if want := "https://api.openai.com/v1/chat/completions"; url != want {
		t.Errorf("url: got %s, want %s", url, want)
	}
	for _, want := range []string{`"max_completion_tokens":99`, `"reasoning_effort":"low"`, `"include_usage":true`, `"stream":true`} {
		if !bytes.Contains(sent, []byte(want)) {
			t.Errorf("request: got %s, want %s in it", sent, want)
		}
	}
	if bytes.Contains(sent, []byte("max_tokens")) {
		t.Errorf("request: got %s, want no max_tokens", sent)
	}
	url = ""
	_, err := open(t, openai.Config{HTTPClient: client}).Complete(t.Context(), req, nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindAuth || url != "" {
		t.Errorf("without a key: got %v after calling %q, want an auth error and no call", err, url)
	}
}

func TestTransportErrors(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"talkative":      fmt.Errorf("proxy refused key %s", key),
		"client_timeout": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) { return nil, cause })}
			_, err := open(t, openai.Config{APIKey: key, BaseURL: "https://llm.example/secret-path", HTTPClient: client}).Complete(t.Context(), request(), nil)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Kind != llm.KindTransport {
				t.Fatalf("got %v, want a transport error", err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("a client's own timeout passes for the caller's")
			}
			if text := fmt.Sprintf("%v %+v %v", err, *e, e.Err); strings.Contains(text, key) || strings.Contains(text, "secret-path") {
				t.Errorf("got %q, want neither key nor URL", text)
			}
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]openai.Config{
		"scheme":      {BaseURL: "ftp://host/"},
		"host":        {BaseURL: "https://"},
		"garbage":     {BaseURL: "http://[::1"},
		"credentials": {BaseURL: "https://user:hunter2@host/"},
		"query":       {BaseURL: "https://host/?key=hunter2"},
		"key":         {APIKey: "hunter2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openai.New(cfg)
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want an error without secrets", err)
			}
		})
	}
}

// TestCutAfterFinish closes the connection after the reply is complete.
func TestCutAfterFinish(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, sse(delta(`{"content":"ok"}`, `"stop"`)))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := open(t, openai.Config{BaseURL: s.URL, HTTPClient: s.Client()}).Complete(ctx, request(), nil)
	if err != nil || res.Stop != events.StopEnd {
		t.Errorf("got %q and %v, want the reply", res.Stop, err)
	}
}
