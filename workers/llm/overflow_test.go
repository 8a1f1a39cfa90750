package llm_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

// answers is an [http.RoundTripper] with one response.
type answers struct {
	status int
	body   string
	seen   *http.Request
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.seen = r
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// call is the error of a request, with headers and a query.
func (a *answers) call(t *testing.T, cfg llm.Config) *llm.Error {
	t.Helper()
	cfg.BaseURL, cfg.HTTPClient = "https://host/v1", &http.Client{Transport: a}
	wire := llm.Wire{Path: "x", KeyHeader: "Authorization", KeyScheme: "Bearer ", Encode: encoded(llm.Object{})}
	_, err := opened(t, wire, cfg).Complete(t.Context(), llm.Request{}, nil)
	failure, _ := errors.AsType[*llm.Error](err)
	if failure == nil {
		t.Fatalf("got %v, want an error", err)
	}
	return failure
}

// TestOverflows: words of each provider for a prompt that does not fit, with the statuses and types of gateways.
func TestOverflows(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
		"prompt is too long: 205000 tokens > 200000 maximum", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
		"Input is too long for requested model.", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
		"the request exceeds the available context size (4096 tokens), try increasing it", "Please reduce the length of the messages or completion.",
		"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.", "prompt token count of 128500 exceeds the limit of 128000",
		"`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000", "Range of input length should be [1, 30720]", "Prompt exceeds max length",
		"Your request exceeded model token limit: 8192", "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
		"The number of tokens to keep from the initial prompt is greater than the context length",
		"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", "Prompt length 5000 is greater than max_seq_len 4096", "Prompt 超长",
		"Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", "input is too large to process. increase the physical batch size",
		"the number of input tokens 4321 cannot exceed the total tokens limit 4096 for this model", "too many tokens: size limit exceeded by 12 tokens",
		"Invalid 'input[19].output': string too long. Expected a string with maximum length 10485760, but got a string with length 36961945 instead.",
		"Invalid 'messages[17].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1744259 instead.",
		"Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 2049 instead.",
		"Request body too large for gpt-4o model. Max size: 8000 tokens.",
		"prompt tokens (1200008) exceed model maximum (1050000) for openai.gpt", "total tokens exceeds the model's max of 4096",
		"Extra usage is required for long context requests.", "Total tokens of image and text exceed max message tokens.", "max_tokens must be at least 1, got -1234.",
		"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000. The input or output tokens must be reduced in order to run successfully.",
	} {
		for _, status := range []int{400, 413, 422, 500, 503} {
			for _, typ := range []string{"", "api_error", "invalid_request_error", "BadRequestError"} {
				for _, prefix := range []string{"", "anthropic error: ", "litellm.BadRequestError: "} {
					a := &answers{status: status, body: fmt.Sprintf(`{"error":{"type":%q,"message":%q}}`, typ, prefix+words)}
					if got := a.call(t, llm.Config{}); got.Kind != llm.KindOverflow || got.Retryable() || !strings.Contains(got.Message, words) {
						t.Errorf("%d %s %s: got %v", status, typ, prefix+words, got)
					}
				}
			}
		}
	}
	for _, words := range []string{
		"Rate limit reached for tokens per minute: the context window of this key is full", "Too many tokens, please wait before trying again.", "overloaded",
		"You exceeded your quota of input tokens: maximum number of tokens per day",
	} {
		a := &answers{status: http.StatusTooManyRequests, body: fmt.Sprintf(`{"error":{"message":%q}}`, words)}
		if got := a.call(t, llm.Config{}); got.Kind != llm.KindRateLimit {
			t.Errorf("%s: got %v, want a rate limit", words, got)
		}
	}
}

