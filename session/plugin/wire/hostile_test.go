package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestDecode decodes, as each message of the protocol, what nests as deeply and has as many values as a message may, and one more.
func TestDecode(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	values := func(n int) string { return `{"x":[0` + strings.Repeat(",0", n) + `]}` }
	for _, m := range messages {
		into := reflect.New(reflect.TypeOf(m)).Interface()
		for text, fits := range map[string]bool{
			nested(events.MaxJSONDepth): true, nested(events.MaxJSONDepth + 1): false,
			values(wire.MaxValues): true, values(wire.MaxValues + 1): false,
			`{"x":"` + strings.Repeat(`[{,\"`, 1<<18) + `"}`: true,
		} {
			err := wire.Decode([]byte(text), into)
			if field, refused := errors.AsType[*events.FieldError](err); fits != (err == nil) || !fits && (!refused || field.Field != "body" || !errors.Is(err, events.ErrTooLarge)) {
				t.Errorf("%T: %.40s of %d bytes: got %v, want that it fits: %t", m, text, len(text), err, fits)
			}
		}
	}
}

// TestErrorsAreShort decodes numbers, texts and names of any length where another type is expected, and errors with any message.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	const most = 1100
	rapid.Check(t, func(t *rapid.T) {
		long := strings.Repeat(rapid.SampledFrom([]string{"7", "-1", "x", `\u0000`, "\xff"}).Draw(t, "unit"), rapid.IntRange(1, 20_000).Draw(t, "times"))
		text := strings.Replace(rapid.SampledFrom([]string{
			`{"directives":[{"within_ms":TEXT}]}`, `{"directives":[{"messages":TEXT}]}`, `{"directives":"TEXT"}`, `{"error":{"code":"a","message":"TEXT"}}`, `{"TEXT":TEXT}`, `TEXT`,
		}).Draw(t, "message"), "TEXT", long, 2)
		var r wire.HookResult
		err := wire.Decode([]byte(text), &r)
		if err == nil && r.Error != nil {
			err = r.Error
		}
		if err != nil && (len(err.Error()) > most || !utf8.ValidString(err.Error())) {
			t.Fatalf("%.60s: got a text of %d bytes", text, len(err.Error()))
		}
	})
}

// TestSignLimits refuses counts that no instance has.
func TestSignLimits(t *testing.T) {
	t.Parallel()
	for n, valid := range map[int64]bool{0: true, 1: true, wire.MaxCount: true, wire.MaxCount + 1: false, -1: false, 1<<63 - 1: false, -1 << 63: false} {
		for _, s := range []wire.Sign{{Running: n}, {Calls: n}, {Failures: n}} {
			if err := s.Validate(); (err == nil) != valid {
				data, _ := json.Marshal(s)
				t.Errorf("%s: got %v, want valid: %t", data, err, valid)
			}
		}
	}
}
