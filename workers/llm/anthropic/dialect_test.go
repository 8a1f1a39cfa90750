package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/anthropic"
)

const key = "sk-ant-test-secret"

// bundle is a provider and the requests to its endpoint.
type bundle struct {
	*llm.Endpoint
	url    string
	body   string
	header http.Header
}

// setup starts an endpoint that responds to everything with status and body.
func setup(t *testing.T, status int, body string) *bundle {
	t.Helper()
	b := &bundle{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		b.header, b.body = r.Header, string(sent)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	b.url = s.URL
	b.Endpoint = open(t, anthropic.Config{APIKey: key, BaseURL: s.URL, HTTPClient: s.Client()})
	return b
}

func open(t *testing.T, cfg anthropic.Config) *llm.Endpoint {
	t.Helper()
	p, err := anthropic.New(cfg)
	runtest.NoError(t, err)
	return p
}

// sse makes a stream of the given events.
func sse(list ...string) string {
	var b strings.Builder
	for _, data := range list {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(data), &e)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Type, data)
	}
	return b.String()
}

const (
	begin = `{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"cache_read_input_tokens":20,"cache_creation_input_tokens":30,"output_tokens":1}}}`
	stop  = `{"type":"message_stop"}`
)

func start(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}

func delta(index int, d string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, d)
}

func finish(reason string) string {
	return fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":"%s","stop_details":null},"usage":{"output_tokens":40}}`, reason)
}

