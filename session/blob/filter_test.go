package blob_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/blob"
)

// TestFilter filters a payload of each family, and leaves the caller's as it is. The JSON stays valid.
func TestFilter(t *testing.T) {
	t.Parallel()
	filter, err := blob.NewFilter("# keys\n\nsk-[a-z0-9]+\n\\b\\d{16}\\b\n")
	runtest.NoError(t, err)
	part := []events.Part{{Kind: events.PartText, Text: "my key: sk-abc1."}}
	call := events.Part{Kind: events.PartToolCall, Tool: "t", Args: []byte(`{"sk-key1": ["a\"sk-abc1", 1234567890123456, 12, "s\u006b-abc1"], "n": null}`), Meta: []byte(`{"m":"sk-abc1"}`)}
	for _, p := range []events.Payload{
		&events.TurnRequested{Input: events.TurnInput{Parts: part}},
		&events.InputInjected{Parts: part},
		&events.SessionOpened{First: events.Message{Parts: part}},
		&events.ModelReplied{Parts: append(part, call)},
		&events.ModelInterrupted{Parts: part},
		&events.ToolReturned{Results: []events.ToolResult{{Text: "sk-abc1", Full: "sk-abc1"}, {Attachments: part}}},
		&events.ToolResolved{Result: events.ToolResult{Text: "sk-abc1"}},
		&events.ToolNestedReturned{Args: []byte(`"sk-abc1"`), Result: events.ToolResult{Text: "sk-abc1"}},
		&events.ToolApprovalAsked{Question: "may sk-abc1?", Args: []byte("no JSON sk-abc1")},
		&events.GraphAppended{Nodes: []events.NewNode{{Message: events.Message{Parts: part}}, {Body: []byte(`{"a":"sk-abc1"}`)}}},
		&events.TaskEnded{Summary: "sk-abc1"},
		&events.HookRan{Decisions: []events.Decision{{Message: "sk-abc1", Body: []byte(`{"a":"sk-abc1"}`)}}},
		&events.TurnCompleted{Switch: events.FrameSwitch{Task: "with sk-abc1"}},
		&events.TaskProgressed{Message: "sk-abc1"},
		&events.MonitorReported{Lines: []events.MonitorLine{{Text: "sk-abc1"}}},
	} {
		before := encode(t, p)
		got, err := blob.Spill(t.Context(), filter.Store(memStore{}), p)
		runtest.NoError(t, err)
		data := encode(t, got)
		if bytes.Contains(data, []byte("sk-")) || bytes.Contains(data, []byte("1234567890123456")) || !bytes.Contains(data, []byte(blob.Redacted)) {
			t.Errorf("%T: got %q, want no secret", p, data)
		}
		if !bytes.Equal(encode(t, p), before) {
			t.Errorf("%T: the caller's payload has changed", p)
		}
		if r, ok := got.(*events.ModelReplied); ok {
			const want = `{"[redacted]": ["a\"[redacted]", "[redacted]", 12, "[redacted]"], "n": null}`
			if args := string(r.Parts[1].Args); args != want || !json.Valid(r.Parts[1].Args) {
				t.Errorf("arguments: got %s, want %s", args, want)
			}
		}
	}
	thought := events.Part{Kind: events.PartReasoning, Text: "is it sk-abc1?", Meta: []byte(`{"signature":"of the text"}`)}
	kept := events.Part{Kind: events.PartReasoning, Text: "is it?", Meta: []byte(`{"signature":"of the text"}`)}
	got, err := blob.Spill(t.Context(), filter.Store(memStore{}), &events.ModelReplied{Parts: []events.Part{thought, kept}})
	runtest.NoError(t, err)
	if parts := got.(*events.ModelReplied).Parts; parts[0].Meta != nil || parts[1].Meta == nil { // providers refuse a changed text with its signature
		t.Errorf("signatures of reasoning: got %q and %q, want none for the changed text", parts[0].Meta, parts[1].Meta)
	}
	clean := &events.TaskEnded{Summary: "nothing"}
	if got, err := blob.Spill(t.Context(), filter.Store(memStore{}), clean); err != nil || got != events.Payload(clean) {
		t.Errorf("without a match: got %+v, %v, want the same payload", got, err)
	}
}

func encode(t *testing.T, p events.Payload) []byte {
	t.Helper()
	data, err := events.EncodePayload(p)
	runtest.NoError(t, err)
	return data
}

// TestFilterSpills: a body that goes to a blob is filtered before.
func TestFilterSpills(t *testing.T) {
	t.Parallel()
	filter, err := blob.NewFilter("sk-[a-z0-9]+")
	runtest.NoError(t, err)
	store := memStore{}
	text := strings.Repeat("x", blob.InlineBytes) + " sk-abc1 "
	_, err = blob.Spill(t.Context(), filter.Store(store), &events.ToolReturned{Results: []events.ToolResult{{Text: text}}})
	runtest.NoError(t, err)
	if len(store) != 1 {
		t.Fatalf("got %d blobs, want 1", len(store))
	}
	for _, body := range store {
		if bytes.Contains(body, []byte("sk-")) {
			t.Error("the blob has the secret")
		}
	}
}

func TestFilterRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "no pattern",
		"# only a comment\n":                  "no pattern",
		"x\n(":                                "line 2: ",
		"x*":                                  "line 1: invalid: the pattern matches the empty text",
		"redacted":                            "line 1: invalid: the pattern matches the empty text, or [redacted]",
		strings.Repeat("x", 1001):             "line 1: too large",
		strings.Repeat("secret-[0-9]\n", 257): "line 257: too large",
	} {
		if _, err := blob.NewFilter(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %q", text, err, want)
		}
	}
}
