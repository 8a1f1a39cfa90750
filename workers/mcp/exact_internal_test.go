package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strconv"
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

// TestExactNumbers reads numbers of all lengths before and after the point: the text of each that float64 does not have exactly is kept.
func TestExactNumbers(t *testing.T) {
	t.Parallel()
	const digits = "1234567891234567891234"
	kept := 0
	for whole := 1; whole <= len(digits); whole++ {
		for part := range len(digits) {
			for _, form := range []string{"%s", "-%s", "%se2", `{"a":[1,%s],"b":"10.0.0.1"}`} {
				number := digits[:whole]
				if part > 0 {
					number += "." + digits[:part]
				}
				text := fmt.Sprintf(form, number)
				out, changed := exactMessage([]byte(`{"id":1,"result":{"structuredContent":` + text + `}}`))
				var float float64
				if err := json.Unmarshal([]byte(number), &float); err != nil {
					t.Fatal(err)
				}
				exact, _ := new(big.Rat).SetString(number)
				shown, _ := new(big.Rat).SetString(strconv.FormatFloat(float, 'g', -1, 64))
				if !changed && exact.Cmp(shown) != 0 {
					t.Errorf("%s: loses digits", text)
				}
				var m struct {
					Result struct {
						Meta map[string]string `json:"_meta"`
					}
				}
				if err := json.Unmarshal(out, &m); err != nil || changed && m.Result.Meta[exactKey] != text {
					t.Errorf("%s: got %s, %v", text, out, err)
				}
				if changed {
					kept++
				}
			}
		}
	}
	if kept == 0 {
		t.Error("no number is kept")
	}
}

// TestLongExactMessagesAreBounded reads results of characters that are longer in JSON, of sizes up to the limit of a message: with the text of
// its result, none is longer than four times its line, or than the limit. One that would be is as it was.
func TestLongExactMessagesAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", "<", `\"`, "\u2028", "&quot;", "123456789012345 ", `\\`} {
		for _, size := range []int{1 << 10, 1 << 20, maxMessage / 2, maxMessage - 200} {
			line := `{"id":1,"result":{"structuredContent":{"n":9007199254740993,"text":"` + strings.Repeat(text, size/len(text)) + `"}}}` + "\n"
			out, err := io.ReadAll(exactOf(io.NopCloser(strings.NewReader(line)), false))
			if err != nil {
				t.Fatal(err)
			}
			if most := min(maxMessage, 4*len(line)); len(out) > most {
				t.Errorf("%d bytes of %q: got %d bytes, want at most %d", len(line), text, len(out), most)
			}
			if had := bytes.Contains(out, []byte(exactKey)); size <= 1<<20 && !had || !had && string(out) != line {
				t.Errorf("%d bytes of %q: the text of the result is there: %v, or the line is another one", len(line), text, had)
			}
		}
	}
}
