package llm_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

func TestAssemblyKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		updates := []llm.Update{{End: &llm.End{Reason: "stop"}}}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 5)).Draw(t, "bytes")
			updates = append(updates, llm.Update{Pieces: []llm.Piece{{Kind: events.PartText, Text: rest[:n]}}})
			rest = rest[n:]
		}
		received := ""
		res, err := llm.Assemble(func(d llm.Delta) {
			if d.Text == "" || !utf8.ValidString(d.Text) {
				t.Fatalf("delta %q, want whole characters", d.Text)
			}
			received += d.Text
		}, updates...)
		runtest.NoError(t, err)
		if text == "" {
			if len(res.Parts) != 0 {
				t.Fatalf("got %+v, want no part", res.Parts)
			}
			return
		}
		if res.Parts[0].Text != text || received != text {
			t.Fatalf("got %q and heard %q, want %q", res.Parts[0].Text, received, text)
		}
	})
}

func TestLongAssemblyIsBounded(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		mebibyte := strings.Repeat("x", 1<<20)
		var updates []llm.Update
		for n := range llm.MaxReplyBytes >> 20 {
			at := llm.Number(n)
			updates = append(updates, llm.Update{Pieces: []llm.Piece{{Kind: events.PartToolCall, Index: &at, Tool: "f", Text: mebibyte, Whole: whole}}})
		}
		end := llm.Update{End: &llm.End{Reason: "stop"}}
		if res, err := llm.Assemble(nil, append(updates, end)...); err != nil || len(res.Parts) != len(updates) {
			t.Errorf("got %d parts and %v, want %d", len(res.Parts), err, len(updates))
		}
		more := llm.Update{Pieces: []llm.Piece{{Kind: events.PartToolCall, Tool: "f", Text: "x", Begin: true, Whole: whole}}}
		_, err := llm.Assemble(nil, append(updates, more, end)...)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindMalformed {
			t.Errorf("got %v, want a malformed error", err)
		}
	}
}

