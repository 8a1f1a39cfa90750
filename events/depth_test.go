package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
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
