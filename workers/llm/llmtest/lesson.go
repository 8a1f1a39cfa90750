package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// lesson is what endpoints refuse, in any of some words: the request is made once more without it, and later ones do not have it.
type lesson struct {
	words   []string
	refuses func(w *wireTest, body []byte) bool
	request func(p llm.Provider, n int) llm.Request // the n-th
	client  bool                                    // no endpoint has the status of a server's error for it
	may     bool                                    // not all wires have it
	foreign bool                                    // the parts of all requests but the last have fields that the endpoint does not take back
	most    int64                                   // tokens that the endpoint takes as limit, if it is one of those: that of a caller stays
}

// lessons are those of all wires, of which one has a limit of output tokens in a field.
func lessons(limit string) map[string]lesson {
	list := map[string]lesson{
		// What the endpoint wanted back: what later replies have is sent back.
		"forgets": {
			words: []string{
				"messages.1.content.0: Invalid `signature` in `thinking` block", "messages.1.content.0: Invalid signature in thinking block (Service: BedrockRuntime, Status Code: 400)",
				"messages.1.content.0.thinking.signature: Field required", "The encrypted content gAAA...c90= could not be verified.",
				"Unable to submit request because Thought signature is not valid.", "Corrupted thought signature.",
				"messages.5.content.2: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
			},
			refuses: has("SIGNED-1"), foreign: true,
			request: func(p llm.Provider, n int) llm.Request {
				return called(p, []string{"SIGNED-1", "SIGNED-1", "SIGNED-2"}[n], "a")
			},
		},
		// Mistral's endpoint takes ids of nine letters and digits, which other models do not make.
		"ids": {
			words:   []string{"Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.", "Tool call IDs should be alphanumeric strings with length 9!"},
			refuses: (*wireTest).otherIDs,
			request: func(p llm.Provider, _ int) llm.Request {
				return called(p, "x", "call_0fypS1hVX", "toolu_01A", keptID, keptID, "", "functions.read:0")
			},
		},
		// The model's template has no system message: its text is the user's.
		"no_system": {
			words: []string{
				"System role not supported", "Only user, assistant and tool roles are supported, got system.", "Conversation roles must alternate user/assistant/user/assistant/...",
			},
			refuses: func(w *wireTest, body []byte) bool {
				req, _ := w.wire.Read(body)
				return len(req.Messages) == 0 || req.Messages[0].Role != events.RoleUser || !strings.Contains(req.Messages[0].Text(), "be brief") || !strings.Contains(req.Messages[0].Text(), "go on")
			},
			request: func(llm.Provider, int) llm.Request {
				req := request()
				req.Messages = append([]events.Message{{Role: events.RoleSystem, Parts: []events.Part{{Kind: events.PartText, Text: "be brief"}}}}, req.Messages...)
				return req
			},
		},
		// No calls in a conversation without tools: the tools that were called are declared, and none may be called.
		"calls_without_tools": {
			words: []string{
				"The toolConfig field must be defined when using toolUse and toolResult content blocks.",
				"litellm.UnsupportedParamsError: Bedrock doesn't support tool calling without `tools=` param specified. Pass `tools=` param",
				"Requests which include `tool_use` or `tool_result` blocks must define tools",
			},
			refuses: func(w *wireTest, body []byte) bool {
				req, _ := w.wire.Read(body)
				return len(req.Tools) != 1 || !req.ToolChoice.None
			},
			request: func(p llm.Provider, _ int) llm.Request {
				req := called(p, "x", "a", "b")
				req.Tools = nil
				return req
			},
		},
		// A model's template has one call in a message. Source: https://github.com/vllm-project/vllm/issues/12937.
		"one_call": {
			words:   []string{"This model only supports single tool-calls at once!", "Invalid 'messages[1].tool_calls': array too long. Expected an array with maximum length 1, but got an array with length 3 instead."},
			refuses: (*wireTest).twoCalls, may: true,
			request: func(p llm.Provider, _ int) llm.Request {
				req := called(p, "x", "a", "b", "c")
				first, results := &req.Messages[1], &req.Messages[2]
				for _, m := range req.Messages[3:] {
					if m.Role == events.RoleAssistant {
						first.Parts = append(first.Parts, m.Parts...)
					} else {
						results.Parts = append(results.Parts, m.Parts...)
					}
				}
				req.Messages = req.Messages[:3]
				return req
			},
		},
		// No stream, to this account or with tools. Sources: https://github.com/charmbracelet/crush/issues/1216, Bedrock's and OpenAI's errors.
		"no_stream": {
			words: []string{
				"Your organization must be verified to stream this model. Please go to: https://platform.openai.com/settings and click on Verify Organization.",
				"This model doesn't support tool use in streaming mode.", "Unsupported value: 'stream' does not support true with this model.",
			},
			refuses: has(`"stream":true|"stream_options"`), request: func(llm.Provider, int) llm.Request { return request() },
		},
		// A type for every value, and properties for every object. Sources: https://github.com/MoonshotAI/kimi-cli/issues/1595,
		// https://github.com/google-gemini/gemini-cli/issues/2282, https://github.com/danny-avila/LibreChat/issues/6971.
		"strict_forms": {
			words: []string{
				"tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.any': type is not defined>",
				"Unable to submit request because `find` functionDeclaration `parameters.any` schema didn't specify the schema type field.",
				"* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[any].type: must be specified when not using one_of, any_of or all_of fields",
				"* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[map].properties: should be non-empty for OBJECT type",
				"Unable to submit request because `find` functionDeclaration `parameters.either` schema specified other fields alongside any_of.",
			},
			refuses: func(w *wireTest, body []byte) bool {
				req, _ := w.wire.Read(body)
				return len(req.Tools) != 2 || slices.ContainsFunc(req.Tools, func(t llm.Tool) bool {
					var form any
					return json.Unmarshal(t.InputSchema, &form) != nil || !typed(form)
				})
			},
			request: func(llm.Provider, int) llm.Request {
				req := request()
				req.Tools = []llm.Tool{{Name: "find", InputSchema: []byte(`{"type":"object","properties":{"any":true,"said":{"description":"x"},"list":{"type":"array"},"one":{"enum":[1,2]},` +
					`"map":{"type":"object","additionalProperties":{"type":"string"}},"either":{"description":"x","anyOf":[{"type":"object"},{"type":"array","items":{}},{"type":"null"}]}}}`)}, {Name: "zero"}}
				return req
			},
		},
		"limit_required": {words: []string{limit + ": Field required"}, refuses: limited(1, 1<<40)},
		"limit_too_large": {words: []string{
			limit + ": 32000 > 4096, which is the maximum allowed number of output tokens for model-1",
			"The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
		}, refuses: limited(0, 4096), most: 4096},
		"limit_of_window": {words: []string{
			"This model's maximum context length is 8192 tokens. However, you requested 32100 tokens (100 in the messages, 32000 in the completion).",
		}, refuses: limited(0, 8092)},
		"limit_range": {words: []string{"Invalid " + limit + " value, the valid range of " + limit + " is [1, 8192]"}, refuses: limited(0, 8192), most: 8192},
	}
	for name, l := range list {
		if strings.HasPrefix(name, "limit") {
			l.client, l.may, l.request = true, true, func(llm.Provider, int) llm.Request { return request() }
			list[name] = l
		}
	}
	for field, sent := range map[string]string{ // those that requests need not have
		"stream_options": `"stream_options"`, "cache_control": `"cache_control"`, "store": `"store"`, "include": `"include"`,
		"name": `\{[^{}]*"name":[^{}]*"role":"tool"|\{[^{}]*"role":"tool"[^{}]*"name":`, // of a result
	} {
		l := lesson{client: true, may: true, refuses: has(sent), request: func(p llm.Provider, _ int) llm.Request {
			req := called(p, "x", "a")
			req.Effort = "low" // without it there is no include
			return req
		}}
		for _, words := range []string{
			"Unknown parameter: '%s'.", "messages.2.%s: Extra inputs are not permitted", "property '%s' is unsupported",
			"[{'type': 'extra_forbidden', 'loc': ('body', '%s')}]", "Only messages of role 'user' can have a %s.", `json: unknown field "%s"`,
		} {
			l.words = append(l.words, fmt.Sprintf(words, field))
		}
		list[field] = l
	}
	return list
}

