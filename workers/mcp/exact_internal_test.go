package mcp

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestExactResults reads messages whose structured results have numbers of many digits: the metadata has the text of the result, and all
// other lines are as they were.
func TestExactResults(t *testing.T) {
	t.Parallel()
	const number = `{"id":9007199254740993}`
	result := `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":` + number + `,"_meta":{"a":1}}}`
	long := `{"text":"` + strings.Repeat("x", 100<<10) + `"}`
	unchanged := []string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"structuredContent":9007199254740993}}`,
		`{"id":1,"result":{"structuredContent":{"id":5},"content":[{"text":"9007199254740993"}]}}`,
		`{"id":1,"result":{"structuredContent":{"id":9007199254740993},"_meta":7}}`,
		`{"id":1,"result":{"structuredContent":{"id":9007199254740993}`, "", ": comment", long,
	}
	for name, tc := range map[string]struct {
		prefix string
		whole  bool
	}{"lines": {"", false}, "events": {"data: ", false}, "whole": {"", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := tc.prefix + result + "\n"
			if !tc.whole {
				text = strings.Join(unchanged, "\n") + "\n" + text + strings.Join(unchanged, "\n")
			}
			data, err := io.ReadAll(iotest.OneByteReader(exactOf(io.NopCloser(strings.NewReader(text)), tc.whole)))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			got := lines[0]
			if !tc.whole {
				got = lines[len(unchanged)]
				for i, want := range unchanged {
					if lines[i] != want || lines[len(unchanged)+1+i] != want {
						t.Errorf("line %d: got %.100q and %.100q, want %.100q", i, lines[i], lines[len(unchanged)+1+i], want)
					}
				}
			}
			var m struct {
				Result struct {
					StructuredContent json.RawMessage
					Meta              map[string]any `json:"_meta"`
				}
			}
			if err := json.Unmarshal([]byte(strings.TrimPrefix(got, tc.prefix)), &m); err != nil {
				t.Fatalf("%v: %q", err, got)
			}
			if string(m.Result.StructuredContent) != number || m.Result.Meta[exactKey] != number || m.Result.Meta["a"] != 1.0 {
				t.Errorf("got %s, want it with %s in the metadata", got, number)
			}
		})
	}
}

// TestExactReaderIsBounded reads a line without end: it is passed on in parts, so that the reader above refuses it.
func TestExactReaderIsBounded(t *testing.T) {
	t.Parallel()
	e := exactOf(io.NopCloser(endlessLine{}), false)
	if n, err := io.CopyN(io.Discard, e, 4*maxMessage); n != 4*maxMessage || err != nil {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	if most := 3 * maxMessage; cap(e.ready) > most {
		t.Errorf("got %d bytes kept, want at most %d", cap(e.ready), most)
	}
}

// endlessLine is a line of x.
type endlessLine struct{}

func (endlessLine) Read(data []byte) (int, error) {
	for i := range data {
		data[i] = 'x'
	}
	return len(data), nil
}
