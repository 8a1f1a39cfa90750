package recording

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLines(t *testing.T) {
	t.Parallel()
	const bom = byteOrderMark
	tests := map[string]struct {
		text string
		want []string
		at   []int
	}{
		"none":                 {"", nil, nil},
		"blank":                {" \n\t\r\n\n", nil, nil},
		"one":                  {"a", []string{"a"}, []int{1}},
		"two":                  {"a\nb\n", []string{"a", "b"}, []int{1, 2}},
		"returns":              {"a\r\n\r\nb\r\n", []string{"a", "b"}, []int{1, 3}},
		"spaces":               {"  a \n", []string{"a"}, []int{1}},
		"mark_first":           {bom + "a\n" + bom + "b", []string{"a", bom + "b"}, []int{1, 2}},
		"at_the_limit":         {"12345678\r\n12345678", []string{"12345678", "12345678"}, []int{1, 2}},
		"return_inside_a_line": {"a\rb", []string{"a\rb"}, []int{1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLines(iotest.OneByteReader(strings.NewReader(tt.text)), 8)
			for i, want := range tt.want {
				got, err := l.next()
				if err != nil || string(got) != want || l.n != tt.at[i] {
					t.Fatalf("got %q at %d, %v, want %q at %d", got, l.n, err, want, tt.at[i])
				}
			}
			if got, err := l.next(); !errors.Is(err, io.EOF) {
				t.Errorf("got %q, %v, want the end", got, err)
			}
		})
	}
}

func TestLinesTooLong(t *testing.T) {
	t.Parallel()
	_, err := read("f", newLines(strings.NewReader("\n{\"type\":\"x\"}\n"), 8))
	if err == nil || err.Error() != "f:2: line longer than 8 bytes" {
		t.Errorf("got %v", err)
	}
}

// spaces is a file with one endless line.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestLongReadLimit(t *testing.T) {
	t.Parallel()
	const entry = `{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}`
	padded := func(n int64) io.Reader {
		return io.MultiReader(io.LimitReader(spaces{}, n-int64(len(entry))), strings.NewReader(entry+"\r\n"))
	}
	if all, err := Read("f", padded(maxLineBytes)); err != nil || len(all) != 1 {
		t.Errorf("at the limit: got %d conversations, %v", len(all), err)
	}
	_, err := Read("f", padded(maxLineBytes+1))
	if err == nil || err.Error() != "f:1: line longer than 67108864 bytes" {
		t.Errorf("above the limit: got %v", err)
	}
}
