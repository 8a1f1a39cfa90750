package llm_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/lash-go/lash/workers/llm"
)

// TestValues reads what endpoints send where a value stands.
func TestValues(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"a\u00e9\ud83e\udd89\n"`: "aé🦉\n", "\"\\n\xf0\x9f\"": "\n\xf0\x9f", "\"\xa6\x89\xff\\\"b\"": "\xa6\x89\xff\"b", `"\ud83e"`: "\uFFFD",
		"null": "", "": "", `""`: "",
	} {
		if got, err := llm.TextOf(json.RawMessage(in)); got != want || err != nil {
			t.Errorf("text %s: got %q and %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{`"{\"a\": 1}"`: `{"a": 1}`, `{"a": 9007199254740993}`: `{"a": 9007199254740993}`, "null": "", "": ""} {
		if got, err := llm.ArgumentsOf(json.RawMessage(in)); got != want || err != nil {
			t.Errorf("arguments %s: got %q and %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"1", "[1]", "true", `["a"]`} {
		_, text := llm.TextOf(json.RawMessage(in))
		_, arguments := llm.ArgumentsOf(json.RawMessage(in))
		checkMalformed(t, in, text)
		checkMalformed(t, in, arguments)
	}
	_, err := llm.TextOf(json.RawMessage(`{"a":1}`))
	checkMalformed(t, "an object as a text", err)
	for in, want := range map[string]string{`{"a":"b"}`: "b", `{"a":429}`: "429", `{"a":{"b":1}}`: "", `{"a":null}`: "", `{}`: "", `[1]`: ""} {
		if got := llm.MembersOf([]byte(in)).Label("a"); got != want {
			t.Errorf("label in %s: got %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]llm.Number{
		"3": 3, "3.9": 3, `"3"`: 3, "-1": -1, "1e300": 1 << 53, "[1]": 0, `"NaN"`: 0, "null": -2,
	} {
		if got := llm.MembersOf([]byte(`{"a":` + in + `}`)).Number("a"); got == nil && want != -2 || got != nil && *got != want {
			t.Errorf("number %s: got %v, want %d; -2 is none", in, got, want)
		}
	}
	for _, in := range []string{"[1]", `{"lab`, ""} {
		checkMalformed(t, in, llm.Decode([]byte(in), &llm.Members{}))
	}
}

func checkMalformed(t *testing.T, in string, err error) {
	t.Helper()
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindMalformed || e.Message == "" {
		t.Errorf("%s: got %v, want a malformed error", in, err)
	}
}
