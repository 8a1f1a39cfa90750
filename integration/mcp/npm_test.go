package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp"
)

// fromNPM is a server that others wrote.
func fromNPM(t *testing.T, name string, args ...string) mcp.Server {
	t.Helper()
	installed := runtest.NPM(t)
	script := filepath.Join(installed, "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	return mcp.Server{Name: name, Command: "node", Args: append([]string{script}, args...), Env: map[string]string{"HOME": t.TempDir()}, Timeout: time.Minute}
}

// arguments are what a tool is called with where the arguments that its schema suggests do not do.
var arguments = map[string]string{
	"gzip-file-as-resource":          `{"data":"data:text/plain,hello","name":"hello.txt.gz"}`,
	"trigger-long-running-operation": `{"duration":0.2,"steps":2}`,
	"trigger-url-elicitation":        `{"url":"http://127.0.0.1:1/page","message":"Open it.","elicitationId":"e1","errorPath":false}`,
}

// refused are tools that refuse a client without tasks, as that of the SDK is.
var refused = []string{"simulate-research-query"}

// suggested makes arguments from the schema of a tool: the first value of each list, 2 for numbers, the name of the field
// for texts.
func suggested(t *testing.T, tool *sdk.Tool) string {
	t.Helper()
	if args := arguments[tool.Name]; args != "" {
		return args
	}
	data, err := json.Marshal(tool.InputSchema)
	runtest.WantError(t, "schema", err, nil)
	var s struct {
		Properties map[string]struct {
			Type string
			Enum []any
		}
	}
	runtest.WantError(t, "schema", json.Unmarshal(data, &s), nil)
	args := make(map[string]any)
	for name, p := range s.Properties {
		switch {
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		case p.Type == "number":
			args[name] = 2
		case p.Type == "boolean":
			args[name] = true
		case p.Type == "string":
			args[name] = name
		}
	}
	data, err = json.Marshal(args)
	runtest.WantError(t, "arguments", err, nil)
	return string(data)
}

// TestEverything calls every tool of server-everything in a turn, and by the client of the SDK alone. The results are equal.
func TestEverything(t *testing.T) {
	t.Parallel()
	server := fromNPM(t, "everything")
	s := start(t)
	s.source(server)
	alone := client(t, server)
	n := 0
	for tool, err := range alone.Tools(t.Context(), nil) {
		runtest.WantError(t, "tools", err, nil)
		n++
		if slices.Contains(refused, tool.Name) { // sessions do not have it
			continue
		}
		t.Run(tool.Name, func(t *testing.T) {
			args := suggested(t, tool)
			want, err := alone.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name, Arguments: json.RawMessage(args)})
			id := s.begin(mcp.ToolName(server.Name, tool.Name), args)
			s.answerAll(id, `{"name":"Ann"}`)
			got := s.resultOf(id)
			if err != nil || want.IsError {
				t.Fatalf("the SDK alone: got %+v, %v: give the tool arguments with which it works", want, err)
			}
			compare(t, got, want)
		})
	}
	if n < 10 {
		t.Errorf("got %d tools, want those of server-everything", n)
	}
}

// answerAll grants what a turn asks, until it has ended.
func (s *setting) answerAll(id events.SessionID, answer string) {
	s.T.Helper()
	s.AwaitPolling("the turn's end", func() bool {
		list, err := s.Approvals(s.Ctx, id)
		runtest.WantError(s.T, "approvals", err, nil)
		for i := range list {
			s.give(id, list[i].Approval, true, answer)
		}
		return len(harness.Find[*events.TurnCompleted](s.System, id)) > 0
	})
	s.AwaitTurn(id, "t1")
}

