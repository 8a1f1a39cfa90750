package eventjson

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
)

func TestSnake(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ID": "id", "RequestedAt": "requested_at", "MaxOutputTokens": "max_output_tokens", "TLSCert": "tls_cert", "JobID": "job_id",
	} {
		runtest.Equal(t, name, Snake(name), want)
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{ "n": 1 }`: `{ "n": 1 }`, `{"cut`: `"{\"cut"`, "": `""`, "\"\xff\"": `"\"\ufffd\""`,
	} {
		if got := string(Raw([]byte(given))); got != want {
			t.Errorf("%q: got %s, want %s", given, got, want)
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
			runtest.Equal(t, "string", (Value{V: tc.v}).String(), tc.want)
		})
	}
}

// Every payload has valid JSON.
func TestEveryPayload(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(strings.ReplaceAll(string(kind), ".", "_"), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p := eventstest.Payload(kind).Draw(t, "payload")
				data, err := json.Marshal(Value{V: p})
				if err != nil || !json.Valid(data) {
					t.Errorf("got %q, %v, want JSON", data, err)
				}
			})
		})
	}
}

// TestRedacted has an event whose payload is redacted: it does not look like one without a payload.
func TestRedacted(t *testing.T) {
	t.Parallel()
	c := &events.Commit{ID: "c", Session: "s", At: 1, Events: []events.Event{{Kind: events.KindTurnStarted, V: 1, Redacted: []byte{0, 0xff}}}}
	got, err := json.Marshal(Of(events.Entry{Seq: 1, Commit: c}, 0))
	if want := `"redacted":"00ff"`; err != nil || !strings.Contains(string(got), want) {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// TestFirstError converts bytes after a value that cannot be converted: the error stays.
func TestFirstError(t *testing.T) {
	t.Parallel()
	_, err := Value{V: struct {
		Wrong float64
		Args  []byte
	}{math.NaN(), []byte(`{}`)}}.MarshalJSON()
	if err == nil {
		t.Error("got no error, want that of the number")
	}
}
