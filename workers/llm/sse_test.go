package llm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lash-go/lash/workers/llm"
)

// event is a copy of an event.
type event struct{ name, data string }

func readEvents(r io.Reader) (list []event, err error) {
	for reader := llm.NewEventReader(r); ; {
		e, err := reader.Next()
		if err != nil {
			return list, err
		}
		list = append(list, event{e.Name, string(e.Data)})
	}
}

// TestEvents reads streams; those of the specification are in section 9.2.6 of the HTML standard.
func TestEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   []event
	}{
		"stocks":       {"data: YHOO\ndata: +2\ndata: 10\n\n", []event{{"", "YHOO\n+2\n10"}}},
		"four_blocks":  {": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n", []event{{"", "first event"}, {"", "second event"}, {"", " third event"}}},
		"empty_data":   {"data\n\ndata\ndata\n\ndata:", []event{{"", ""}, {"", "\n"}}},
		"spaces":       {"data:test\n\ndata: test\n\n", []event{{"", "test"}, {"", "test"}}},
		"names":        {"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\ndata: 1\n\n", []event{{"add", "73857293"}, {"remove", "2153"}, {"", "1"}}},
		"name_alone":   {"event: add\n\ndata: 1\n\n", []event{{"", "1"}}},
		"name_last":    {"data: 1\nevent: a\n\n", []event{{"a", "1"}}},
		"line_ends":    {"data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\r", []event{{"", "a\nb\nc"}, {"", "d"}}},
		"byte_order":   {"\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []event{{"", "a"}}},
		"no_empty_end": {"data: a\n\ndata: b\n", []event{{"", "a"}}},
		"no_end":       {"data: a\n\ndata: b", []event{{"", "a"}}},
		"whole_at_end": {"data: a\n\nevent: e\ndata: {}\n", []event{{"", "a"}, {"e", "{}"}}},
		"whole_line":   {"data: {}\n\ndata: [DONE]", []event{{"", "{}"}, {"", "[DONE]"}}},
		"cut_at_end":   {"data: {}\n\ndata: {\"a\":", []event{{"", "{}"}}},
		"one_line":     {"data: {\"a\":1}\ndata: {}\ndata: [DONE]\n", []event{{"", `{"a":1}`}, {"", "{}"}, {"", "[DONE]"}}},
		"json_lines":   {"data: {\ndata: }\n\n", []event{{"", "{\n}"}}},
		"bare":         {": c\n\n{\"a\":1}\n{}\n\ndata: {}\n\n", []event{{"", `{"a":1}`}, {"", "{}"}, {"", "{}"}}},
		"bare_lines":   {": c\n\n{\n \"a\": 1\n}\n\ndata: [DONE]\n\n", []event{{"", "{\n \"a\": 1\n}"}, {"", "[DONE]"}}},
		"no_document":  {"{ a\ndata: {}\n\n[\n\ndata: 1\n\n", []event{{"", "{}"}, {"", "1"}}},
		"retry":        {"retry: 10\ndata: a\n\n", []event{{"", "a"}}},
		"colons":       {"data: {\"a\":\"b:c\"}\n\n", []event{{"", `{"a":"b:c"}`}}},
		"nothing":      {"", nil},
	} {
		got, err := readEvents(strings.NewReader(c.stream))
		if err != io.EOF || !reflect.DeepEqual(got, c.want) { //nolint:errorlint // the contract says so
			t.Errorf("%s: got %q and %v, want %q", name, got, err, c.want)
		}
	}
	broken := errors.New("broken")
	got, err := readEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("got %q and %v, want one event and the stream's error", got, err)
	}
}

// TestEventsAreBounded sends an event of very many lines, and one of a very long line.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	for _, stream := range []endless{"data: x\n", "x"} {
		_, err := readEvents(io.LimitReader(stream, 4*llm.MaxEvent+16))
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindMalformed {
			t.Errorf("%q: got %v, want a malformed error", string(stream), err)
		}
	}
}

// FuzzEvents compares the reader with itself at every division of the stream, and with the rules of the specification on the whole of it
// where the stream has nothing of what endpoints send beside them.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "event: e\r\ndata: a\r\n\r\n", "\uFEFF: c\rdata\r\r", "data: a\n\ndata: b", "<html>", "data: 1\ndata: 2\n\n", "{\"a\":1}\n", "error: x\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		want, wantErr := readEvents(bytes.NewReader(stream))
		if asSpecified(string(stream)) {
			want, wantErr = specified(string(stream)), io.EOF
		}
		for name, r := range map[string]io.Reader{
			"at once": bytes.NewReader(stream), "by bytes": iotest.OneByteReader(bytes.NewReader(stream)), "halves": iotest.HalfReader(bytes.NewReader(stream)),
		} {
			if got, err := readEvents(r); err.Error() != wantErr.Error() || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %q and %v, want %q and %v", name, got, err, want, wantErr)
			}
		}
	})
}

// asSpecified reports whether a stream has no web page, no JSON without a field, no field "error", and no line of data that is whole by
// itself.
func asSpecified(stream string) bool {
	for line := range strings.FieldsFuncSeq(strings.TrimPrefix(stream, "\uFEFF"), func(r rune) bool { return r == '\n' || r == '\r' }) {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if strings.ContainsAny(strings.TrimSpace(line)+" ", "<{[") || field == "error" || field == "data" && json.Valid([]byte(value)) {
			return false
		}
	}
	return true
}

func specified(stream string) (list []event) {
	stream = strings.TrimPrefix(stream, "\uFEFF")
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n"), "\n")
	e, buffer := event{}, ""
	for _, line := range lines[:len(lines)-1] { // the last has no end
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if buffer != "" {
				e.data = strings.TrimSuffix(buffer, "\n")
				list = append(list, e)
			}
			e, buffer = event{}, ""
		case field == "event":
			e.name = value
		case field == "data":
			buffer += value + "\n"
		}
	}
	return list
}
