package openai_test

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
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/openai"
)

func TestResponsesWire(t *testing.T) {
	t.Parallel()
	llmtest.TestWire(t, llmtest.OpenAIResponses{}, openedResponses)
}

func FuzzResponses(f *testing.F) { llmtest.FuzzReader(f, llmtest.OpenAIResponses{}, openedResponses) }

func openedResponses(t *testing.T, baseURL, key string, client *http.Client) llm.Provider {
	t.Helper()
	return openResponses(t, openai.Config{APIKey: key, BaseURL: baseURL, HTTPClient: client})
}

// responsesBundle is a provider and the requests to its endpoint.
type responsesBundle struct {
	*llm.Endpoint
	path string
	body string
}

// setupResponses starts an endpoint that responds to everything with status and stream.
func setupResponses(t *testing.T, status int, stream string) *responsesBundle {
	t.Helper()
	b := &responsesBundle{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		b.path, b.body = r.URL.Path, string(sent)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, stream)
	}))
	t.Cleanup(s.Close)
	b.Endpoint = openResponses(t, openai.Config{APIKey: key, BaseURL: s.URL + "/v1", HTTPClient: s.Client()})
	return b
}

func openResponses(t *testing.T, cfg openai.Config) *llm.Endpoint {
	t.Helper()
	p, err := openai.NewResponses(cfg)
	runtest.NoError(t, err)
	return p
}

func added(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, index, item)
}

func finished(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
}

func streamed(kind string, index int, text string) string {
	return fmt.Sprintf(`{"type":"response.%s.delta","output_index":%d,"delta":%q}`, kind, index, text)
}

func completed(usage string) string {
	return `{"type":"response.completed","response":{"model":"m","status":"completed","output":[],"usage":` + usage + `}}`
}

const (
	message = `{"type":"message","id":"msg_1","role":"assistant","content":[]}`
	fCall   = `{"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":""}`
)

// call is a call without its id, up to its arguments.
const call = `"type":"function_call","call_id":"a","name":"f","arguments":`

// itemOf is the first or the last event of an item with an id.
func itemOf(event string, index int, id, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.%s","output_index":%d,"item":{"id":%q,%s}}`, event, index, id, item)
}

func deltaOf(event string, index int, id, said string) string {
	return fmt.Sprintf(`{"type":"response.%s","output_index":%d,"item_id":%q,%s}`, event, index, id, said)
}

// completedWith is the last event, with the output.
func completedWith(items string) string {
	return `{"type":"response.completed","response":{"model":"m","status":"completed","output":[` + items + `]}}`
}

