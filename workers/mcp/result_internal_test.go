package mcp

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/lash-go/lash/session/plugin"
)

// TestResultsAsTheyAreSent reads results that differ from the protocol, or say the same twice: the model gets each thing once, and nothing is lost.
func TestResultsAsTheyAreSent(t *testing.T) {
	t.Parallel()
	const structured = `,"structuredContent":{"a":1}}`
	for sent, want := range map[string]string{
		`{}`: "", `{"_meta":{}}`: "", `{"content":[]}`: "", `{"isError":false}`: "",
		`{"result":"x"}`: `{"result":"x"}`, `{"task":{"taskId":"1"}}`: `{"task":{"taskId":"1"}}`, `{"structuredContent":{"a":1}}`: `{"a":1}`,
		`{"content":[{"type":"text","text":"{ \"a\": 1 }"}]` + structured:                                    `{ "a": 1 }`,
		`{"content":[{"type":"text","text":"` + "```json\\n" + `{\"a\":1}` + "\\n```" + `"}]` + structured:   "```json\n{\"a\":1}\n```",
		`{"content":[{"type":"text","text":"It is {\"a\":1}."}]` + structured:                                `It is {"a":1}.`,
		`{"content":[{"type":"text","text":"[1] is {\"a\":1}"}]` + structured:                                "[1] is {\"a\":1}\n{\"a\":1}",
		`{"content":[{"type":"text","text":"1 apple"}],"structuredContent":{"result":1}}`:                    "1 apple\n{\"result\":1}",
		`{"content":[{"type":"image","url":"https://host/p.png"}]}`:                                          `[a part of type "image": {"type":"image","url":"https://host/p.png"}]`,
		`{"content":[{"type":"image","data":"https://host/p.png"}]}`:                                         `[a part of type "image": {"type":"image","data":"https://host/p.png"}]`,
		`{"content":[{"type":"audio","mimeType":"audio/wav","data":""}]}`:                                    `[a part of type "audio": {"type":"audio","mimeType":"audio/wav","data":""}]`,
		`{"content":[{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","blob":"YW\tJj"}}]}`: "[resource a:b]\nabc",
	} {
		if got, err := resultOf(json.RawMessage(sent)); err != nil || got.Text != want || got.Attachments != nil {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", sent, got.Text, err, want)
		}
	}
	_, err := resultOf(json.RawMessage(`{"isError":"true","content":"no"}`))
	if f, ok := errors.AsType[*plugin.Failure](err); !ok || f.Message != "no" {
		t.Errorf("got %v, want a failure", err)
	}
}

// TestResultsWithoutObject reads results that are the content itself: a request that wants one whole has it as the content.
func TestResultsWithoutObject(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{`"x"`: "x", `[{"type":"text","text":"x"}]`: "x", `null`: ""} {
		var a answers
		ctx, into := whole(t.Context())
		a.sent(ctx, "1")
		left := a.messages([]byte(`{"jsonrpc":"2.0","id":1,"result":` + sent + `}`))
		got, err := resultOf(*into)
		if err != nil || got.Text != want || len(left) != 1 || !sameJSON(string(left[0]), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`) {
			t.Errorf("%s: got %q, %v, and for the library %s, want %q", sent, got.Text, err, left, want)
		}
	}
}
