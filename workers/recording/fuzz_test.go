package recording_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/recording"
)

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "\xef\xbb\xbf", chatHi, chatHi + "\r\n\n" + chatHi, `{"messages":[]}`,
		`{"id":1,"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}},{"type":"z"}]}]}`,
		`{"messages":[{"role":"assistant","reasoning":"r","refusal":"n","function_call":{"name":"f"},"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}},{"id":"a","type":"custom","custom":{"name":"g","input":"i"}}]},{"role":"tool","tool_call_id":"a"},{"role":"function","name":"f","content":"x"}]}`,
		`{"type":"session","id":"s","modelId":"m"}` + "\n" + `{"type":"x","id":"a"}` + "\n" + `{"type":"compaction","summary":"s","firstKeptEntryId":"a"}` + "\n" + `{"type":"compaction","firstKeptEntryIndex":1,"tokensBefore":2.5}`,
		`{"type":"message","message":{"role":"assistant","content":[{"type":"thinking","thinking":"t","thinkingSignature":"s"},{"type":"toolCall","id":"a","name":"f","arguments":{"b": 1}}],"usage":{"input":1},"stopReason":"aborted"}}` + "\n" + `{"type":"message","message":{"role":"toolResult","toolCallId":"a","isError":true,"content":[{"type":"text","text":"x"}]}}`,
		`{"type":"message","message":{"role":"bashExecution"}}` + "\n" + `{"type":"model_change","provider":"p"}` + "\n" + `{"type":"session"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := recording.Read("f", bytes.NewReader(data))
		again, errAgain := recording.Read("f", bytes.NewReader(data))
		if !reflect.DeepEqual(got, again) || (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("read twice: got %v, %v and %v, %v", got, err, again, errAgain)
		}
		if err != nil {
			checkError(t, err)
			return
		}
		if len(got) == 0 {
			t.Fatal("neither a conversation nor an error")
		}
		for _, c := range got {
			checkConversation(t, c)
		}
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	line, ok := errors.AsType[*recording.LineError](err)
	if !ok || line.File != "f" || line.Line < 1 || line.Reason == "" {
		t.Fatalf("got %#v, want a LineError", err)
	}
}

// checkConversation checks the rules for callers: positions are right, and each call has at most one result.
func checkConversation(t *testing.T, c recording.Conversation) {
	t.Helper()
	if c.ID == "" || len(c.Entries) == 0 || c.Entries[0].Line != c.Line {
		t.Fatalf("got conversation %+v", c)
	}
	answered := map[[2]int]bool{}
	for i, e := range c.Entries {
		if e.Index != i || i > 0 && e.Line < c.Entries[i-1].Line {
			t.Fatalf("entry %d: got %+v", i, e)
		}
		if k := e.Compaction.FirstKept; e.Kind == recording.EntryCompaction && (k < -1 || k >= i) {
			t.Fatalf("compaction %d keeps from %d", i, k)
		}
		if e.Kind != recording.EntryResult || e.Result.Orphan() {
			continue
		}
		at := [2]int{e.Result.ReplyIndex, e.Result.CallIndex}
		if answered[at] || at[0] >= i {
			t.Fatalf("result %d answers %v", i, at)
		}
		answered[at] = true
		if p := callAt(t, c.Entries[at[0]], at[1]); p.Call != e.Result.Call {
			t.Fatalf("result %d of %q answers %q", i, e.Result.Call, p.Call)
		}
	}
	if s := statsOf(c); s.Answered != len(answered) || s.Answered+s.Orphans != s.Results || s.Answered > s.Calls {
		t.Fatalf("got stats %+v", s)
	}
}

// callAt returns the tool_call part number n of a reply.
func callAt(t *testing.T, e recording.Entry, n int) events.Part {
	t.Helper()
	for _, p := range e.Reply.Parts {
		if p.Kind != events.PartToolCall {
			continue
		}
		if n == 0 {
			return p
		}
		n--
	}
	t.Fatalf("no such call in %+v", e)
	return events.Part{}
}