// TestPagesToOpen has a server refuse a call until people have opened a page. They are asked for that, and the call is sent again after a
// grant. After a refusal it fails.
func TestPagesToOpen(t *testing.T) {
	t.Parallel()
	server := fromNPM(t, "everything")
	s := start(t)
	s.source(server)
	for page, granted := range map[string]bool{"granted": true, "refused": false} {
		id := s.begin("everything__trigger-url-elicitation", fmt.Sprintf(`{"url":"http://127.0.0.1:1/%s","elicitationId":%q,"errorPath":true}`, page, page))
		s.give(id, s.question(id, "https://modelcontextprotocol.io"), granted, "")
		s.answerAll(id, "")
		r := s.resultOf(id)
		if success := r.Outcome == events.OutcomeSuccess; success != granted {
			t.Errorf("%s: got %q and %q", page, r.Outcome, r.Text)
		}
	}
}

// frames are what a result has around the texts of its parts: the names of resources.
var frames = regexp.MustCompile(`\[resource \]|\s`)

// clock is a time of day in the texts of servers.
var clock = regexp.MustCompile(`\b\d{1,2}:\d{2}:\d{2}(\.\d+)?([ \x{a0}\x{202f}]?[AP]M)?\b`)

// timeless is a text in which times of day have a name: calls one after the other return different ones.
func timeless(text string) string { return clock.ReplaceAllString(text, "TIME") }

// compare compares the result of a call with that of the SDK: it has each part of it, and nothing else.
func compare(t *testing.T, got events.ToolResult, want *sdk.CallToolResult) {
	t.Helper()
	for _, difference := range differences(got, want) {
		t.Error(difference)
	}
}

// differences lists what a result has and the SDK's has not, and the reverse. Times of day count as equal.
func differences(got events.ToolResult, want *sdk.CallToolResult) (list []string) {
	differs := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if failed := got.Outcome == events.OutcomeFailure; failed != want.IsError {
		differs("failed: got %v, want %v", failed, want.IsError)
	}
	var blobs [][]byte
	rest := timeless(strings.TrimPrefix(got.Text, "[failed] "))
	contains := func(what, text string) {
		if text = timeless(text); !strings.Contains(rest, text) {
			differs("%s: got %q, want %q in it", what, got.Text, text)
		}
		rest = strings.Replace(rest, text, "", 1)
	}
	for _, c := range want.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			if sameJSON([]byte(rest), []byte(timeless(c.Text))) {
				rest = ""
			} else {
				contains("text", c.Text)
			}
		case *sdk.ImageContent:
			blobs = append(blobs, c.Data)
		case *sdk.AudioContent:
			blobs = append(blobs, c.Data)
		case *sdk.ResourceLink:
			contains("link", c.URI)
			contains("name of a link", c.Name)
			contains("description of a link", c.Description)
		case *sdk.EmbeddedResource:
			contains("resource", c.Resource.URI)
			contains("resource", c.Resource.Text)
			if len(c.Resource.Blob) > 0 {
				blobs = append(blobs, c.Resource.Blob)
			}
		default:
			differs("unknown content %T", c)
		}
	}
	if data, _ := json.Marshal(want.StructuredContent); want.StructuredContent != nil && !hasJSON(want.Content, data) {
		contains("structured", string(data))
	}
	if rest = frames.ReplaceAllString(rest, ""); rest != "" {
		differs("got %q, of which the SDK does not have %q", got.Text, rest)
	}
	if len(got.Attachments) != len(blobs) {
		differs("attachments: got %d, want %d", len(got.Attachments), len(blobs))
		return list
	}
	for i, blob := range blobs {
		if text := timelessData(got.Attachments[i].Text); text != timelessData(base64.StdEncoding.EncodeToString(blob)) {
			differs("attachment: got %q, want %q", got.Attachments[i].Text, blob)
		}
	}
	return list
}

// timelessData is [timeless] of a text in base64. Other data stay as they are.
func timelessData(data string) string {
	if text, err := base64.StdEncoding.DecodeString(data); err == nil && utf8.Valid(text) {
		return timeless(string(text))
	}
	return data
}

