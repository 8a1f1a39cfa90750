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
	type object struct {
		Label  llm.Label
		Number llm.Number
	}
	for in, want := range map[string]object{
		`{"label":"a"}`: {Label: "a"}, `{"label":429}`: {Label: "429"}, `{"label":{"a":1}}`: {}, `{"label":null,"number":null}`: {},
		`{"number":3}`: {Number: 3}, `{"number":3.9}`: {Number: 3}, `{"number":"3"}`: {Number: 3}, `{"number":-1}`: {Number: -1},
		`{"number":1e300}`: {Number: 1 << 53}, `{"number":[1]}`: {}, `{"number":"NaN"}`: {},
	} {
		var got object
		if err := llm.Decode([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: got %+v and %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"[1]", `{"lab`, ""} {
		checkMalformed(t, in, llm.Decode([]byte(in), &object{}))
	}
}

func checkMalformed(t *testing.T, in string, err error) {
	t.Helper()
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindMalformed || e.Message == "" {
		t.Errorf("%s: got %v, want a malformed error", in, err)
	}
}
