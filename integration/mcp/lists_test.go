package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/mcp"
)

// offered are the tools of a session's turn.
func (s *setting) offered(id events.SessionID) map[string]events.ToolEntry {
	s.T.Helper()
	list := make(map[string]events.ToolEntry)
	for _, p := range harness.Find[*events.ToolStateApplied](s.System, id) {
		for _, tool := range p.Tools {
			list[tool.Name] = tool
		}
	}
	return list
}

// TestHostileTools has a server list tools that a session cannot have, beside some that it can. Those are left out one by one: a turn has
// the others, by names that models and providers take, and calls them. What cannot be checked of a schema is left to the server.
func TestHostileTools(t *testing.T) {
	t.Parallel()
	tool := func(name, schema string) string {
		text, _ := json.Marshal(name) // a text
		return fmt.Sprintf(`{"name":%s,"description":"d","inputSchema":%s}`, text, schema)
	}
	const object = `{"type":"object"}`
	list := []string{
		"null", tool("say", object), tool("control\x00\x1b[2J\u202e\n", object), tool("say", object), tool("", object), tool(strings.Repeat("long", 100), object),
		tool("a.b", object), tool("a/b", object), tool("read_resource", object), tool(strings.Repeat("huge", 1000), object),
		tool("no_type", `{}`), tool("anything", `true`),
		tool("null", `null`), tool("text", `"x"`), tool("list", `[]`), tool("string", `{"type":"string"}`), tool("itself", `{"type":"object","$ref":"#"}`),
		tool("elsewhere", `{"type":"object","$ref":"http://169.254.169.254/"}`), tool("null_property", `{"type":"object","properties":{"a":null}}`),
		tool("pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`),
		tool("deep", strings.Repeat(`{"type":"object","properties":{"a":`, 100)+"true"+strings.Repeat("}}", 100)),
		tool("large", `{"type":"object","description":"`+strings.Repeat("x", 200<<10)+`"}`),
		tool("bomb", `{"type":"object","$defs":{"a":{"anyOf":[`+strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/b"},`, 100), ",")+`]},"b":{"anyOf":[`+strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/c"},`, 100), ",")+`]},"c":{}},"$ref":"#/$defs/a"}`),
		`{"name":"described","description":"` + strings.Repeat("y", 1<<20) + `","inputSchema":{"type":"object"}}`,
		`{"name":"titled","title":"` + strings.Repeat("z", 1<<20) + `","inputSchema":{"type":"object"},"outputSchema":{"$ref":"#"},"annotations":{"title":"\u0000","readOnlyHint":true,"destructiveHint":true}}`,
	}
	s := start(t)
	server, good := s.raw("["+strings.Join(list, ",")+"]"), s.own("good")
	s.source(server, good)
	s.Wait("tools of good", s.of("good").Ready())
	id := s.begin("srv__say", sayingOf(saying{}))
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.resultOf(id).Text, "said")
	var names []string
	for name, entry := range s.offered(id) {
		if entry.Contract.Size > 64<<10 || len(entry.Description) > 64<<10 {
			t.Errorf("%s: got %d bytes of schema and %d of description", name, entry.Contract.Size, len(entry.Description))
		}
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(name) { // what model providers take
			t.Errorf("got the name %q", name)
		}
		if rest, ok := strings.CutPrefix(name, "srv__"); ok {
			names = append(names, rest)
		}
	}
	has := func(want string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, want) })
	}
	for _, want := range []string{"say", "text", "itself", "elsewhere", "null_property", "pattern", "deep", "bomb", "string", "control", "long", "a_b", "no_type", "described", "titled", "read_resource", "list_resources", "list_prompts", "get_prompt"} {
		if !has(want) {
			t.Errorf("got %q, want %s", names, want)
		}
	}
	for _, none := range []string{"huge", "large"} {
		if has(none) {
			t.Errorf("got the tool %s", none)
		}
	}
	both := 0
	for _, name := range names {
		if strings.HasPrefix(name, "a_b-") {
			both++
			runtest.Equal(t, "result of "+name, s.result("srv__"+name, sayingOf(saying{})).Text, "said")
		}
	}
	runtest.Equal(t, "tools a.b and a/b", both, 2)
	runtest.Equal(t, "effects of a tool that reads and destroys", s.offered(id)["srv__titled"].Effects, events.EffectsNone)
	harness.VerifyHistory(t, s.Bus, id)
}

// TestEndlessLists has servers whose lists of tools have no end: of empty pages, of pages with large tools, and with the same cursor. The
// list is cut, or the server is started again; those beside it work.
func TestEndlessLists(t *testing.T) {
	t.Parallel()
	large := strings.Repeat(`{"name":"large","description":"`+strings.Repeat("d", 1<<20)+`","inputSchema":{"type":"object"}},`, 8)
	for name, c := range map[string]struct {
		page  string
		ready bool
		most  int64 // pages
	}{
		"empty": {`{"tools":[],"nextCursor":"$N"}`, false, 0},
		"same":  {`{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":"c"}`, true, 2},
		"large": {`{"tools":[` + large + `{"name":"t$N","inputSchema":{"type":"object"}}],"nextCursor":"$N"}`, true, 6}, // 8 MiB each, of 16
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var pages atomic.Int64
			h := &hostileHTTP{list: func() string {
				return strings.ReplaceAll(c.page, "$N", fmt.Sprint(pages.Add(1)))
			}}
			h.answer = func(http.ResponseWriter, json.RawMessage) {}
			server, good := s.hostile(h), s.own("good")
			s.source(good, server)
			source := s.of(server.Name)
			if c.ready {
				s.Wait("the tools", source.Ready())
				if n := pages.Load(); n > c.most {
					t.Errorf("got %d pages, want at most %d", n, c.most)
				}
			} else {
				s.AwaitPolling("some pages", func() bool { return pages.Load() > 100 })
			}
			runtest.Equal(t, "call of another server", s.result("good__look", `{"do":"x"}`).Text, "did x")
			runtest.WantError(t, "stop", source.Stop(s.Ctx), nil)
		})
	}
}