// TestAssemblyJoinsPieces has the rules by which pieces find their part.
func TestAssemblyJoinsPieces(t *testing.T) {
	t.Parallel()
	at := func(n llm.Number) *llm.Number { return &n }
	call := func(id string, index *llm.Number, tool, args string) llm.Piece {
		return llm.Piece{Kind: events.PartToolCall, ID: id, Index: index, Tool: tool, Text: args}
	}
	text := func(id string, index *llm.Number, s string) llm.Piece {
		return llm.Piece{Kind: events.PartText, ID: id, Index: index, Text: s}
	}
	think := func(id string, index *llm.Number, s string) llm.Piece {
		return llm.Piece{Kind: events.PartReasoning, ID: id, Index: index, Text: s}
	}
	item := func(p llm.Piece) llm.Piece { p.Item = true; return p }
	begun := func(p llm.Piece) llm.Piece { p.Begin = true; return p }
	whole := func(p llm.Piece) llm.Piece { p.Whole = true; return p }
	for name, c := range map[string]struct {
		pieces []llm.Piece
		want   string
	}{
		"order":                  {[]llm.Piece{text("", nil, "a"), think("", nil, "h"), text("", nil, "b"), think("", nil, "m")}, "text ab|reasoning hm"},
		"index":                  {[]llm.Piece{call("", at(0), "f", "1"), call("", at(1), "g", "2"), call("", at(0), "", "1")}, "f 11|g 2"},
		"new_id_known_index":     {[]llm.Piece{call("a", at(0), "f", "1"), call("b", at(0), "g", "2"), call("", at(0), "", "2")}, "f 1|g 22"},
		"id_before_index":        {[]llm.Piece{call("a", at(0), "f", "1"), call("b", at(0), "g", "2"), call("a", at(0), "", "1")}, "f 11|g 2"},
		"id_comes_later":         {[]llm.Piece{call("", at(0), "f", "1"), call("a", at(0), "", "1"), call("a", nil, "", "1")}, "f 111"},
		"nameless_ids":           {[]llm.Piece{call("a", at(0), "f", "1"), call("b", at(0), "", "2"), call("c", nil, "", "3")}, "f 123"},
		"kind_is_its_own":        {[]llm.Piece{call("a", at(1), "f", "1"), think("r", at(1), "hm"), call("a", at(1), "", "2")}, "f 12|reasoning hm"},
		"same_index_begins":      {[]llm.Piece{begun(call("", at(1), "f", "1")), begun(call("", at(1), "g", "2")), call("", at(1), "", "2")}, "f 1|g 22"},
		"name_in_pieces":         {[]llm.Piece{call("", at(0), "re", ""), call("", at(0), "ad", "{}"), call("", at(0), "read", "")}, "read {}"},
		"name_repeated":          {[]llm.Piece{call("", at(0), "read", ""), call("", at(0), "read", "{}")}, "read {}"},
		"left_out":               {[]llm.Piece{begun(llm.Piece{Index: at(0)}), text("", at(0), "no"), begun(text("", at(0), "")), text("", at(0), "ok")}, "text no|text ok"},
		"whole_alone":            {[]llm.Piece{whole(call("", at(0), "f", "1")), whole(text("", at(1), "a"))}, "f 1|text a"},
		"whole_after_pieces":     {[]llm.Piece{call("", at(0), "f", "1"), whole(call("", at(0), "f", "9")), text("", at(1), "a"), whole(text("", at(1), "z"))}, "f 1|text a"},
		"whole_before":           {[]llm.Piece{whole(call("", at(0), "f", "9")), call("", at(0), "", "1")}, "f 1"},
		"whole_in_order":         {[]llm.Piece{call("", nil, "f", "{}"), call("", nil, "f", "{}"), call("", nil, "g", `{"a"`), call("", nil, "", ":1}")}, `f {}|f {}|g {"a":1}`},
		"whole_at_one_index":     {[]llm.Piece{call("", at(0), "f", `{"a":1}`), call("", at(0), "f", `{"a":2}`), call("", at(0), "g", `{"a":2}`)}, `f {"a":1}|f {"a":2}|g {"a":2}`},
		"whole_with_one_id":      {[]llm.Piece{call("a", at(0), "f", `{"a":1}`), call("a", at(0), "g", `{"a":1}`)}, `f {"a":1}|g {"a":1}`},
		"whole_repeated":         {[]llm.Piece{call("a", at(0), "f", `{"a":1}`), call("a", at(0), "f", `{"a":1}`)}, `f {"a":1}`},
		"one_id_two_indices":     {[]llm.Piece{call("a", at(0), "f", `{"a"`), call("a", at(1), "g", `{"b"`), call("", at(0), "", ":1}"), call("", at(1), "", ":2}")}, `f {"a":1}|g {"b":2}`},
		"name_repeated_in_order": {[]llm.Piece{call("", nil, "f", `{"a"`), call("", nil, "f", ":1}")}, `f {"a":1}`},
		"item_is_its_id":         {[]llm.Piece{item(begun(call("a", at(1), "f", ""))), item(think("r", at(1), "h")), item(begun(call("b", at(1), "g", ""))), item(call("a", at(1), "", "1")), item(call("b", at(7), "", "2")), item(think("r", at(9), "m"))}, "f 1|reasoning hm|g 2"},
		"item_before_begin":      {[]llm.Piece{item(call("a", at(0), "", "1")), item(begun(call("a", at(0), "f", "")))}, "f 1"},
		"no_arguments":           {[]llm.Piece{call("", nil, "f", " ")}, "f {}"},
		"empty":                  {[]llm.Piece{text("", nil, ""), call("", nil, "", ""), think("", nil, "h"), text("", nil, "a")}, "reasoning h|text a"},
		"paragraphs":             {[]llm.Piece{think("", at(0), "a"), {Kind: events.PartReasoning, Index: at(0), Text: "b", Paragraph: 1}, {Kind: events.PartReasoning, Index: at(0), Text: "c", Paragraph: 1}}, "reasoning a\n\nbc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := llm.Assemble(nil, llm.Update{Pieces: c.pieces}, llm.Update{End: &llm.End{Reason: "stop"}})
			runtest.NoError(t, err)
			var got []string
			for _, p := range res.Parts {
				if p.Kind == events.PartToolCall {
					got = append(got, p.Tool+" "+string(p.Args))
				} else {
					got = append(got, string(p.Kind)+" "+p.Text)
				}
			}
			runtest.Equal(t, "join", strings.Join(got, "|"), c.want)
		})
	}
	_, err := llm.Assemble(nil, llm.Update{Pieces: []llm.Piece{call("a", at(0), "", "{}")}}, llm.Update{End: &llm.End{Reason: "stop"}})
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindMalformed {
		t.Errorf("a call without a name: got %v, want a malformed error", err)
	}
}

// TestAssemblyEnds has the meanings of ends.
func TestAssemblyEnds(t *testing.T) {
	t.Parallel()
	call := llm.Update{Pieces: []llm.Piece{{Kind: events.PartToolCall, Tool: "f"}}}
	end := func(reason string) llm.Update {
		return llm.Update{End: &llm.End{Reason: reason, Detail: "why sk-secret"}}
	}
	for name, c := range map[string]struct {
		updates []llm.Update
		want    events.StopReason
		detail  string
	}{
		"end":              {[]llm.Update{end("end_turn")}, events.StopEnd, ""},
		"end_with_calls":   {[]llm.Update{call, end("end_turn")}, events.StopToolUse, ""},
		"limit_with_calls": {[]llm.Update{call, end("length")}, events.StopOutputLimit, ""},
		"refused":          {[]llm.Update{{Pieces: []llm.Piece{{Kind: events.PartText, Text: "no", Refused: true}}}, end("completed")}, events.StopContentFilter, "the model refused"},
		"filter":           {[]llm.Update{end("content_filter")}, events.StopContentFilter, "why [redacted]"},
		"unknown":          {[]llm.Update{end("steered")}, events.StopUnknown, "why [redacted]"},
		"none_after_known": {[]llm.Update{end("stop"), end("")}, events.StopEnd, ""},
		"latest":           {[]llm.Update{end("stop"), end("length")}, events.StopOutputLimit, ""},
	} {
		res, err := llm.Assemble(nil, c.updates...)
		if err != nil || res.Stop != c.want || res.Detail != c.detail {
			t.Errorf("%s: got %q %q and %v, want %q %q", name, res.Stop, res.Detail, err, c.want, c.detail)
		}
	}
	if _, err := llm.Assemble(nil, call); err == nil {
		t.Error("without an end: got no error")
	}
}

