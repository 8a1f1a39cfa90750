package llmtest

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// reading is a reply with a call of the tool read, whose arguments come in pieces.
func reading(pieces ...string) Reply {
	r := Reply{Stop: events.StopToolUse, Chunks: []Chunk{{Kind: events.PartToolCall, Call: "a", Tool: "read"}}}
	for _, text := range pieces {
		r.Chunks = append(r.Chunks, Chunk{Kind: events.PartToolCall, Text: text})
	}
	return r
}

// testArguments sends the arguments of a call as servers do: with all of them once more at the end, in each piece all until then, or {}
// before them. What was cut off is no call, also where nothing came of what the tool needs.
func (w *wireTest) testArguments(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][][]string{
		`{"path":"x"}`: {
			{`{"path":"x"}`, `{"path":"x"}`},
			{`{"path"`, `:"x"}`, `{"path":"x"}`},
			{`{}`, `{"path":"x"}`},
			{`{}`, `{"path"`, `:"x"}`},
			{`{"pa`, `{"path":`, `{"path":"x"}`},
			{`"{\"path\":`, `\"x\"}"`},
		},
		`{"path":{"path":"x"}}`: {{`{"path":`, `{"path":"x"}`, `}`}, {`{"path": `, `{"path": "x"}`, `}`}}, // a value that begins as all does
		"":                      {{`{"path":`, `{"path":"x"}`}, {`{"path": `, `{"path": "x"}`}, {`{"path":"x"}`, `{"path":"y"}`}, {`{"path"`}, {"null"}, {""}, {}},
	} {
		for _, pieces := range list {
			body, end := w.wire.Stream(reading(pieces...))
			res, _, err := w.read(t, stream, body+end)
			failed, _ := errors.AsType[*llm.Error](err)
			switch {
			case want == "" && (failed == nil || failed.Kind != llm.KindUnfinished):
				t.Errorf("%q: got %+v and %v, want an unfinished reply", pieces, res.Parts, err)
			case want != "" && (err != nil || strings.ReplaceAll(spelled(res.Parts), " ", "") != "read"+want):
				t.Errorf("%q: got %+v and %v, want %s", pieces, res.Parts, err, want)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		const args = `{"path":"a/b \"c\" {","more":[{"path":1}]}`
		var pieces []string
		for at := 0; at < len(args); {
			at += rapid.IntRange(1, len(args)-at).Draw(rt, "more")
			pieces = append(pieces, args[:at])
		}
		body, end := w.wire.Stream(reading(pieces...))
		res, _, err := w.read(t, stream, body+end)
		if got := spelled(res.Parts); err == nil && got != "read "+args {
			rt.Fatalf("%q: got %s, want the arguments, or no call", pieces, got)
		}
	})
}

// testUnopenedThinking has a model whose prompt ends with the tag that begins its thinking: the end is what replies have of it. The first one is shown
// as it comes; the answer is what follows the end. Source: https://github.com/vllm-project/vllm/issues/13125.
func (w *wireTest) testUnopenedThinking(t *testing.T) {
	t.Parallel()
	open := Text("use `</think>` ", "here")
	cut := Text("So two ", "and")
	cut.Stop = events.StopOutputLimit
	p, _ := w.start(t, open, Text("So two", "\n</thi", "nk>\n\n", "4"), Text("So three", "</think>", "9"), Text("plain"), Text("<think>a</think>b"), cut)
	for n, c := range []struct{ want, shown, thought string }{
		{"text use `</think>` here", "use `</think>` here", ""},
		{"reasoning So two\n|text 4", "So two\n</think>\n\n4", ""},
		{"reasoning So three|text 9", "9", "So three"},
		{"text plain", "", "plain"},
		{"reasoning a|text b", "b", "a"},
		{"reasoning So two and", "", "So two and"},
	} {
		h := &received{}
		res, err := p.Complete(t.Context(), request(), h.sink)
		if got := spelled(res.Parts); err != nil || got != c.want || h.text(events.PartText) != c.shown || h.text(events.PartReasoning) != c.thought {
			t.Errorf("reply %d: got %q, deltas %q and %q, and %v, want %q, %q and %q", n, got, h.text(events.PartText), h.text(events.PartReasoning), err, c.want, c.shown, c.thought)
		}
	}
}

// testLimitReached has servers that end a reply as one with calls where the limit cut it: the tokens tell. Source:
// https://github.com/vllm-project/vllm/issues/53269.
func (w *wireTest) testLimitReached(t *testing.T) {
	t.Parallel()
	text := Text("done")
	for name, c := range map[string]struct {
		reply  Reply
		tokens int64
		want   events.StopReason
	}{
		"call":         {reading(`{"path":"x"}`), 50, events.StopOutputLimit},
		"call_below":   {reading(`{"path":"x"}`), 49, events.StopToolUse},
		"no_arguments": {reading(), 50, events.StopOutputLimit},
		"text":         {text, 50, events.StopEnd},
	} {
		c.reply.Usage = events.Usage{Input: 7, Output: c.tokens}
		p, _ := w.start(t, c.reply)
		req := request()
		req.MaxOutputTokens = 50
		res, err := p.Complete(t.Context(), req, nil)
		if err == nil {
			err = res.Finished()
		}
		if err != nil || res.Stop != c.want {
			t.Errorf("%s: got %q and %v, want %q", name, res.Stop, err, c.want)
		}
	}
}
