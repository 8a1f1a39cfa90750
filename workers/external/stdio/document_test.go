package stdio

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// section is the part of the protocol's document about lines.
func section(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../session/plugin/wire/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "## Programs on stdin and stdout\n")
	if !ok {
		t.Fatal("the document has no such section")
	}
	return part
}

// TestDocumentedLines compares the types of lines, the limits and the default with the document.
func TestDocumentedLines(t *testing.T) {
	t.Parallel()
	text := section(t)
	from, to, _ := strings.Cut(text, "| line to the program |")
	for name, c := range map[string]struct {
		table string
		want  []string
	}{
		"from": {from, []string{lineRegister, lineOutcome, lineOutput, lineCallback, lineHookResult, linePlaced}},
		"to":   {to, []string{lineInit, lineCall, lineCancel, lineCallback, lineHook, lineStart, lineIdle, lineDrain}},
	} {
		var got []string
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(c.table, -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("lines %s the program: got %v, want %v", name, got, c.want)
		}
	}
	for _, limit := range []string{strconv.Itoa(maxLineBytes), strconv.Itoa(maxQueued), "within 10 s", "at most " + startLimit.String()[:2] + " s", strconv.Itoa(wire.MaxCallbacks) + " of a call"} {
		if !strings.Contains(text, limit) {
			t.Errorf("the document does not have %q", limit)
		}
	}
}

// TestDocumentedProgram runs the program of the document.
func TestDocumentedProgram(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, map[string]string{"uptime": "procps"}, "uptime")
	_, script, _ := strings.Cut(section(t), "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	a, err := New(t.Context(), Config{Plugin: "notes", Command: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	o := a.Call(t.Context(), &wire.Call{CallID: wire.CallID{Session: "s", Call: "c"}, Tool: "uptime", Turn: "t", Args: []byte(`{}`)}, nil)
	if o == nil || !strings.Contains(o.Text, "up ") {
		t.Errorf("got %+v, want the time", o)
	}
}
