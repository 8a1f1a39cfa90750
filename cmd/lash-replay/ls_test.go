package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
)

// TestColumnsOfList lists sessions of which some have no model, tokens or reply. Each value stands below its heading, and no
// line ends with a blank.
func TestColumnsOfList(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := &env{Streams: &program.Streams{Out: &out}}
	list := []listed{
		{Session: "a", Status: "open", UpdatedAt: "now", Model: "a-long-model", total: 28, LastText: "first"},
		{Session: "b", Status: "open", UpdatedAt: "now", Model: "m"},
		{Session: "c", Status: "open", UpdatedAt: "now"},
		{Session: "d", Status: "open", UpdatedAt: "now", total: 7, LastText: "last"},
	}
	if err := e.writeTable(list); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(list)+1 {
		t.Fatalf("got %q, want a heading and %d lines", lines, len(list))
	}
	for _, want := range []struct {
		line          int
		heading, text string
	}{{1, "MODEL", "a-long-model"}, {2, "MODEL", "m"}, {1, "TOKENS", "28"}, {4, "TOKENS", "7"}, {1, "LAST WORDS", "first"}, {4, "LAST WORDS", "last"}} {
		if at := strings.Index(lines[0], want.heading); at < 0 || len(lines[want.line]) < at || !strings.HasPrefix(lines[want.line][at:], want.text) {
			t.Errorf("line %d: got %q, want %q below %s of %q", want.line, lines[want.line], want.text, want.heading, lines[0])
		}
	}
	for _, line := range lines {
		if strings.HasSuffix(line, " ") {
			t.Errorf("got %q, want no blank at the end", line)
		}
	}
}