// typed reports whether a form has what the strictest endpoints want.
func typed(form any) bool {
	f, _ := form.(map[string]any)
	either, _ := f["anyOf"].([]any)
	properties, _ := f["properties"].(map[string]any)
	inner := either
	for _, p := range properties {
		inner = append(inner, p)
	}
	if f["items"] != nil {
		inner = append(inner, f["items"])
	}
	alone := either == nil && f["type"] != nil || either != nil && len(f) == 1
	return alone && (f["type"] != "object" || len(properties) > 0) && !slices.ContainsFunc(inner, func(v any) bool { return !typed(v) })
}

// twoCalls refuses bodies with two calls in a message.
func (w *wireTest) twoCalls(body []byte) bool {
	req, _ := w.wire.Read(body)
	return slices.ContainsFunc(req.Messages, func(m events.Message) bool {
		return len(m.Parts) > 1 && m.Parts[len(m.Parts)-2].Kind == events.PartToolCall
	})
}

// has refuses bodies in which a pattern is.
func has(pattern string) func(*wireTest, []byte) bool {
	sent := regexp.MustCompile(pattern)
	return func(_ *wireTest, body []byte) bool { return sent.Match(body) }
}

// limited refuses other limits of output tokens.
func limited(least, most int64) func(*wireTest, []byte) bool {
	return func(w *wireTest, body []byte) bool {
		req, _ := w.wire.Read(body)
		return req.MaxOutputTokens < least || req.MaxOutputTokens > most
	}
}