// TestResponsesDialects reads variants of streams that the suite does not have.
func TestResponsesDialects(t *testing.T) {
	t.Parallel()
	text := []events.Part{{Kind: events.PartText, Text: "ok"}}
	end, say := completed("null"), streamed("output_text", 0, "ok")
	incomplete := func(reason string) string {
		return `{"type":"response.incomplete","response":{"model":"m","incomplete_details":{"reason":"` + reason + `"}}}`
	}
	for name, c := range map[string]struct {
		stream string
		parts  []events.Part
		stop   events.StopReason
	}{
		"news": {sse(`{"type":"response.weather","sun":true}`, added(0, message), say, end, "[DONE]"), text, events.StopEnd},
		"news_of_any_form": {
			sse(`{"type":"response.weather","delta":{"x":1},"item":1,"response":"x"}`, finished(0, `{"type":"weather","content":"x","summary":1,"arguments":2}`), added(1, message), streamed("output_text", 1, "ok"), end),
			text, events.StopEnd,
		},
		"event_names":   {"event: response.created\n" + sse(`{"response":{"model":"m"}}`) + sse(added(0, message), say, end), text, events.StopEnd},
		"whole_message": {sse(finished(0, `{"type":"message","content":[{"type":"output_text","text":"o"},{"type":"output_text","text":"k"}]}`), end), text, events.StopEnd},
		"whole_call":    {sse(added(0, fCall), finished(0, `{"type":"function_call","call_id":"a","name":"f","arguments":"{\"n\":1}"}`), end), []events.Part{streamedCall("a", "f", `{"n":1}`)}, events.StopToolUse},
		"unopened":      {sse(`{"type":"response.created","response":{"model":"m"}}`, say, end), text, events.StopEnd},
		"item_ids": {
			sse(added(0, `{"type":"function_call","id":"fc_1","call_id":"a","name":"f"}`), `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"n\""}`,
				`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"delta":"ok"}`, `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":":1}"}`, end),
			[]events.Part{streamedCall("a", "f", `{"n":1}`), text[0]},
			events.StopToolUse,
		},
		"ids_that_change": {
			sse(itemOf("added", 0, "m1", `"type":"message"`), deltaOf("output_text.delta", 0, "m2", `"delta":"o"`), deltaOf("output_text.delta", 0, "m3", `"delta":"k"`),
				itemOf("done", 0, "m4", `"type":"message","content":[{"type":"output_text","text":"ok"}]`),
				itemOf("added", 1, "c1", call+`""`), deltaOf("function_call_arguments.delta", 1, "c2", `"delta":"{\"n\""`), deltaOf("function_call_arguments.delta", 1, "c3", `"delta":":1}"`),
				deltaOf("function_call_arguments.done", 1, "c4", `"arguments":"{\"n\":1}"`), itemOf("done", 1, "c5", call+`"{\"n\":1}"`), end),
			[]events.Part{text[0], streamedCall("a", "f", `{"n":1}`)},
			events.StopToolUse,
		},
		"arguments_at_their_end": {sse(itemOf("added", 0, "c1", call+`""`), deltaOf("function_call_arguments.done", 0, "c1", `"arguments":"{\"n\":1}"`), end), []events.Part{streamedCall("a", "f", `{"n":1}`)}, events.StopToolUse},
		"arguments_in_broken_pieces": {
			sse(itemOf("added", 0, "c1", call+`""`), deltaOf("function_call_arguments.delta", 0, "c1", `"delta":"n\":1}"`), deltaOf("function_call_arguments.done", 0, "c1", `"arguments":"{\"n\":1}"`), end),
			[]events.Part{streamedCall("a", "f", `{"n":1}`)},
			events.StopToolUse,
		},
		"arguments_at_the_begin": {sse(itemOf("added", 0, "c1", call+`"{\"n\":1}"`), end), []events.Part{streamedCall("a", "f", `{"n":1}`)}, events.StopToolUse},
		"completed_arguments":    {sse(itemOf("added", 0, "c1", call+`""`), completedWith(`{"id":"c9",`+call+`"{\"n\":1}"}`)), []events.Part{streamedCall("a", "f", `{"n":1}`)}, events.StopToolUse},
		"completed_call": {
			sse(added(0, message), say, completedWith(`{"type":"message","content":[{"type":"output_text","text":"ok"}]},{"id":"c9",`+call+`"{\"n\":1}"}`)),
			[]events.Part{text[0], streamedCall("a", "f", `{"n":1}`)},
			events.StopToolUse,
		},
		"completed_second_call": {
			sse(itemOf("added", 0, "c1", call+`""`), deltaOf("function_call_arguments.delta", 0, "c1", `"delta":"{}"`), completedWith(`{"id":"c8",`+call+`"{}"},{"id":"c9",`+call+`"{\"n\":1}"}`)),
			[]events.Part{streamedCall("a", "f", `{}`), streamedCall("a", "f", `{"n":1}`)},
			events.StopToolUse,
		},
		"empty_error":   {sse(added(0, message), say, `{"type":"response.completed","response":{"model":"m","status":"completed","error":{}}}`), text, events.StopEnd},
		"done":          {sse(added(0, message), say, `{"type":"response.done","response":{"model":"m","status":"completed"}}`), text, events.StopEnd},
		"object":        {sse(finished(0, `{"type":"function_call","call_id":"a","name":"f","arguments":{"n":1}}`), end), []events.Part{streamedCall("a", "f", `{"n":1}`)}, events.StopToolUse},
		"server_tool":   {sse(added(0, `{"type":"web_search_call","id":"ws_1"}`), streamed("function_call_arguments", 0, "no"), added(1, message), streamed("output_text", 1, "ok"), end), text, events.StopEnd},
		"refusal":       {sse(added(0, message), streamed("refusal", 0, "ok"), end), text, events.StopContentFilter},
		"whole_refusal": {sse(finished(0, `{"type":"message","content":[{"type":"refusal","refusal":"ok"}]}`), end), text, events.StopContentFilter},
		"cut_call":      {sse(added(0, fCall), streamed("function_call_arguments", 0, `{"x`), incomplete("max_output_tokens")), []events.Part{streamedCall("a", "f", `{"x`)}, events.StopOutputLimit},
		"filtered":      {sse(added(0, message), say, incomplete("content_filter")), text, events.StopContentFilter},
		"other_reason":  {sse(added(0, message), say, incomplete("steered")), text, events.StopUnknown},
		"summaries": {
			sse(added(0, `{"type":"reasoning","id":"rs_1","summary":[]}`), `{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}`,
				`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"b"}`, added(1, message), streamed("output_text", 1, "ok"), end),
			[]events.Part{{Kind: events.PartReasoning, Text: "a\n\nb"}, text[0]},
			events.StopEnd,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := setupResponses(t, http.StatusOK, c.stream).Complete(t.Context(), request(), nil)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			if !reflect.DeepEqual(res.Parts, c.parts) || res.Stop != c.stop || res.Model != "m" {
				t.Errorf("got %q %+v of %q, want %q %+v of \"m\"", res.Stop, res.Parts, res.Model, c.stop, c.parts)
			}
			if (res.Detail != "") != (c.stop == events.StopUnknown || c.stop == events.StopContentFilter) {
				t.Errorf("detail: got %q", res.Detail)
			}
		})
	}
}