// TestVendorFieldsOfEndpoint keeps fields for the endpoint that sent them.
func TestVendorFieldsOfEndpoint(t *testing.T) {
	t.Parallel()
	res, err := llm.Assemble(nil, llm.Update{Pieces: []llm.Piece{
		{Kind: events.PartReasoning, ID: "r", Signature: "SI", Fields: map[string]json.RawMessage{"n": json.RawMessage("[1]")}},
		{Kind: events.PartReasoning, ID: "r", Signature: "G"},
	}, End: &llm.End{Reason: "stop"}})
	if err != nil || len(res.Parts) != 1 {
		t.Fatalf("got %+v and %v, want one part", res.Parts, err)
	}
	own := ownOf(t, "p", "https://host/v1", "m", res.Parts[0])
	want := llm.Vendor{From: "p host", Model: "m", ID: "r", Fields: map[string]json.RawMessage{"signature": json.RawMessage(`"SIG"`), "n": json.RawMessage("[1]")}}
	runtest.DeepEqual(t, "own", own, want)
	for _, other := range [][3]string{{"q", "https://host/v1", "m"}, {"p", "https://host:1/v1", "m"}, {"p", "https://host/v1", "n"}} {
		if own := ownOf(t, other[0], other[1], other[2], res.Parts[0]); own.Fields != nil {
			t.Errorf("%s: got %+v, want nothing", other, own)
		}
	}
}

// ownOf is what a model of an endpoint wants back with a part.
func ownOf(t *testing.T, name, base, model string, part events.Part) llm.Vendor {
	t.Helper()
	p, err := llm.Prepare(name, base, llm.Request{Model: model})
	runtest.NoError(t, err)
	return p.Own(part)
}

// TestVendorListsAreJoined: the pieces of one thing are one. Source: https://github.com/BerriAI/litellm/issues/29428.
func TestVendorListsAreJoined(t *testing.T) {
	t.Parallel()
	for want, pieces := range map[string][]string{
		`[{"index":0,"text":"ab","type":"t"},{"index":1,"text":"c","type":"t"}]`: {`[{"index":0,"type":"t","text":"a"}]`, `[{"index":0,"type":"t","text":"b"},{"index":1,"type":"t","text":"c"}]`},
		`[{"signature":"S","thinking":"haha","type":"thinking"},{"signature":"","thinking":"c","type":"thinking"}]`: {
			`[{"type":"thinking","thinking":"ha","signature":""}]`, `[{"type":"thinking","thinking":"ha","signature":""}]`, `[{"type":"thinking","thinking":"","signature":"S"}]`,
			`[{"type":"thinking","thinking":"c","signature":""}]`,
		},
		`[{"signature":"S","thinking":"ab","type":"thinking"},{"data":"D","type":"redacted_thinking"}]`: {
			`[{"type":"thinking","thinking":"a"}]`, `[{"type":"thinking","thinking":"b"}]`, `[{"type":"thinking","thinking":"ab","signature":"S"}]`, `[{"type":"redacted_thinking","data":"D"}]`,
		},
		`[{"signature":"S","thinking":"ab","type":"thinking"},{"data":"D","type":"redacted_thinking"},{"text":"c","type":"text"}]`: {
			`[{"index":0,"delta":{"thinking":"","signature":""}}]`, `[{"index":0,"delta":{"thinking":"a"}}]`, `[{"index":0,"delta":{"thinking":"b"}}]`, `[{"index":0,"delta":{"signature":"S"}}]`,
			`[{"index":1,"delta":{"data":"D"}}]`, `[{"index":2,"delta":{"text":""}}]`, `[{"index":2,"delta":{"text":"c"}}]`,
		},
		`[{"type":"u","u":1},{"type":"u","u":2},3]`: {`[{"type":"u","u":1}]`, `[{"type":"u","u":2}]`, `[3]`},
	} {
		updates := []llm.Update{{End: &llm.End{Reason: "stop"}}}
		for _, piece := range pieces {
			updates = append(updates, llm.Update{Pieces: []llm.Piece{{Kind: events.PartReasoning, Fields: llm.Members{"list": json.RawMessage(piece)}}}})
		}
		res, err := llm.Assemble(nil, updates...)
		var got llm.Vendor
		if err != nil || len(res.Parts) != 1 || json.Unmarshal(res.Parts[0].Meta, &got) != nil || string(got.Fields["list"]) != want {
			t.Errorf("got %s and %v, want %s", got.Fields["list"], err, want)
		}
	}
}