const keptID = "abcDEF123"

var nineLetters = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// otherIDs refuses ids of calls that are not of nine letters and digits, and bodies without the one that was from the begin.
func (w *wireTest) otherIDs(body []byte) bool {
	req, err := w.wire.Read(body)
	kept := false
	for _, m := range req.Messages {
		for _, part := range m.Parts {
			if part.Call != "" && !nineLetters.MatchString(string(part.Call)) {
				return true
			}
			kept = kept || part.Call == keptID
		}
	}
	return err != nil || !kept
}

// called is a conversation with calls, whose reasoning has fields that its endpoint wants back.
func called(p llm.Provider, signed string, ids ...events.CallID) llm.Request {
	address, port := p.(llm.Remote).Server()
	fields := fmt.Sprintf(`{"signature":%[1]q,"encrypted_content":%[1]q,"message.details":%[1]q}`, signed)
	meta := fmt.Sprintf(`{"from":"%s %s:%d","model":"model-1","id":"rs_1","fields":%s}`, p.ID(), address, port, fields)
	req := request()
	for _, id := range ids {
		req.Messages = append(req.Messages,
			events.Message{Role: events.RoleAssistant, Parts: []events.Part{
				{Kind: events.PartReasoning, Text: "hm", Meta: []byte(meta)}, {Kind: events.PartToolCall, Call: id, Tool: "read", Args: []byte(`{"path":"x"}`)},
			}},
			events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: id, Tool: "read", Text: "done"}}})
	}
	return req
}

// refusing is an endpoint that refuses bodies with words, and answers others. It counts the refusals.
func (w *wireTest) refusing(t *testing.T, status int, words string, refuses func(*wireTest, []byte) bool) (llm.Provider, *atomic.Int64) {
	t.Helper()
	refused := new(atomic.Int64)
	body, end := w.wire.Stream(Text("ok"))
	p := w.serve(t, func(rw http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		_, err := w.wire.Read(sent)
		switch {
		case refuses(w, sent):
			refused.Add(1)
			rw.WriteHeader(status)
			_ = json.NewEncoder(rw).Encode(map[string]any{"error": map[string]any{"message": words, "type": "invalid_request_error"}})
			return
		case err != nil && !strings.Contains(err.Error(), "a stream") && !strings.Contains(err.Error(), "without the tool's name"): // what is refused is left out
			t.Errorf("request: %v", err)
		}
		_, _ = io.WriteString(rw, body+end)
	})
	return p, refused
}

// testLessons has endpoints refuse what they tell in their words.
func (w *wireTest) testLessons(t *testing.T) {
	t.Parallel()
	limit := "max_tokens"
	if _, ok := w.wire.(OpenAIResponses); ok {
		limit = "max_output_tokens"
	}
	for name, l := range lessons(limit) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, words := range l.words {
				w.testLesson(t, l, http.StatusBadRequest, words)
				if !l.client {
					w.testLesson(t, l, http.StatusInternalServerError, words)
				}
			}
		})
	}
	for _, words := range []string{"no", "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 1."} { // they tell nothing
		p, refused := w.refusing(t, http.StatusBadRequest, words, has("SIGNED"))
		if _, err := p.Complete(t.Context(), called(p, "SIGNED", "a"), nil); err == nil || refused.Load() != 1 {
			t.Errorf("%s: got %v after %d refusals, want one request, with the fields that the endpoint made", words, err, refused.Load())
		}
	}
}

func (w *wireTest) testLesson(t *testing.T, l lesson, status int, words string) {
	t.Helper()
	p, refused := w.refusing(t, status, words, l.refuses)
	for n := range 3 {
		req := l.request(p, n)
		res, err := p.Complete(t.Context(), req, nil)
		if got := refused.Load(); err != nil || spelled(res.Parts) != "text ok" || got > 1 || got == 0 && !l.may || (res.Foreign > 0) != (l.foreign && n < 2) {
			t.Errorf("%d %s: got %q and %v after %d refusals, with %d parts without fields, want one refusal of the first request", status, words, spelled(res.Parts), err, got, res.Foreign)
		}
		if !reflect.DeepEqual(req, l.request(p, n)) {
			t.Errorf("%s: the request is changed", words)
		}
	}
	if req := request(); l.most > 0 {
		req.MaxOutputTokens = l.most + 1
		_, err := p.Complete(t.Context(), req, nil)
		checkError(t, err, llm.KindRequest)
	}
}