// TestListsAsTheyAreSent has servers that say little of what they have, or do not end their list as the protocol says: sessions have the tools
// that were listed, and left out is what people should know.
func TestListsAsTheyAreSent(t *testing.T) {
	t.Parallel()
	const list = `{"tools":[{"name":"say","inputSchema":{"type":"object"}}],"nextCursor":"more"}`
	const none, broken = `"error":{"code":-32601,"message":"Method not found"}`, `"error":{"code":-32602,"message":"no such cursor"}`
	for name, c := range map[string]struct {
		has, first, next string
		tools            int
		leftOut          string
	}{
		"nothing_said":  {`{}`, `"result":` + list, `"result":{"tools":[]}`, 1, ""},
		"null_said":     {`null`, `"result":` + list, `"result":` + list, 1, ""},
		"true_said":     {`{"tools":true}`, `"result":` + list, `"result":` + list, 1, ""},
		"no_list":       {`{"tools":{}}`, none, "", 0, "it does not list tools: Method not found"},
		"no_list_said":  {`{}`, none, "", 0, "it does not list tools: Method not found"},
		"a_page_breaks": {`{"tools":{}}`, `"result":` + list, broken, 1, "the list is cut after 1 tools: its next page has an error: no such cursor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					ID     json.RawMessage
					Method string
					Params struct{ Cursor string }
				}
				if r.Method != http.MethodPost || json.Unmarshal([]byte(readAll(r)), &in) != nil {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				answer := none
				switch {
				case in.ID == nil:
					w.WriteHeader(http.StatusAccepted)
					return
				case in.Method == "initialize":
					answer = `"result":{"protocolVersion":"2025-06-18","capabilities":` + c.has + `,"serverInfo":{"name":"h","version":"1"}}`
				case in.Method == "tools/list" && in.Params.Cursor == "":
					answer = c.first
				case in.Method == "tools/list":
					answer = c.next
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, in.ID, answer)
			}))
			t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
			s.source(mcp.Server{Name: "web", URL: at.URL})
			s.Wait("the list", s.of("web").Ready())
			left := ""
			for _, t := range s.servers[len(s.servers)-1].LeftOut() {
				left += t.Reason
			}
			runtest.Equal(t, "left out", left, c.leftOut)
			s.result("web__say", "{}")
			n := 0
			for _, tool := range s.tools() {
				if strings.HasPrefix(tool, "web__") {
					n++
				}
			}
			runtest.Equal(t, "tools", n, c.tools)
		})
	}
}