func say(role events.Role, parts ...events.Part) events.Message {
	return events.Message{Role: role, Parts: parts}
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

func request(messages ...events.Message) llm.Request {
	return llm.Request{Model: "m", Messages: append([]events.Message{say(events.RoleUser, text("hi"))}, messages...)}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	ok := start(0, `{"type":"text","text":"ok"}`)
	parts := []events.Part{text("ok")}
	call := []events.Part{{Kind: events.PartToolCall, Call: "a", Tool: "f", Args: []byte(`{"n":1}`)}}
	for name, c := range map[string]struct {
		stream string
		parts  []events.Part
		stop   events.StopReason
	}{
		"stop_sequence":      {sse(begin, ok, finish("stop_sequence"), stop), parts, events.StopUnknown},
		"no_stop_reason":     {sse(begin, ok, stop), parts, events.StopUnknown},
		"window":             {sse(begin, ok, finish("model_context_window_exceeded"), stop), parts, events.StopContextOverflow},
		"pause":              {sse(begin, ok, finish("pause_turn"), stop), parts, events.StopUnknown},
		"no_message_stop":    {sse(begin, ok, finish("end_turn")), parts, events.StopEnd},
		"no_event_names":     {strings.ReplaceAll(sse(begin, ok, finish("end_turn"), stop), "event: ", ": "), parts, events.StopEnd},
		"news":               {sse(begin, `{"type":"weather","sun":true}`, ok, delta(0, `{"type":"smell_delta"}`), finish("end_turn"), stop), parts, events.StopEnd},
		"news_of_any_form":   {sse(begin, `{"type":"weather","delta":"x","content_block":[1],"usage":1}`, ok, delta(0, `{"type":"smell_delta","text":{"x":1}}`), start(1, `{"type":"weather","text":{"x":1}}`), finish("end_turn"), stop), parts, events.StopEnd},
		"server_tool":        {sse(begin, start(0, `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`), delta(0, `{"type":"input_json_delta","partial_json":"{}"}`), start(1, `{"type":"text","text":"ok"}`), finish("end_turn"), stop), parts, events.StopEnd},
		"unopened_block":     {sse(begin, delta(0, `{"type":"text_delta","text":"ok"}`), finish("end_turn"), stop), parts, events.StopEnd},
		"whole_input":        {sse(begin, start(0, `{"type":"tool_use","id":"a","name":"f","input":{"n":1}}`), finish("tool_use"), stop), call, events.StopToolUse},
		"delta_without_type": {sse(begin, start(0, `{"type":"tool_use","id":"a","name":"f","input":{}}`), delta(0, `{"partial_json":"{\"n\":1}"}`), finish("tool_use"), stop), call, events.StopToolUse},
		"text_without_type":  {sse(begin, start(0, `{"type":"text","text":""}`), delta(0, `{"text":"ok"}`), finish("end_turn"), stop), parts, events.StopEnd},
		"content_is_text":    {sse(`{"type":"message","model":"m","content":"ok","stop_reason":"end_turn"}`), parts, events.StopEnd},
		"empty_delta":        {sse(begin, start(0, `{"type":"tool_use","id":"a","name":"f","input":{}}`), delta(0, `{"type":"input_json_delta","partial_json":""}`), delta(0, `{"type":"input_json_delta","partial_json":"{\"n\":1}"}`), finish("tool_use"), stop), call, events.StopToolUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := setup(t, http.StatusOK, c.stream).Complete(t.Context(), request(), nil)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			if !reflect.DeepEqual(res.Parts, c.parts) || res.Stop != c.stop || res.Model != "m" {
				t.Errorf("got %q %+v of %q, want %q %+v of \"m\"", res.Stop, res.Parts, res.Model, c.stop, c.parts)
			}
			if (res.Detail != "") != (c.stop == events.StopUnknown) {
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
		"output_only": {`{"output_tokens":40}`, events.Usage{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40}},
		"totals": {
			`{"input_tokens":11,"cache_read_input_tokens":21,"cache_creation_input_tokens":31,"output_tokens":41,"output_tokens_details":{"thinking_tokens":5}}`,
			events.Usage{Input: 11, CacheRead: 21, CacheWrite: 31, Output: 41, Reasoning: 5},
		},
		"nulls": {`{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":40}`, events.Usage{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + c.usage + `}`
			res, err := setup(t, http.StatusOK, sse(begin, end, stop)).Complete(t.Context(), request(), nil)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			runtest.Equal(t, "usage", res.Usage, c.want)
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	failure := func(typ, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":"%s","message":"%s"}}`, typ, message)
	}
	for name, c := range map[string]struct {
		status int
		body   string
		kind   llm.ErrorKind
	}{
		"too_large":        {413, failure("request_too_large", "x"), llm.KindOverflow},
		"max_tokens":       {400, failure("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"), llm.KindOverflow},
		"not_found":        {404, failure("not_found_error", "x"), llm.KindRequest},
		"billing":          {400, failure("billing_error", "x"), llm.KindAuth},
		"permission":       {403, failure("permission_error", "x"), llm.KindAuth},
		"timeout":          {504, failure("timeout_error", "x"), llm.KindServer},
		"unknown_type":     {429, failure("new_error", "x"), llm.KindRateLimit},
		"stream_limit":     {200, sse(begin, failure("rate_limit_error", "x")), llm.KindRateLimit},
		"stream_api":       {200, sse(begin, failure("api_error", "x")), llm.KindServer},
		"stream_invalid":   {200, sse(begin, failure("invalid_request_error", "x")), llm.KindRequest},
		"stream_overflow":  {200, sse(begin, failure("invalid_request_error", "prompt is too long: 2 tokens")), llm.KindOverflow},
		"stream_nested":    {200, "event: error\ndata: {\"type\":\"error\",\"message\":{\"type\":\"api_error\",\"message\":\"{\\\"message\\\":\\\"busy\\\",\\\"code\\\":429}\"}}\n\n", llm.KindRateLimit},
		"stream_nonsense":  {200, "event: error\ndata: boom\n\n", llm.KindServer},
		"unopened_block":   {200, sse(begin, delta(3, `{"type":"input_json_delta","partial_json":"{}"}`), finish("tool_use")), llm.KindMalformed},
		"number_as_text":   {200, sse(begin, start(0, `{"type":"text","text":""}`), delta(0, `{"type":"text_delta","text":1}`), finish("end_turn"), stop), llm.KindMalformed},
		"not_an_object":    {200, "event: message_start\ndata: [1]\n\n", llm.KindMalformed},
		"only_the_message": {200, sse(begin), llm.KindUnfinished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := setup(t, c.status, c.body).Complete(t.Context(), request(), nil)
			if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != c.kind || e.Message == "" {
				t.Errorf("got %#v, want kind %s with a message", err, c.kind)
			}
		})
	}
}

// TestThinkingBlocksAreUnchanged sends a reply back and expects its blocks unchanged.
func TestThinkingBlocksAreUnchanged(t *testing.T) {
	t.Parallel()
	b := setup(t, http.StatusOK, sse(begin,
		start(0, `{"type":"thinking","thinking":"","signature":""}`), delta(0, `{"type":"thinking_delta","thinking":"Let me "}`), delta(0, `{"type":"thinking_delta","thinking":"see."}`), delta(0, `{"type":"signature_delta","signature":"SIG1"}`),
		start(1, `{"type":"redacted_thinking","data":"SECRET"}`),
		start(2, `{"type":"thinking","thinking":"","signature":""}`), delta(2, `{"type":"signature_delta","signature":"SIG2"}`),
		start(3, `{"type":"tool_use","id":"a","name":"f","input":{}}`), delta(3, `{"type":"input_json_delta","partial_json":"{\"n\": 9007199254740993}"}`),
		finish("tool_use"), stop))
	res, err := b.Complete(t.Context(), request(), nil)
	runtest.NoError(t, err)
	if len(res.Parts) != 4 || res.Parts[0].Text != "Let me see." || res.Parts[1].Text != "" || res.Parts[2].Text != "" {
		t.Fatalf("parts: got %+v, want three of reasoning, the first with text, and a call", res.Parts)
	}
	foreign := events.Part{Kind: events.PartReasoning, Text: "elsewhere", Meta: []byte(`{"from":"anthropic elsewhere","fields":{"signature":"OTHER"}}`)}
	req := request(
		say(events.RoleAssistant, append([]events.Part{foreign}, res.Parts...)...),
		say(events.RoleUser, events.Part{Kind: events.PartToolResult, Call: "a", Text: "done"}))
	_, err = b.Complete(t.Context(), req, nil)
	runtest.NoError(t, err)
	var sent struct {
		Messages []struct{ Content json.RawMessage }
	}
	runtest.NoError(t, json.Unmarshal([]byte(b.body), &sent))
	want := `[{"signature":"SIG1","thinking":"Let me see.","type":"thinking"},{"data":"SECRET","type":"redacted_thinking"},` +
		`{"signature":"SIG2","thinking":"","type":"thinking"},{"id":"a","input":{"n":9007199254740993},"name":"f","type":"tool_use"}]`
	if got := string(sent.Messages[1].Content); got != want {
		t.Errorf("assistant content:\n got %s\nwant %s", got, want)
	}
}

// TestThinkingComesNeverLast sends replies back that were cut after thinking.
func TestThinkingComesNeverLast(t *testing.T) {
	t.Parallel()
	b := setup(t, http.StatusOK, sse(begin, finish("end_turn"), stop))
	own := events.Part{Kind: events.PartReasoning, Text: "hm", Meta: []byte(`{"from":"anthropic ` + strings.TrimPrefix(b.url, "http://") + `","model":"m","fields":{"signature":"SIG"}}`)}
	req := request(
		say(events.RoleAssistant, own, text("said"), own), say(events.RoleUser, text("on")),
		say(events.RoleAssistant, own), say(events.RoleUser, text("and on")))
	_, err := b.Complete(t.Context(), req, nil)
	runtest.NoError(t, err)
	want := `{"content":[{"signature":"SIG","thinking":"hm","type":"thinking"},{"text":"said","type":"text"}],"role":"assistant"},` +
		`{"content":[{"text":"on","type":"text"},{"cache_control":{"type":"ephemeral"},"text":"and on","type":"text"}],"role":"user"}`
	if !strings.Contains(b.body, want) {
		t.Errorf("request: got %s, want %s in it", b.body, want)
	}
}

// TestParams checks what only this dialect has.
func TestParams(t *testing.T) {
	t.Parallel()
	b := setup(t, http.StatusOK, sse(begin, finish("end_turn"), stop))
	result := func(o events.Outcome) events.Part {
		return events.Part{Kind: events.PartToolResult, Call: "a.b", Text: "r", Outcome: o}
	}
	call := events.Part{Kind: events.PartToolCall, Call: "a.b", Tool: "f", Args: []byte(`[1]`)}
	req := request(
		say(events.RoleAssistant, call, call, call, call),
		say(events.RoleUser, result(""), result(events.OutcomeFailure), result(events.OutcomeCancelled), result(events.OutcomeLost)),
		say(events.RoleSystem, text("note")))
	req.Messages = append([]events.Message{say(events.RoleSystem, text("one")), say(events.RoleSystem, text("two"))}, req.Messages...)
	req.Effort = "high"
	req.Sampling = events.Sampling{Temperature: "0.5", TopP: "0", Stop: []string{"END"}}
	_, err := b.Complete(t.Context(), req, nil)
	runtest.NoError(t, err)
	for _, want := range []string{
		`"max_tokens":32000`, `"temperature":0.5`, `"top_p":0}`, `"stop_sequences":["END"]`,
		`"output_config":{"effort":"high"}`, `"thinking":{"type":"adaptive"}`,
		`"system":[{"text":"one","type":"text"},{"text":"two","type":"text"}]`,
		`{"id":"a_b","input":{},"name":"f","type":"tool_use"}`,
		`"is_error":false,"tool_use_id":"a_b"`, `"is_error":true,"tool_use_id":"call_2"`, `"is_error":true,"tool_use_id":"call_3"`, `"is_error":true,"tool_use_id":"call_4"`,
		`{"cache_control":{"type":"ephemeral"},"text":"[system note]\nnote","type":"text"}`, `"content":"r"`,
	} {
		if !strings.Contains(b.body, want) {
			t.Errorf("request: got %s, want %s in it", b.body, want)
		}
	}
	req = request()
	req.Messages[0].Role = events.RoleAssistant
	_, err = b.Complete(t.Context(), req, nil)
	runtest.NoError(t, err)
	if !strings.Contains(b.body, `"messages":[{"content":[{"text":"[the conversation continues here]"`) || strings.Contains(b.body, `"thinking"`) {
		t.Errorf("request: got %s, want a user first and no thinking", b.body)
	}
}

// TestSamplingRefused expects an error for settings that the API does not have.
func TestSamplingRefused(t *testing.T) {
	t.Parallel()
	p := open(t, anthropic.Config{APIKey: key, BaseURL: "http://127.0.0.1:1"})
	for _, s := range []events.Sampling{{Seed: "1"}, {Temperature: "1.5"}} {
		req := request()
		req.Sampling = s
		if _, err := p.Complete(t.Context(), req, nil); err == nil || err.(*llm.Error).Kind != llm.KindRequest { //nolint:errorlint // the contract says so
			t.Errorf("%+v: got %v, want it refused", s, err)
		}
	}
}

// TestEnvironment must not be parallel: it sets what official clients read.
func TestEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-from-env")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-from-env")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("ANTHROPIC_PROFILE", "no-such-profile")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-From-Env: yes")
	b := setup(t, http.StatusOK, sse(begin, finish("end_turn"), stop))
	for _, apiKey := range []string{key, ""} {
		p := open(t, anthropic.Config{APIKey: apiKey, BaseURL: b.url})
		_, err := p.Complete(t.Context(), request(), nil)
		runtest.NoError(t, err)
		got := []string{b.header.Get("X-Api-Key"), b.header.Get("Authorization"), b.header.Get("X-From-Env")}
		if want := []string{apiKey, "", ""}; !reflect.DeepEqual(got, want) {
			t.Errorf("headers: got %q, want %q", got, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	_, err := open(t, anthropic.Config{}).Complete(t.Context(), request(), nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindAuth {
		t.Errorf("without a key: got %v, want an auth error", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, cfg := range []anthropic.Config{{BaseURL: "host"}, {BaseURL: "https://user:hunter2@host/"}, {APIKey: "hunter2 "}} {
		if _, err := anthropic.New(cfg); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%+v): got %v, want an error without secrets", cfg, err)
		}
	}
}
