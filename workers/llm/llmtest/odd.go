package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// canned is a transport whose every response has a status, a media type and a body.
type canned struct {
	status      int
	media, body string
}

// RoundTrip implements [http.RoundTripper].
func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.media}}, Body: io.NopCloser(strings.NewReader(c.body)), Request: r}, nil
}

// read is the reply that a body is read as, and whether a turn may act on it.
func (w *wireTest) read(t *testing.T, media, body string) (llm.Response, *received, error) {
	t.Helper()
	p := w.open(t, "http://wire.example", Key, &http.Client{Transport: canned{http.StatusOK, media, body}})
	h := &received{}
	res, err := p.Complete(t.Context(), request(), h.sink)
	if err == nil {
		err = res.Finished()
	}
	return res, h, err
}

const stream = "text/event-stream"

// What a reply has before its end.
var contents = map[string]Reply{
	"nothing":    {},
	"blank":      Text(" \n"),
	"thinking":   {Chunks: []Chunk{{Kind: events.PartReasoning, Text: "hm"}}},
	"text":       Text("so ", "far"),
	"whole_call": {Chunks: []Chunk{{Kind: events.PartToolCall, Call: "a", Tool: "read", Text: `{"path":"x"}`}}},
	"cut_call":   {Chunks: []Chunk{{Kind: events.PartToolCall, Call: "a", Tool: "read", Text: `{"path":"x`}}},
	"one_cut":    {Chunks: []Chunk{{Kind: events.PartToolCall, Call: "a", Tool: "read", Text: `{"path":"x"}`}, {Kind: events.PartToolCall, Index: 1, Call: "b", Tool: "list", Text: `{"dir"`}}},
}

