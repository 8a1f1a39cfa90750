package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
)

func TestSnake(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ID": "id", "RequestedAt": "requested_at", "MaxOutputTokens": "max_output_tokens", "TLSCert": "tls_cert", "JobID": "job_id",
	} {
		if got := snake(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		v    any
		want string
	}{
		{"json_bytes", events.Part{Kind: events.PartToolCall, Args: []byte(`{ "n": 12345678901234567890, "a": "<b>" }`)}, `{"kind":"tool_call","args":{"n":12345678901234567890,"a":"<b>"}}`},
		{"text_bytes", events.Part{Kind: events.PartToolCall, Args: []byte(`{"cut`)}, `{"kind":"tool_call","args":"{\"cut"}`},
		{"other_bytes", events.Part{Kind: events.PartToolCall, Args: []byte{0xff}}, `{"kind":"tool_call","args":{"base64":"/w=="}}`},
		{"outcome_of_result", events.Part{Kind: events.PartToolResult, Text: "3"}, `{"kind":"tool_result","text":"3","outcome":"success"}`},
		{"zero_names", events.ToolEntry{Name: "x"}, `{"name":"x","effects":"non_idempotent","availability":"showcased"}`},
		{"map", events.SessionOpened{Labels: map[string]string{"b": "2", "a": "1"}}, `{"config":{},"labels":{"a":"1","b":"2"}}`},
		{"time", events.Millis(1), `"1970-01-01T00:00:00.001Z"`},
		{"nothing", nil, `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := (value{tc.v}).String(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	now := time.Unix(0, 0)
	p := &progress{w: &out, now: func() time.Time { return now }, began: now}
	for i := range 50 { // five seconds
		now = time.Unix(0, 0).Add(time.Duration(i) * 100 * time.Millisecond)
		p.tell("s1", events.Seq(i+1), 50)
	}
	want := "lash-replay: session s1, commit 21 of 50\nlash-replay: session s1, commit 31 of 50\nlash-replay: session s1, commit 41 of 50\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"a-1": "a-1", "a b": `"a b"`, "a\x1b[2J": `"a\x1b[2J"`, "é": "é"} {
		if got := quoted(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

// Every payload has valid JSON, and a summary on one line.
func TestEveryPayload(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(strings.ReplaceAll(string(kind), ".", "_"), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p := eventstest.Payload(kind).Draw(t, "payload")
				data, err := json.Marshal(value{p})
				if err != nil || !json.Valid(data) {
					t.Errorf("got %q, %v, want JSON", data, err)
				}
				ev := events.Of("t1", p)
				if s := summary(&ev); strings.ContainsAny(s, "\n\x1b") {
					t.Errorf("got %q, want one line", s)
				}
			})
		})
	}
}