// TestDifferences compares results that differ in the time of day, which is no difference, and in one thing more, which is.
func TestDifferences(t *testing.T) {
	t.Parallel()
	text := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	blob := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://one", Blob: []byte(text)}}}}
	}
	attached := func(text string) events.ToolResult {
		return events.ToolResult{Text: "test://one", Attachments: []events.Part{{Text: base64.StdEncoding.EncodeToString([]byte(text))}}}
	}
	for name, c := range map[string]struct {
		got    events.ToolResult
		want   *sdk.CallToolResult
		differ bool
	}{
		"equal":                {events.ToolResult{Text: "at 7:34:54 AM"}, text("at 7:34:54 AM"), false},
		"time":                 {events.ToolResult{Text: "at 9:59:59 AM: fine"}, text("at 10:00:00 PM: fine"), false},
		"time_in_JSON":         {events.ToolResult{Text: `{"a":1,"at":"09:59:59.123"}`}, text(`{"at":"10:00:00.004","a":1}`), false},
		"time_in_a_blob":       {attached("at 7:34:54 AM"), blob("at 7:34:55 AM"), false},
		"text":                 {events.ToolResult{Text: "at 7:34:54 AM: fine"}, text("at 7:34:54 AM: bad"), true},
		"text_beside_the_time": {events.ToolResult{Text: "at 7:34:54 AM"}, text("on 7:34:55 AM"), true},
		"no_time":              {events.ToolResult{Text: "at"}, text("at 7:34:55 AM"), true},
		"more_than_the_time":   {events.ToolResult{Text: "at 7:34:54 AM more"}, text("at 7:34:55 AM"), true},
		"other_number":         {events.ToolResult{Text: "resource 1 at 7:34:54 AM"}, text("resource 2 at 7:34:54 AM"), true},
		"value_in_JSON":        {events.ToolResult{Text: `{"a":1}`}, text(`{"a":2}`), true},
		"blob":                 {attached("one at 7:34:54 AM"), blob("two at 7:34:54 AM"), true},
		"failure":              {events.ToolResult{Text: "[failed] x", Outcome: events.OutcomeFailure}, text("x"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if list := differences(c.got, c.want); (len(list) > 0) != c.differ {
				t.Errorf("got %q, want differences: %v", list, c.differ)
			}
		})
	}
}

// hasJSON reports whether a text of a result is the same JSON.
func hasJSON(list []sdk.Content, data []byte) bool {
	return slices.ContainsFunc(list, func(c sdk.Content) bool {
		text, ok := c.(*sdk.TextContent)
		return ok && sameJSON([]byte(text.Text), data)
	})
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	x1, _ := json.Marshal(x)
	y1, _ := json.Marshal(y)
	return bytes.Equal(x1, y1)
}

// TestFilesAndMemory uses two more servers at once: what one turn writes, the next one reads.
func TestFilesAndMemory(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	runtest.WantError(t, "directory", err, nil)
	files, memory := fromNPM(t, "filesystem", dir), fromNPM(t, "memory")
	memory.Env["MEMORY_FILE_PATH"] = filepath.Join(dir, "memory.json")
	s := start(t)
	s.source(files, memory)
	s.Wait("tools of memory", s.of(memory.Name).Ready())
	path, _ := json.Marshal(filepath.Join(dir, "note.txt"))
	s.result("filesystem__write_file", `{"path":`+string(path)+`,"content":"milk"}`)
	runtest.Equal(t, "file", harness.ReadFile(t, filepath.Join(dir, "note.txt")), "milk")
	if r := s.result("filesystem__read_text_file", `{"path":`+string(path)+`}`); !strings.HasPrefix(r.Text, "milk") {
		t.Errorf("read: got %+v, want milk", r)
	}
	if r := s.result("filesystem__read_text_file", `{"path":"/etc/passwd"}`); r.Outcome != events.OutcomeFailure {
		t.Errorf("a file elsewhere: got %+v, want a failure", r)
	}
	s.result("memory__create_entities", `{"entities":[{"name":"Ann","entityType":"person","observations":["likes milk"]}]}`)
	if r := s.result("memory__search_nodes", `{"query":"Ann"}`); !strings.Contains(r.Text, "likes milk") {
		t.Errorf("search: got %+v, want what was written", r)
	}
}
