package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// depthOf is the nesting that encoding/json sees.
func depthOf(data []byte) (deepest int) {
	dec := json.NewDecoder(bytes.NewReader(data))
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return deepest
		}
		switch tok {
		case json.Delim('['), json.Delim('{'):
			depth++
			deepest = max(deepest, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for depth, fits := range map[int]bool{0: true, events.MaxJSONDepth: true, events.MaxJSONDepth + 1: false, 100_000: false} {
		data := []byte(strings.Repeat("[", depth) + `"[\"[{"` + strings.Repeat("]", depth))
		err := events.CheckJSON("args", data)
		if (err == nil) != fits || err != nil && (!errors.Is(err, events.ErrTooLarge) || err.Error() != "args: JSON nests deeper than 128 levels") {
			t.Errorf("%d levels: got %v, want it to fit: %v", depth, err, fits)
		}
	}
}

// FuzzCheckJSON compares with encoding/json on valid JSON.
func FuzzCheckJSON(f *testing.F) {
	f.Add([]byte(`{"a":["\"["]}`))
	f.Add([]byte(strings.Repeat("[", 129) + strings.Repeat("]", 129)))
	f.Add([]byte(strings.Repeat(`{"\\":`, 128) + "1" + strings.Repeat("}", 128)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := events.CheckJSON("f", data); json.Valid(data) && (err == nil) != (depthOf(data) <= events.MaxJSONDepth) {
			t.Errorf("%q: got %v, nests %d levels", data, err, depthOf(data))
		}
	})
}

// TestCheckJSONValues counts the values of JSON that encoding/json writes, as its decoder sees them.
func TestCheckJSONValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		leaf := rapid.OneOf(rapid.Just(any(nil)), rapid.Map(rapid.SampledFrom([]string{"", ",", `\`, `","`, "[,{"}), func(s string) any { return s }))
		var tree func(depth int) *rapid.Generator[any]
		tree = func(depth int) *rapid.Generator[any] {
			if depth == 0 {
				return leaf
			}
			return rapid.OneOf(leaf,
				rapid.Map(rapid.SliceOfN(tree(depth-1), 0, 4), func(list []any) any { return list }),
				rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", ",", `"`, "{"}), tree(depth-1), 0, 4), func(m map[string]any) any { return m }))
		}
		value := tree(3).Draw(t, "value")
		data, err := json.Marshal(value)
		runtest.NoError(t, err)
		after := followers(value)
		for limit, fits := range map[int]bool{after: true, after + 1: true, after - 1: after == 0} {
			if err := events.CheckJSONValues("x", data, max(limit, 0)); (err == nil) != fits || err != nil && !errors.Is(err, events.ErrTooLarge) {
				t.Fatalf("%s: limit %d: got %v, want that it fits: %t", data, limit, err, fits)
			}
		}
	})
}

// followers is the number of values that follow another one in an array or object.
func followers(v any) (n int) {
	switch v := v.(type) {
	case []any:
		n = max(len(v)-1, 0)
		for _, e := range v {
			n += followers(e)
		}
	case map[string]any:
		n = max(len(v)-1, 0)
		for _, e := range v {
			n += followers(e)
		}
	}
	return n
}