// reasons are ends as providers and gateways spell them, by their meaning.
var reasons = map[string][]string{
	"end":       {"stop", "STOP", "end_turn", "endTurn", "completed", "COMPLETE", "FINISH_REASON_STOP", "FinishReason.STOP", "eos", "eos_token", "FINISH", "normal", "finished", "eosFound"},
	"calls":     {"tool_calls", "tool_use", "TOOL_CALL", "function_call", "toolUse"},
	"limit":     {"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "maxTokens", "token_limit", "maximum_tokens"},
	"filter":    {"content_filter", "content_filtered", "refusal", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "guardrail_intervened", "sensitive", "MODEL_ARMOR"},
	"overflow":  {"model_context_window_exceeded", "model_length", "contextLengthReached"},
	"error":     {"error", "ERROR", "overloaded_error", "network_error", "insufficient_system_resource", "abort"},
	"throttled": {"ThrottlingException", "rate_limit_error"},
	"unknown":   {"steered", "pause_turn", "OTHER", "MALFORMED_FUNCTION_CALL", "stop_sequence", "STOP_SEQUENCE"},
}

// testEnds ends each content for each reason: the whole table of what may run and what is an answer.
func (w *wireTest) testEnds(t *testing.T) {
	t.Parallel()
	for meaning, list := range reasons {
		for _, reason := range list {
			for name, reply := range contents {
				body, _ := w.wire.Stream(reply)
				res, _, err := w.read(t, stream, body+w.wire.End(reason))
				stop, kind, code := outcome(meaning, name)
				failed, _ := errors.AsType[*llm.Error](err)
				switch {
				case kind == "" && (err != nil || res.Stop != stop):
					t.Errorf("%s after %s: got %q and %v, want %q", reason, name, res.Stop, err, stop)
				case kind != "" && (failed == nil || failed.Kind != kind || code != "" && failed.Code != code):
					t.Errorf("%s after %s: got %q and %v, want %s %s", reason, name, res.Stop, err, kind, code)
				}
			}
		}
	}
}

// outcome is the rule: how a content ends that the model ended for a reason.
func outcome(meaning, content string) (stop events.StopReason, kind llm.ErrorKind, code string) {
	ended := map[string]events.StopReason{
		"limit": events.StopOutputLimit, "filter": events.StopContentFilter, "overflow": events.StopContextOverflow,
	}[meaning]
	empty := content == "nothing" || content == "blank" || content == "thinking"
	switch {
	case ended != "":
		return ended, "", ""
	case meaning == "error":
		return "", llm.KindServer, ""
	case meaning == "throttled":
		return "", llm.KindRateLimit, ""
	case content == "cut_call", content == "one_cut":
		return "", llm.KindUnfinished, "" // for either reason
	case meaning == "unknown":
		return "", llm.KindUnfinished, llm.CodeUnknownEnd
	case empty:
		return "", llm.KindUnfinished, llm.CodeEmpty
	case content == "whole_call":
		return events.StopToolUse, "", ""
	case meaning == "calls":
		return "", llm.KindUnfinished, llm.CodeUnknownEnd
	}
	return events.StopEnd, "", ""
}

// testValues sends JSON of other types where a text stands.
func (w *wireTest) testValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"4."`:                          "text 4.",
		`[{"type":"text","text":"4."}]`: "text 4.",
		`["4","."]`:                     "text 4.",
		`{"type":"text","text":"4."}`:   "text 4.",
		`{"text":"4."}`:                 "text 4.",
		`{"text":{"value":"4."}}`:       "text 4.",
		`[{"type":"reference","ids":[1]},{"type":"text","text":"4."}]`:                               "text 4.",
		`[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"4."}]`: "reasoning hm|text 4.",
		`[{"type":"reasoning","text":"hm"},{"type":"output_text","text":"4."}]`:                      "reasoning hm|text 4.",
		`1`: "", `true`: "", `[1]`: "", `{"x":1}`: "", `[[[[[["4."]]]]]]`: "",
	} {
		begin, _ := w.wire.Stream(Reply{})
		res, h, err := w.read(t, stream, begin+w.wire.Value(value)+w.wire.End("completed"))
		if want == "" {
			if failed, ok := errors.AsType[*llm.Error](err); !ok || failed.Kind != llm.KindMalformed {
				t.Errorf("%s: got %v, want it malformed", value, err)
			}
			continue
		}
		if got := spelled(res.Parts); got != want || err != nil {
			t.Errorf("%s: got %q and %v, want %q", value, got, err, want)
		}
		if got := h.text(events.PartText); got != "4." {
			t.Errorf("%s: got deltas %q, want the text", value, got)
		}
	}
}

// spelled are the parts of a reply, those of reasoning first.
func spelled(parts []events.Part) string {
	var thoughts, rest []string
	for _, p := range parts {
		switch p.Kind {
		case events.PartReasoning:
			thoughts = append(thoughts, "reasoning "+p.Text)
		case events.PartToolCall:
			rest = append(rest, p.Tool+" "+string(p.Args))
		case events.PartText, events.PartToolResult, events.PartAttachment:
			rest = append(rest, "text "+p.Text)
		}
	}
	return strings.Join(append(thoughts, rest...), "|")
}

// testContentDecides labels streams as JSON, and sends whole replies where streams were requested.
func (w *wireTest) testContentDecides(t *testing.T) {
	t.Parallel()
	call := func(n int, path string) Chunk {
		return Chunk{Kind: events.PartToolCall, Index: n, Call: events.CallID(fmt.Sprint("call_", n)), Tool: "read", Text: `{"path":"` + path + `"}`}
	}
	for name, reply := range map[string]Reply{
		"text":       {Stop: events.StopEnd, Usage: events.Usage{Input: 7, Output: 3}, Chunks: []Chunk{{Kind: events.PartText, Text: "wörld"}}},
		"thoughtful": {Stop: events.StopEnd, Chunks: []Chunk{{Kind: events.PartReasoning, Text: "hm"}, {Kind: events.PartText, Text: "yes"}}},
		"calls":      {Stop: events.StopToolUse, Chunks: []Chunk{call(0, "a"), call(1, "b")}},
	} {
		body, end := w.wire.Stream(reply)
		whole := w.wire.Whole(reply)
		var pretty strings.Builder
		encoder := json.NewEncoder(&pretty)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(json.RawMessage(whole)); err != nil {
			t.Fatal(err)
		}
		for form, c := range map[string]struct{ media, body string }{
			"stream_as_json":  {"application/json", body + end},
			"stream_as_text":  {"text/plain", body + end},
			"whole":           {"application/json; charset=utf-8", whole},
			"whole_as_stream": {stream, whole},
			"whole_pretty":    {"application/json", "\n" + pretty.String()},
			"whole_done":      {"application/json", pretty.String() + "\n\ndata: [DONE]\n\n"},
			"whole_late":      {stream, ": wait\n\n: wait\n\n" + pretty.String()},
			"whole_blanks":    {"application/json", "\uFEFF" + strings.Repeat("\n", 20_000) + whole},
			"lines":           {"application/x-ndjson", bareLines(body + end)},
			"single_lines":    {stream, singleLines(body + end)},
			"no_empty_end":    {stream, strings.TrimRight(strings.TrimSuffix(body+end, "data: [DONE]\n\n"), "\n")},
			"other_choice":    {stream, strings.ReplaceAll(body+end, `"choices":[{"index":0`, `"choices":[{"index":1`)},
			"other_whole":     {"application/json", strings.ReplaceAll(whole, `"choices":[{"index":0`, `"choices":[{"index":1`)},
			"field_twice":     {stream, strings.ReplaceAll(body+end, "data: ", "data: data: ")},
			"pings":           {stream, "data: ping\n\ndata: {}\n\nevent: heartbeat\ndata: heartbeat\n\n" + body + "data: keep-alive\n\n" + end},
			"closed":          {stream, strings.TrimSuffix(body+end, "data: [DONE]\n\n") + "event: close\ndata: closed\n\n"},
			"garbage_after":   {stream, strings.TrimSuffix(body+end, "data: [DONE]\n\n") + "data: bye\n\n<html>\n\n"},
		} {
			res, _, err := w.read(t, c.media, c.body)
			if err != nil {
				t.Errorf("%s %s: %v", name, form, err)
				continue
			}
			for i, p := range res.Parts {
				var args bytes.Buffer
				_ = json.Compact(&args, p.Args) // of text it is nothing
				res.Parts[i].Args = args.Bytes()
			}
			checkParts(t, res.Parts, reply.Parts())
			if res.Stop != reply.Stop || res.Usage.Input != reply.Usage.Input {
				t.Errorf("%s %s: got %q and %+v, want %q and %+v", name, form, res.Stop, res.Usage, reply.Stop, reply.Usage)
			}
		}
	}
}

// singleLines are the events of a stream without names, and without empty lines between them.
func singleLines(body string) string {
	return strings.ReplaceAll(regexp.MustCompile(`(?m)^event: .*\n`).ReplaceAllString(body, ""), "\n\n", "\n")
}

// bareLines are the JSON of events, without their fields.
func bareLines(body string) string {
	return regexp.MustCompile(`(?m)^data: (\[DONE\])?`).ReplaceAllString(singleLines(body), "")
}

// testErrorsInside sends errors in all known forms, at every place of a stream.
func (w *wireTest) testErrorsInside(t *testing.T) {
	t.Parallel()
	const text = "upstream fell over"
	for form, event := range map[string]string{
		"envelope":      `data: {"error":{"message":"` + text + `","code":502}}`,
		"envelope_text": `data: {"error":"` + text + `"}`,
		"bare":          `data: {"object":"error","message":"` + text + `","code":502}`,
		"in_a_list":     `data: [{"error":{"message":"` + text + `","status":"UNAVAILABLE"}}]`,
		"errors":        `data: {"errors":[{"message":"` + text + `"}]}`,
		"detail":        `data: {"detail":"` + text + `"}`,
		"field":         `error: {"message":"` + text + `","code":502}`,
		"event":         "event: error\ndata: {\"message\":\"" + text + "\"}",
		"line":          `{"error":{"message":"` + text + `"}}`,
		"typed":         `data: {"type":"error","error":{"type":"overloaded_error","message":"` + text + `"}}`,
		"nested":        `data: {"error":{"message":"Provider error: {\"error\":{\"message\":\"` + text + `\"}}"}}`,
		"title_beside":  `data: {"statusCode":502,"error":"Bad Gateway","message":"` + text + `"}`,
		"true_beside":   `data: {"error":true,"message":"` + text + `"}`,
		"description":   `data: {"error":"server_error","error_description":"` + text + `"}`,
		"inner_error":   `data: {"error":{"error":{"message":"` + text + `"}}}`,
		"inner_list":    `data: {"error":{"errors":[{"message":"` + text + `"}]}}`,
		"in_message":    `data: {"error":{"message":{"detail":[{"msg":"` + text + `"}]}}}`,
		"detail_list":   `data: {"detail":[{"loc":["body"],"msg":"` + text + `"}]}`,
		"capital":       `data: {"Message":"` + text + `"}`,
		"err_msg":       `data: {"err_code":502,"err_msg":"` + text + `"}`,
		"problem":       `data: {"type":"about:blank","title":"Bad Gateway","status":502,"detail":"` + text + `"}`,
		"pretty":        "{\n  \"error\": {\n    \"message\": \"" + text + "\"\n  }\n}",
		"with_raw":      `data: {"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"error\":{\"message\":\"` + text + `\"}}"}}}`,
	} {
		for before, reply := range contents {
			for after, end := range map[string]string{"": "", "_done": "data: [DONE]\n\n"} {
				body, _ := w.wire.Stream(reply)
				_, _, err := w.read(t, stream, body+event+"\n\n"+end)
				failed, ok := errors.AsType[*llm.Error](err)
				if !ok || failed.Kind != llm.KindServer || !strings.Contains(failed.Message, text) || strings.Contains(failed.Message, "{") {
					t.Errorf("%s after %s%s: got %v, want the provider's text alone", form, before, after, err)
				}
			}
		}
	}
}

// testTags sends thinking between tags at the begin of a text, in pieces of any size.
func (w *wireTest) testTags(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tag := rapid.SampledFrom([]string{
			"<think> </think>", "<thinking> </thinking>", "[THINK] [/THINK]", "◁think▷ ◁/think▷", "<|START_THINKING|> <|END_THINKING|>",
			"<|channel|>analysis<|message|> <|end|><|start|>assistant<|channel|>final<|message|>",
		}).Draw(rt, "tag")
		open, end, _ := strings.Cut(tag, " ")
		thought := rapid.SampledFrom([]string{"two and two", "a < b </", "<b>é</b>"}).Draw(rt, "thought")
		answer := rapid.SampledFrom([]string{"4", "<b>4</b>", "<think>no</think>"}).Draw(rt, "answer")
		text := rapid.SampledFrom([]string{"", "\n "}).Draw(rt, "before") + open + thought + end + rapid.SampledFrom([]string{"", "\n\n"}).Draw(rt, "after") + answer
		reply := Text()
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 9)).Draw(rt, "bytes")
			reply.Chunks = append(reply.Chunks, Chunk{Kind: events.PartText, Text: rest[:n]})
			rest = rest[n:]
		}
		body, stop := w.wire.Stream(reply)
		res, h, err := w.read(t, stream, body+stop)
		if want := "reasoning " + thought + "|text " + answer; spelled(res.Parts) != want || err != nil {
			rt.Fatalf("got %q and %v, want %q", spelled(res.Parts), err, want)
		}
		if h.text(events.PartText) != answer || h.text(events.PartReasoning) != thought {
			rt.Fatalf("deltas: got %q and %q, want %q and %q", h.text(events.PartText), h.text(events.PartReasoning), answer, thought)
		}
	})
	for _, text := range []string{"a <think>b</think>", "<thi", "<b>", "<"} { // no thinking
		body, stop := w.wire.Stream(Text(strings.Split(text, "")...))
		if res, _, err := w.read(t, stream, body+stop); spelled(res.Parts) != "text "+text || err != nil {
			t.Errorf("got %q and %v, want %q", spelled(res.Parts), err, text)
		}
	}
}

// testEveryPrefix cuts a stream at every byte: it is the whole reply, or none that a turn may act on.
func (w *wireTest) testEveryPrefix(t *testing.T) {
	t.Parallel()
	reply := Reply{Stop: events.StopToolUse, Chunks: []Chunk{
		{Kind: events.PartText, Text: "so"},
		{Kind: events.PartToolCall, Call: "a", Tool: "read", Text: `{"path":`},
		{Kind: events.PartToolCall, Text: `"x"}`},
		{Kind: events.PartToolCall, Index: 1, Call: "b", Tool: "list", Text: `{}`},
	}}
	body, end := w.wire.Stream(reply)
	whole := body + end
	for n := range len(whole) {
		res, _, err := w.read(t, stream, whole[:n])
		if err == nil {
			if n <= len(body) {
				t.Fatalf("the first %d of %d bytes: got a reply", n, len(whole))
			}
			checkParts(t, res.Parts, reply.Parts())
		}
	}
}

// testSilence has endpoints that send nothing, or nothing but comments and empty pieces.
func (w *wireTest) testSilence(t *testing.T) {
	t.Parallel()
	begin, _ := w.wire.Stream(Text("Let me"))
	_, end := w.wire.Stream(Text())
	for name, c := range map[string]struct{ first, again string }{
		"nothing":  {"", ""},
		"begun":    {begin, ""},
		"comments": {begin, ": keep-alive\n\n"},
		"pings":    {begin, "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
		"empty":    {begin, w.wire.Value(`""`)},
		"ended":    {begin + end, ": keep-alive\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.serve(t, func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				out := http.NewResponseController(rw)
				_, _ = io.WriteString(rw, c.first)
				for tick := time.NewTicker(5 * time.Millisecond); ; {
					if c.first != "" {
						_ = out.Flush()
					}
					select {
					case <-tick.C:
						_, _ = io.WriteString(rw, c.again)
					case <-r.Context().Done():
						tick.Stop()
						return
					}
				}
			})
			req := request()
			req.Silence = 100 * time.Millisecond
			res, err := within(t, func() (llm.Response, error) { return p.Complete(t.Context(), req, nil) })
			if name == "ended" {
				if err != nil || res.Stop != events.StopEnd {
					t.Errorf("got %q and %v, want the reply", res.Stop, err)
				}
				return
			}
			if e := checkError(t, err, llm.KindTransport); e.Code != "silence" || errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want it to say that the endpoint was silent", err)
			}
		})
	}
}

// FuzzReader fuzzes the reader of a wire. Whatever an endpoint sends, no call runs whose arguments are no JSON or whose reply
// has no known end, and JSON never becomes prose.
func FuzzReader(f *testing.F, wire Wire, open WireFunc) {
	f.Helper()
	for _, reply := range contents {
		body, end := wire.Stream(reply)
		f.Add([]byte(body + end))
		f.Add([]byte(body + wire.End("steered")))
		f.Add([]byte(wire.Whole(reply)))
	}
	f.Add([]byte(wire.Value(`[{"zq":"x"}]`) + wire.End("completed")))
	f.Add([]byte(wire.Value(`{"zq":{"text":"x"}}`) + wire.End("completed")))
	w := &wireTest{wire: wire, open: open}
	f.Fuzz(func(t *testing.T, body []byte) {
		res, h, err := w.read(t, stream, string(body))
		text := (events.Message{Parts: res.Parts}).Text()
		if strings.Contains(text, `"zq":`) && !strings.Contains(string(body), `zq\`) && !strings.Contains(string(body), `\u`) {
			t.Errorf("got %q: JSON became prose", text)
		}
		if err != nil {
			return
		}
		if got := h.text(events.PartText); got != text && !strings.Contains(got, "</think>") { // its begin may be missing: what came was shown
			t.Errorf("got deltas %q and text %q", got, text)
		}
		for _, p := range res.Parts {
			if p.Kind == events.PartToolCall && (res.Stop == events.StopEnd || res.Stop == events.StopToolUse) && !json.Valid(p.Args) {
				t.Errorf("a call with arguments %q may run", p.Args)
			}
		}
		if res.Stop == events.StopUnknown || len(res.Parts) == 0 && res.Stop == events.StopEnd {
			t.Errorf("got a finished reply that ends with %q and has %d parts", res.Stop, len(res.Parts))
		}
	})
}