func TestResponsesUsage(t *testing.T) {
	t.Parallel()
	usage := `{"input_tokens":100,"input_tokens_details":{"cached_tokens":30,"cache_write_tokens":20},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":40},"total_tokens":150}`
	want := events.Usage{Input: 50, Output: 50, CacheRead: 30, CacheWrite: 20, Reasoning: 40}
	res, err := setupResponses(t, http.StatusOK, sse(completed(usage))).Complete(t.Context(), request(), nil)
	if err != nil || res.Usage != want {
		t.Errorf("got %+v %v, want %+v", res.Usage, err, want)
	}
	failed := `{"type":"response.failed","response":{"model":"m","error":{"code":"server_error","message":"x"},"usage":` + usage + `}}`
	res, err = setupResponses(t, http.StatusOK, sse(failed)).Complete(t.Context(), request(), nil)
	if err == nil || res.Usage != want || res.Model != "m" {
		t.Errorf("failed: got %+v of %q %v, want an error and what the call cost", res.Usage, res.Model, err)
	}
}

func TestResponsesErrors(t *testing.T) {
	t.Parallel()
	failed := func(code string) string {
		return sse(`{"type":"response.failed","response":{"error":{"code":"` + code + `","message":"bad"}}}`)
	}
	for name, c := range map[string]struct {
		status int
		body   string
		kind   llm.ErrorKind
		code   string
	}{
		"no_money":    {429, `{"error":{"message":"quota","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.KindAuth, "insufficient_quota"},
		"limit":       {200, failed("rate_limit_exceeded"), llm.KindRateLimit, "rate_limit_exceeded"},
		"server":      {200, failed("server_error"), llm.KindServer, "server_error"},
		"prompt":      {200, failed("invalid_prompt"), llm.KindRequest, "invalid_prompt"},
		"image":       {200, failed("image_content_policy_violation"), llm.KindRequest, "image_content_policy_violation"},
		"policy":      {200, failed("bio_policy"), llm.KindRequest, "bio_policy"},
		"overflow":    {200, failed("context_length_exceeded"), llm.KindOverflow, "context_length_exceeded"},
		"filter":      {200, failed("data_inspection_failed"), llm.KindRequest, "data_inspection_failed"},
		"status":      {200, sse(`{"type":"response.completed","response":{"status":"failed","error":null}}`), llm.KindServer, ""},
		"text":        {200, sse(`{"type":"response.failed","response":{"error":"invalid api key"}}`), llm.KindAuth, ""},
		"no_reason":   {200, sse(`{"type":"response.failed","response":{}}`), llm.KindServer, ""},
		"event":       {200, sse(`{"type":"error","code":"server_error","message":"bad","param":null}`), llm.KindServer, "server_error"},
		"nested":      {200, sse(`{"type":"error","error":{"type":"tokens","code":"rate_limit_exceeded","message":"bad"}}`), llm.KindRateLimit, "rate_limit_exceeded"},
		"unopened":    {200, sse(streamed("function_call_arguments", 3, "{}"), completed("null")), llm.KindMalformed, ""},
		"text_object": {200, sse(`{"type":"response.output_text.delta","delta":{"x":"x"}}`), llm.KindMalformed, ""},
		"no_object":   {200, sse(`[1]`), llm.KindMalformed, ""},
		"no_item":     {200, sse(`{"type":"response.output_item.added","item":1}`), llm.KindMalformed, ""},
		"no_response": {200, sse(`{"type":"response.completed"}`), llm.KindMalformed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := setupResponses(t, c.status, c.body).Complete(t.Context(), request(), nil)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Kind != c.kind || e.Code != c.code || e.Message == "" {
				t.Fatalf("got %#v, want kind %s and code %q", err, c.kind, c.code)
			}
			if c.code != "" && !strings.Contains(e.Raw, c.code) {
				t.Errorf("raw: got %q, want what the endpoint sent", e.Raw)
			}
		})
	}
}

// TestResponsesReplay sends a reply back: its endpoint receives its reasoning and phases again, other endpoints do
// not.
func TestResponsesReplay(t *testing.T) {
	t.Parallel()
	stream := sse(
		added(0, `{"type":"reasoning","id":"rs_1","summary":[]}`), streamed("reasoning_summary_text", 0, "hm"),
		finished(0, `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"ENC1"}`),
		added(1, message), streamed("output_text", 1, "Looking."), finished(1, `{"type":"message","phase":"commentary","content":[]}`),
		finished(2, `{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"ENC2"}`),
		added(3, fCall), streamed("function_call_arguments", 3, `{"n":9007199254740993}`),
		finished(3, `{"type":"function_call","call_id":"a","name":"f","status":"completed","arguments":"{\"n\":9007199254740993}","provider_specific_fields":{"thought_signature":"S"},"note":null}`),
		added(4, `{"type":"reasoning","id":"rs_3","summary":[]}`), streamed("reasoning_text", 4, "open"), finished(4, `{"type":"reasoning","id":"rs_3","summary":[]}`),
		added(5, message), streamed("output_text", 5, "ok"),
		finished(6, `{"type":"reasoning","id":"rs_4","summary":[],"encrypted_content":"ENC4"}`),
		completed("null"))
	first, other := setupResponses(t, http.StatusOK, stream), setupResponses(t, http.StatusOK, stream)
	res, err := first.Complete(t.Context(), request(), nil)
	runtest.NoError(t, err)
	req := request(events.Message{Role: events.RoleAssistant, Parts: res.Parts},
		events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: "a", Text: ""}}})
	own := `{"id":"rs_1","summary":[{"text":"hm","type":"summary_text"}],"encrypted_content":"ENC1","type":"reasoning"},` +
		`{"content":"Looking.","role":"assistant","phase":"commentary"},` +
		`{"id":"rs_2","summary":[],"encrypted_content":"ENC2","type":"reasoning"},` +
		`{"arguments":"{\"n\":9007199254740993}","call_id":"a","name":"f","type":"function_call","provider_specific_fields":{"thought_signature":"S"}},` +
		`{"id":"rs_3","summary":[],"content":[{"text":"open","type":"reasoning_text"}],"type":"reasoning"},` +
		`{"content":"ok","role":"assistant"},{"output":"[no output]","call_id":"a","type":"function_call_output"}`
	foreign := `{"content":"Looking.","role":"assistant"},` +
		`{"arguments":"{\"n\":9007199254740993}","call_id":"a","name":"f","type":"function_call"},` +
		`{"content":"ok","role":"assistant"},{"output":"[no output]","call_id":"a","type":"function_call_output"}`
	for b, want := range map[*responsesBundle]string{first: own, other: foreign} {
		_, err = b.Complete(t.Context(), req, nil)
		runtest.NoError(t, err)
		var sent struct{ Input []json.RawMessage }
		runtest.NoError(t, json.Unmarshal([]byte(b.body), &sent))
		var want2 []json.RawMessage
		runtest.NoError(t, json.Unmarshal([]byte("["+want+"]"), &want2))
		if got, want := values(t, sent.Input[1:]), values(t, want2); !reflect.DeepEqual(got, want) {
			t.Errorf("input:\n got %s\nwant %s", sent.Input[1:], want2)
		}
	}
}

// values are documents without the order of their fields.
func values(t *testing.T, list []json.RawMessage) []any {
	t.Helper()
	out := make([]any, len(list))
	for i, raw := range list {
		runtest.NoError(t, json.Unmarshal(raw, &out[i]))
	}
	return out
}

// TestResponsesParams sends every setting, and expects no other fields.
func TestResponsesParams(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"const":9007199254740993}}}`)
	b := setupResponses(t, http.StatusOK, sse(completed("null")))
	for name, c := range map[string]struct {
		change  func(*llm.Request)
		has     []string
		without []string
	}{
		"zero": {func(*llm.Request) {}, []string{`"store":false`, `"stream":true`}, []string{"tool_choice", `"text":{`, "include", "reasoning", "max_output_tokens", "temperature", "top_p"}},
		"full": {func(r *llm.Request) {
			r.MaxOutputTokens, r.Effort = 99, "low"
			r.Sampling = events.Sampling{Temperature: "0.5", TopP: "0"}
		}, []string{`"max_output_tokens":99`, `"reasoning":{"effort":"low"}`, `"include":["reasoning.encrypted_content"]`, `"temperature":0.5`, `"top_p":0`}, nil},
		"object":   {func(r *llm.Request) { r.Output.JSON = true }, []string{`"text":{"format":{"type":"json_object"}}`}, nil},
		"schema":   {func(r *llm.Request) { r.Output = llm.Output{Name: "count", Schema: schema, Strict: true} }, []string{`"type":"json_schema"`, `"name":"count"`, `"strict":true`, `"const":9007199254740993`}, nil},
		"none":     {func(r *llm.Request) { r.Tools, r.ToolChoice.None = []llm.Tool{{Name: "f"}}, true }, []string{`"tool_choice":"none"`, `"strict":false`}, nil},
		"required": {func(r *llm.Request) { r.Tools, r.ToolChoice.Required = []llm.Tool{{Name: "f"}}, true }, []string{`"tool_choice":"required"`}, nil},
		"named":    {func(r *llm.Request) { r.Tools, r.ToolChoice.Tool = []llm.Tool{{Name: "f"}}, "f" }, []string{`"tool_choice":{"name":"f","type":"function"}`}, nil},
		"no_tools": {func(r *llm.Request) { r.ToolChoice.None = true }, nil, []string{"tool_choice"}},
		"files": {func(r *llm.Request) {
			r.Messages[0].Parts = []events.Part{
				{Kind: events.PartAttachment, MediaType: "application/pdf", Text: "aGk="},
				{Kind: events.PartAttachment, MediaType: "application/pdf", Text: "https://x.example/a.pdf"},
				{Kind: events.PartAttachment, MediaType: "image/png", Text: "https://x.example/a.png"},
				{Kind: events.PartAttachment, MediaType: "audio/wav", Text: "aGk="},
			}
		}, []string{`"file_data":"data:application/pdf;base64,aGk="`, `"file_url":"https://x.example/a.pdf"`, `"image_url":"https://x.example/a.png"`, `an attachment of type \"audio/wav\"`}, nil},
	} {
		req := request()
		c.change(&req)
		if _, err := b.Complete(t.Context(), req, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range c.has {
			if !strings.Contains(b.body, want) {
				t.Errorf("%s: got %s, want %s in it", name, b.body, want)
			}
		}
		for _, not := range c.without {
			if strings.Contains(b.body, not) {
				t.Errorf("%s: got %s, want no %s", name, b.body, not)
			}
		}
	}
	runtest.Equal(t, "path", b.path, "/v1/responses")
	b.body = ""
	for name, change := range map[string]func(*llm.Request){
		"seed":   func(r *llm.Request) { r.Sampling.Seed = "1" },
		"stop":   func(r *llm.Request) { r.Sampling.Stop = []string{"END"} },
		"schema": func(r *llm.Request) { r.Output = llm.Output{Name: "x", Schema: json.RawMessage(`[1]`)} },
	} {
		req := request()
		change(&req)
		_, err := b.Complete(t.Context(), req, nil)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindRequest || b.body != "" {
			t.Errorf("%s: got %v after sending %q, want it refused before", name, err, b.body)
		}
	}
}

func TestResponsesWithoutKey(t *testing.T) {
	t.Parallel()
	_, err := openResponses(t, openai.Config{}).Complete(t.Context(), request(), nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindAuth {
		t.Errorf("got %v, want an auth error", err)
	}
}