// TestToolIsTakenBack has a server remove a tool: sessions cannot call it from their next turn on.
func TestToolIsTakenBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	id := s.Open(api.CreateRequest{})
	s.RunTurn(id, "t1", harness.Text(`srv__again {"do":"x"}`))
	s.result("srv__once", `{"do":"less","text":"again"}`)
	s.AwaitPolling("the new list", func() bool { return !slices.Contains(s.tools(), "srv__again") })
	s.RunTurn(id, "t2", harness.Text(`srv__again {"do":"x"}`))
	list := s.ResultsByPosition(id)
	runtest.Equal(t, "class", list[len(list)-1].Class, plugin.ClassUnavailable)
	runtest.Equal(t, "runs", len(s.logged()), 2)
	harness.VerifyHistory(t, s.Bus, id)
}

// TestCallTakesTooLong has a call that takes longer than the limit of its server: it ends, the server is told, and the next call works.
func TestCallTakesTooLong(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	server.Timeout = time.Second
	s.source(server)
	r := s.result("srv__once", `{"do":"wait"}`)
	if r.Outcome == events.OutcomeSuccess || r.Outcome == events.OutcomeCancelled {
		t.Errorf("got %q and %q, want a failure", r.Outcome, r.Text)
	}
	s.AwaitPolling("the cancel at the server", func() bool { return slices.Contains(s.logged(), "cancelled") })
	runtest.Equal(t, "next call", s.result("srv__look", `{"do":"x"}`).Text, "did x")
}

// TestResourcesNameNoFiles has a server return resources that name a file of the node. The result has the names: the node reads no file.
func TestResourcesNameNoFiles(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.raw(rawTools)
	s.source(server)
	lines := []string{`{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"resource_link","uri":"file:///etc/passwd","name":"x"},{"type":"resource","resource":{"uri":"file:///etc/passwd"}}]}}`}
	r := s.result("srv__say", sayingOf(saying{Lines: lines, Silent: true}))
	if r.Outcome != events.OutcomeSuccess || !strings.Contains(r.Text, "file:///etc/passwd") || strings.Contains(r.Text, "root:") || len(r.Attachments) > 0 {
		t.Errorf("got %+v, want the names alone", r)
	}
}

// TestListOfManyLines has a server send its list in 8 000 lines, as one message or as an event, and results of several lines with numbers that float64 does not have. It is no
// flood: the source has the list at once.
func TestListOfManyLines(t *testing.T) {
	t.Parallel()
	list := `{"tools":[{"name":"once","inputSchema":{"type":"object"}}` + strings.Repeat("\n", 8000) + `]}`
	const result = `{"content":[],` + "\n" + `"structuredContent":{"number":9007199254740993,` + "\n" + `"large":1e400}}` // 2^53+1
	for name, stream := range map[string]bool{"message": false, "event": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			answer := func(w http.ResponseWriter, id json.RawMessage, result string) {
				text, kind := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result), "application/json"
				if stream {
					text, kind = "data: "+strings.ReplaceAll(text, "\n", "\ndata: ")+"\n\n", "text/event-stream"
				}
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, text)
			}
			h := &hostileHTTP{answer: func(w http.ResponseWriter, id json.RawMessage) { answer(w, id, result) }}
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := readAll(r)
				var in struct {
					ID     json.RawMessage
					Method string
				}
				if json.Unmarshal([]byte(body), &in) == nil && in.Method == "tools/list" {
					answer(w, in.ID, list)
					return
				}
				h.serve(w, r, []byte(body))
			}))
			t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
			server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
			s.source(server)
			runtest.Equal(t, "result", s.result("web__once", "{}").Text, `{"large":1e400,"number":9007199254740993}`)
		})
	}
}