// TestKinds: the spellings of one type are of one class, and the wait that a text names is kept.
func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, types := range map[llm.ErrorKind][]string{
		llm.KindUnfinished: {"tool_use_failed", "output_parse_failed"},
		llm.KindAuth:       {"exceeded_current_quota_error", "authentication_error", "AuthenticationError", "UNAUTHENTICATED", "unauthorized", "invalid_authentication_error", "AccessDeniedException", "PERMISSION_DENIED"},
		llm.KindRequest:    {"not_found_error", "NOT_FOUND", "NotFoundError", "ResourceNotFoundException", "model_not_found", "BadRequestError", "ValidationException", "INVALID_ARGUMENT"},
		llm.KindRateLimit:  {"rate_limit_error", "rate_limit_exceeded", "RateLimitError", "ThrottlingException", "too_many_requests_error"},
		llm.KindServer:     {"overloaded_error", "server_error", "RESOURCE_EXHAUSTED", "api_error", "InternalServerException"},
	} {
		for _, typ := range types {
			for _, form := range []string{`{"error":{"type":%q,"message":"no"}}`, `{"error":{"code":%q,"message":"no"}}`, `{"__type":%q,"message":"no"}`} {
				f, ok := llm.ParseFailure([]byte(fmt.Sprintf(form, typ)))
				if got := f.Class(); got != kind || !ok {
					t.Errorf("%s: got %s, want %s", typ, got, kind)
				}
			}
		}
	}
	for _, words := range []string{
		"Insufficient balance or no resource package. Please recharge.", "Insufficient account balance", "余额不足或无可用资源包,请充值。", "Your team has either used all available credits or reached its monthly spending limit.",
		"Incorrect API key provided: sk-1.", "login fail: Please carry the API secret key in the 'Authorization' field",
	} {
		a := &answers{status: http.StatusTooManyRequests, body: fmt.Sprintf(`{"error":{"code":"1113","message":%q}}`, words)}
		if got := a.call(t, llm.Config{}); got.Kind != llm.KindAuth || got.Retryable() {
			t.Errorf("%s: got %v, want it told at once", words, got)
		}
	}
	for body, want := range map[string]time.Duration{
		`{"error":{"message":"Please try again in 1m2.5s. Visit us"}}`:                          62500 * time.Millisecond,
		`{"error":{"message":"try again in 350ms"}}`:                                            350 * time.Millisecond,
		`{"error":{"message":"Please retry after 12 seconds."}}`:                                12 * time.Second,
		`{"error":{"message":"quota","details":[{"@type":"RetryInfo","retryDelay": "34.5s"}]}}`: 34500 * time.Millisecond,
		`{"error":{"message":"Your quota will reset after 1h2m3s."}}`:                           time.Hour + 2*time.Minute + 3*time.Second,
		`{"error":{"message":"Rate limited. Please wait 30 seconds before the next one."}}`:     30 * time.Second,
		`{"error":{"message":"try again later, in 3 parts"}}`:                                   0,
	} {
		a := &answers{status: http.StatusTooManyRequests, body: body}
		if got := a.call(t, llm.Config{}); got.RetryAfter != want {
			t.Errorf("%s: got %v, want %v", body, got.RetryAfter, want)
		}
	}
}

// TestFits: what fits is told by the limit and by what was requested.
func TestFits(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]float64{
		"This model's maximum context length is 128000 tokens. However, you requested 512000 tokens (508000 in the messages, 4000 in the completion).": 0.25,
		"prompt is too long: 400,000 tokens > 200,000 maximum":                                    0.5,
		"The input token count (2097152) exceeds the maximum number of tokens allowed (1048576).": 0.5,
		"`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 16384":                        0.5,
		"Your request exceeded model token limit: 8192":                                           1,
		"Please reduce the length of the messages or completion.":                                 1,
		"Request too large for m on tokens per minute (TPM): Limit 6000, Requested 12000":         0.5,
		"the input token count is 65536 but model only supports up to 32768":                      0.5,
		"maximum context length is 4096 tokens (request 20261129000001)":                          1,
	} {
		runtest.Equal(t, words, (&llm.Error{Message: words}).Fits(), want)
	}
}

// TestEndpointSettings: headers and a query are in each request, and in no error.
func TestEndpointSettings(t *testing.T) {
	t.Parallel()
	cfg := llm.Config{APIKey: "key", Header: http.Header{"api-key": {"hunter2-header"}, "authorization": {"Basic hunter2-other"}}, Query: map[string][]string{"api-version": {"hunter2-query"}}}
	a := &answers{status: 400, body: `{"error":"no: hunter2-header, hunter2-query and Basic hunter2-other"}`}
	if got := a.call(t, cfg); strings.Contains(fmt.Sprintf("%+v", *got), "hunter2") || strings.Count(got.Message, "[redacted]") != 3 {
		t.Errorf("got %+v, want no secrets", *got)
	}
	if got, want := a.seen.URL.String(), "https://host/v1/x?api-version=hunter2-query"; got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
	if h := a.seen.Header; h.Get("Api-Key") != "hunter2-header" || len(h.Values("Authorization")) != 1 || h.Get("Authorization") != "Basic hunter2-other" {
		t.Errorf("headers: got %v", h)
	}
	for _, header := range []http.Header{{"a b": {"x"}}, {"": {"x"}}, {"A": {"hunter2\n"}}} {
		if _, err := llm.NewEndpoint(llm.Wire{}, llm.Config{BaseURL: "https://host", Header: header}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v, want an error without the value", header, err)
		}
	}
}
