package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/mcp"
)

// strict is a server that knows initialize only: before it, the first ends at any other message, and the second stays silent. The third takes the
// oldest version of the protocol alone.
func (s *setting) strict(kind string) mcp.Server {
	server := s.raw(rawTools)
	server.Name, server.Env[strictVariable] = kind, kind
	return server
}

// TestServersThatKnowInitializeOnly starts servers that end, or stay silent, where their first message is another one, and one that refuses its
// version: their tools are offered, and nothing is told.
func TestServersThatKnowInitializeOnly(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.source(s.strict("ends"), s.strict("silent"), s.strict("older"))
	s.Wait("tools of silent", s.of("silent").Ready())
	s.Wait("tools of older", s.of("older").Ready())
	for _, name := range []string{"ends", "silent", "older"} {
		runtest.Equal(t, "result of "+name, s.result(name+"__say", sayingOf(saying{})).Text, "said")
	}
	runtest.Equal(t, "what people are told", strings.Join(s.told.all(), ""), "")
}

// TestDialectsOfSchemas calls tools whose schemas differ in their $schema: all run, and arguments are checked where the dialect is known.
func TestDialectsOfSchemas(t *testing.T) {
	t.Parallel()
	dialects := map[string]bool{ // known
		"": true, "https://json-schema.org/draft/2020-12/schema": true, "https://json-schema.org/draft/2020-12/schema#": true,
		"http://json-schema.org/draft-07/schema#": true, "http://json-schema.org/draft-07/schema": true,
		"https://json-schema.org/draft/2019-09/schema": false, "http://json-schema.org/draft-06/schema#": false, "http://json-schema.org/draft-04/schema#": false, "urn:own": false,
	}
	var tools []string
	names := make(map[string]string)
	for dialect := range dialects {
		names[dialect] = fmt.Sprintf("t%d", len(tools))
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"$schema":%q,"type":"object","properties":{"times":{"type":"integer"}}}}`, names[dialect], dialect))
	}
	s := start(t)
	s.source(s.raw("[" + strings.ReplaceAll(strings.Join(tools, ","), `"$schema":"",`, "") + "]"))
	for dialect, known := range dialects {
		runtest.Equal(t, "result of "+dialect, s.result("srv__"+names[dialect], `{"times":0}`).Text, "said")
		r := s.result("srv__"+names[dialect], `{"times":"x"}`)
		if refused := r.Code == plugin.CodeInvalidArgs; refused != known {
			t.Errorf("%q: got %+v for wrong arguments, want them checked: %v", dialect, r, known)
		}
	}
}

// TestRefusedCalls has a server over HTTP refuse the first call in each way. A refusal which shows that the call has not run is no loss: the
// call runs again once, as an attempt that is in the history before. One that proves nothing loses a call that must not run twice.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, strings.ReplaceAll(body, "$ID", string(id)))
		}
	}
	refusal := func(id string, code int, message string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
	}
	for name, c := range map[string]struct {
		refuse  func(http.ResponseWriter, json.RawMessage)
		always  bool
		outcome events.Outcome
		calls   int64
	}{
		"401":                 {answer(401, ""), false, events.OutcomeSuccess, 2},
		"401_always":          {answer(401, ""), true, events.OutcomeFailure, 2},
		"404":                 {answer(404, "nothing"), false, events.OutcomeSuccess, 2},
		"404_always":          {answer(404, ""), true, events.OutcomeFailure, 2},
		"400_without_id":      {answer(400, refusal("null", -32000, "Bad Request: No valid session ID provided")), false, events.OutcomeSuccess, 2},
		"400_with_id":         {answer(400, refusal("$ID", -32000, "Session not found")), false, events.OutcomeSuccess, 2},
		"400_not_initialized": {answer(400, refusal("null", -32000, "Bad Request: Server not initialized")), false, events.OutcomeSuccess, 2},
		"400_of_another":      {answer(400, refusal("$ID", -32602, "x is missing")), false, events.OutcomeFailure, 1},
		"200_with_id":         {answer(200, refusal("$ID", -32000, "no such session")), false, events.OutcomeSuccess, 2},
		"200_without_id":      {answer(200, refusal("null", -32001, "Session not found")), false, events.OutcomeSuccess, 2},
		"200_of_a_session":    {answer(200, refusal("$ID", -32000, "the browser session has a page open")), false, events.OutcomeFailure, 1},
		"no_method":           {answer(200, refusal("$ID", -32601, "Method not found")), false, events.OutcomeSuccess, 2},
		"no_method_always":    {answer(200, refusal("$ID", -32601, "Method not found")), true, events.OutcomeFailure, 2},
		"400_of_frameworks":   {answer(400, `{"detail":"Invalid or missing session ID"}`), false, events.OutcomeSuccess, 2},
		"400_of_a_field":      {answer(400, `{"error":"Invalid session"}`), false, events.OutcomeSuccess, 2},
		"403":                 {answer(403, ""), false, events.OutcomeFailure, 1},
		"429":                 {answer(429, ""), false, events.OutcomeSuccess, 2},
		"429_always":          {answer(429, `{"error":"slow down"}`), true, events.OutcomeFailure, 2},
		"200_of_no_request":   {answer(200, refusal("null", -32602, "x is missing")), false, events.OutcomeFailure, 1},
		"500_answers":         {answer(500, refusal("$ID", -32603, "down")), false, events.OutcomeFailure, 1},
		"503_of_a_session":    {answer(503, refusal("$ID", -32000, "Session not found")), false, events.OutcomeLost, 1},
		"503":                 {answer(503, ""), false, events.OutcomeLost, 1},
		"500":                 {answer(500, "oops"), false, events.OutcomeLost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			h := &restarted{}
			h.answer = func(w http.ResponseWriter, id json.RawMessage) {
				if h.calls.Load() == 1 || c.always {
					c.refuse(w, id)
					return
				}
				answer(200, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done"}]}}`)(w, id)
			}
			at := httptest.NewServer(h)
			t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
			s.source(mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute})
			id := s.begin("web__once", "{}")
			s.AwaitTurn(id, "t1")
			r := s.resultOf(id)
			runtest.Equal(t, "outcome of "+r.Text, r.Outcome, c.outcome)
			runtest.Equal(t, "calls that the server received", h.calls.Load(), c.calls)
			attempts := 0
			for _, p := range harness.Find[*events.ToolCalled](s.System, id) {
				if p.Attempt > 1 {
					attempts++
				}
			}
			runtest.Equal(t, "further attempts in the history", attempts, int(c.calls)-1)
			runtest.Equal(t, "the next call", s.result("web__once", "{}").Outcome == events.OutcomeSuccess, !c.always)
			harness.VerifyHistory(t, s.Bus, id)
		})
	}
}

// TestTokenIsReadAgain changes the token that a server takes, and the file that has it: the next call has the new one.
func TestTokenIsReadAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	var want atomic.Value
	want.Store("Bearer one")
	h := &hostileHTTP{answer: func(w http.ResponseWriter, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, id)
	}}
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
	token := filepath.Join(t.TempDir(), "token")
	write := func(text string) { runtest.WantError(t, "token", os.WriteFile(token, []byte(text), 0o600), nil) }
	write("one")
	list, err := mcp.Parse([]byte(`{"mcpServers":{"web":{"url":"`+at.URL+`","headers":{"Authorization":"Bearer ${file:`+token+`}"}}}}`), os.Getenv, os.ReadFile)
	runtest.WantError(t, "parse", err, nil)
	s.source(list[0])
	for _, next := range []string{"one", "two", "three"} {
		write(next)
		want.Store("Bearer " + next)
		runtest.Equal(t, "result with "+next, s.result("web__once", "{}").Text, "done")
	}
}

// TestLeftOutTools has a server list tools that sessions cannot have: each is told, with its reason, and the tools of a session name it.
func TestLeftOutTools(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.raw(strings.ReplaceAll(`[{"name":"say","inputSchema":{"type":"object"}},{"name":"say","description":"another","inputSchema":{"type":"object"}},
		{"name":"long","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"may","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},
		{"name":7,"inputSchema":{"type":"object"}},"text",{"name":"odd","description":["x"],"annotations":"x","inputSchema":{"type":"object"}},
		{"name":"header","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}},
		{"name":"large","inputSchema":{"type":"object","description":"`+strings.Repeat("x", 200<<10)+`"}}]`, "\n", ""))
	s.source(server, mcp.Server{Name: "absent", Command: "/no/such/program"})
	_ = s.servers[0].Settle(s.Ctx)
	state, err := s.ToolState(s.Ctx, s.Open(api.CreateRequest{}))
	runtest.WantError(t, "tools", err, nil)
	told := strings.Join(s.told.all(), "\n")
	for reason, name := range map[string]string{"name already": "say", "taskSupport": "long", "its name is 7": "", "cannot unmarshal string": "", "x-mcp-header": "header", "limits are": "large", "no such file": ""} {
		i := slices.IndexFunc(state.LeftOut, func(l api.LeftOutTool) bool { return l.Name == name && strings.Contains(l.Reason, reason) })
		if i < 0 {
			t.Errorf("%q: got %+v, want it left out, as %s", name, state.LeftOut, reason)
		}
		if !strings.Contains(told, reason) {
			t.Errorf("%q: people are told %s, want %s", name, told, reason)
		}
	}
	if names := s.tools(); !slices.Contains(names, "srv__may") || !slices.Contains(names, "srv__say") || !slices.Contains(names, "srv__odd") || slices.Contains(names, "srv__long") {
		t.Errorf("got the tools %v, want say, may and odd, and not long", names)
	}
}

// TestPartsThatCannotBeRead has a server return parts that no client knows, or that are broken, beside a text: the result has the text, and
// says what is missing.
func TestPartsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.source(s.raw(rawTools))
	for name, c := range map[string]struct {
		content, want string
		attachments   int
	}{
		"type":       {`[{"type":"text","text":"here"},{"type":"hologram","data":"x"}]`, "here\n[a part of type \"hologram\": {\"type\":\"hologram\",\"data\":\"x\"}]", 0},
		"null":       {`[null,{"type":"text","text":"here"}]`, "[a part of type \"\": null]\nhere", 0},
		"number":     {`[7,{"type":"text","text":"here"}]`, "[a part that cannot be read: 7]\nhere", 0},
		"large":      {`[{"type":"text","text":"here"},{"type":"film","data":"` + strings.Repeat("x", 9000) + `"}]`, "here\n[a part of type \"film\" is not shown: it has 9025 bytes]", 0},
		"text_blob":  {`[{"type":"resource","resource":{"uri":"a:b","mimeType":"text/csv","blob":"YSxi"}}]`, "[resource a:b]\na,b", 0},
		"base64":     {`[{"type":"text","text":"here"},{"type":"image","mimeType":"image/png","data":"!"}]`, "here\n[a part of type \"image/png\" cannot be read: its data is no base64]", 0},
		"data_url":   {`[{"type":"text","text":"here"},{"type":"image","mimeType":"image/png","data":"data:image/png;base64,AQID"}]`, "here", 1},
		"no_padding": {`[{"type":"text","text":"here"},{"type":"image","mimeType":"image/png","data":"AQI"}]`, "here", 1},
		"text":       {`"here"`, "here", 0},
	} {
		t.Run(name, func(t *testing.T) {
			line := `{"jsonrpc":"2.0","id":$ID,"result":{"content":` + c.content + `}}`
			r := s.result("srv__once", sayingOf(saying{Lines: []string{line}, Silent: true}))
			if r.Outcome != events.OutcomeSuccess || r.Text != c.want || len(r.Attachments) != c.attachments {
				t.Errorf("got %+v, want %q and %d attachments", r, c.want, c.attachments)
			}
		})
	}
}

// TestErrorsSayEverything: an error of a server has its texts, names what else it has, and is never blank.
func TestErrorsSayEverything(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.source(s.raw(rawTools))
	for name, c := range map[string]struct{ content, want string }{
		"text_and_image": {`[{"type":"text","text":"no"},{"type":"image","mimeType":"image/png","data":"AQID"}]`, "[failed] no\n[an attachment of type \"image/png\" is not shown]"},
		"image":          {`[{"type":"image","mimeType":"image/png","data":"AQID"}]`, "[failed] [an attachment of type \"image/png\" is not shown]"},
		"nothing":        {`[]`, "[failed] the server reports an error, and says nothing of it"},
		"blank":          {`[{"type":"text","text":" "}]`, "[failed] the server reports an error, and says nothing of it"},
	} {
		t.Run(name, func(t *testing.T) {
			line := `{"jsonrpc":"2.0","id":$ID,"result":{"isError":true,"content":` + c.content + `}}`
			if r := s.result("srv__once", sayingOf(saying{Lines: []string{line}, Silent: true})); r.Outcome != events.OutcomeFailure || r.Text != c.want {
				t.Errorf("got %q, %q, want a failure and %q", r.Outcome, r.Text, c.want)
			}
		})
	}
}

// TestRefusalsSayEverything has a server over HTTP refuse a call with a body: the failure has what it says.
func TestRefusalsSayEverything(t *testing.T) {
	t.Parallel()
	s := start(t)
	h := &hostileHTTP{}
	var refuse func(http.ResponseWriter, json.RawMessage)
	h.answer = func(w http.ResponseWriter, id json.RawMessage) { refuse(w, id) }
	s.source(s.hostile(h))
	for want, c := range map[string]struct {
		status int
		body   string
	}{
		"413 Request Entity Too Large: too large":        {413, "too large"},
		"422 Unprocessable Entity: [{\"msg\":\"no x\"}]": {422, `{"detail":[{"msg":"no x"}]}`},
		"403 Forbidden: no rights":                       {403, `{"error":"forbidden","message":"no rights"}`},
		"400 Bad Request: bad":                           {400, `{"error":{"code":"E1","message":"bad"}}`},
		"403 Forbidden":                                  {403, "<html>nothing</html>"},
		"x: {\"why\":\"y\"}":                             {200, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"x","data":{"why":"y"}}}`},
	} {
		refuse = func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, strings.ReplaceAll(c.body, "$ID", string(id)))
		}
		if r := s.result("web__once", "{}"); r.Outcome != events.OutcomeFailure || !strings.HasSuffix(r.Text, want) {
			t.Errorf("%d %s: got %q, %q, want a failure and %q", c.status, c.body, r.Outcome, r.Text, want)
		}
	}
}

// TestTypesOfContent has a server over HTTP label its answers in ways of other servers: they are read by what they are.
func TestTypesOfContent(t *testing.T) {
	t.Parallel()
	s := start(t)
	h := &hostileHTTP{}
	var kind, around string
	h.answer = func(w http.ResponseWriter, id json.RawMessage) {
		w.Header()["Content-Type"] = strings.Fields(kind) // none is detected
		_, _ = fmt.Fprintf(w, around, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"read"}]}}`, id))
	}
	s.source(s.hostile(h))
	for _, c := range [][2]string{
		{"", "%s"},
		{"text/plain", "%s"},
		{"application/json-rpc", "%s"},
		{"text/html", " \n%s"},
		{"application/json", "\uFEFF%s"},
		{"application/json", "[%s]"},
		{"application/json", "data: %s\n\n"},
		{"", "event: message\ndata: %s\n\n"},
		{"text/event-stream", "data: [START]\n\ndata: %s\n\ndata: [DONE]\n\n"},
		{"text/event-stream", "event: ping\ndata: now\n\ndata: [%s]\n\n"},
	} {
		kind, around = c[0], c[1]
		if r := s.result("web__once", "{}"); r.Text != "read" {
			t.Errorf("%q: got %q, %q, want it read", c, r.Outcome, r.Text)
		}
	}
}

// TestAnswerAndEnd has servers that end once they have answered a call: no answer is lost.
func TestAnswerAndEnd(t *testing.T) {
	t.Parallel()
	s := start(t)
	var list []mcp.Server
	for i := range 8 {
		server := s.raw(rawTools)
		server.Name, server.Env[onceVariable] = fmt.Sprint("srv", i), "1"
		list = append(list, server)
	}
	s.source(list[0], list[1:]...)
	_ = s.servers[0].Settle(s.Ctx)
	for _, server := range list {
		runtest.Equal(t, "result of "+server.Name, s.result(server.Name+"__once", sayingOf(saying{})).Text, "said")
	}
}

// TestFieldsWithNames: a structured result is left out where the texts say the same, and a field with a name of its own says more.
func TestFieldsWithNames(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.source(s.raw(rawTools))
	for structured, want := range map[string]string{`{"result":"done"}`: "done", `{"content":"done"}`: "done", `{"error":"done"}`: "done\n" + `{"error":"done"}`} {
		line := `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done"}],"structuredContent":` + structured + `}}`
		if r := s.result("srv__once", sayingOf(saying{Lines: []string{line}, Silent: true})); r.Text != want {
			t.Errorf("%s: got %q, want %q", structured, r.Text, want)
		}
	}
}

// TestToolsOfAnotherNode has a node with the tool role and a server, and one without either that takes turns: sessions have the tools, and
// calls go to the first node. Where that has ended, they say so.
func TestToolsOfAnotherNode(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Roles = []workers.Role{workers.RoleTool}
	s.source(s.own("srv"))
	s.Roles = []workers.Role{workers.RoleTurn, workers.RoleAPI}
	s.node()
	s.AwaitPolling("the tools", func() bool { return slices.Contains(s.tools(), "srv__once") })
	runtest.Equal(t, "result", s.result("srv__once", `{"do":"x"}`).Text, "did x")
	runtest.Equal(t, "runs", len(s.logged()), 1)
	runtest.WantError(t, "stop", s.servers[0].Stop(s.Ctx), nil)
	var r events.ToolResult
	s.AwaitPolling("a refusal", func() bool {
		r = s.result("srv__once", `{"do":"x"}`)
		return strings.Contains(r.Text, "no node has srv now")
	})
	runtest.Equal(t, "class", r.Class, plugin.ClassUnavailable)
}

// TestManyLargeServers has four servers whose tools together are larger than a commit: sessions have tools of each, and calls of each run.
func TestManyLargeServers(t *testing.T) {
	t.Parallel()
	var tools []string
	for n := range 40 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%02d","description":%q,"inputSchema":{"type":"object"}}`, n, strings.Repeat("d", 9000)))
	}
	s := start(t)
	var list []mcp.Server
	for _, name := range []string{"a", "b", "c", "d"} {
		server := s.raw("[" + strings.Join(tools, ",") + "]")
		server.Name = name
		list = append(list, server)
	}
	s.source(list[0], list[1:]...)
	s.AwaitPolling("the tools of all", func() bool {
		return slices.Contains(s.tools(), "d__t00") && slices.Contains(s.tools(), "b__t00") && slices.Contains(s.tools(), "c__t00")
	})
	for _, server := range list {
		runtest.Equal(t, "result of "+server.Name, s.result(server.Name+"__t00", "{}").Text, "said")
	}
	state, err := s.ToolState(s.Ctx, s.Open(api.CreateRequest{}))
	runtest.WantError(t, "tools", err, nil)
	count := make(map[string]int)
	for _, tool := range state.Tools {
		count[tool.Source]++
	}
	if count["a"] < 10 || count["a"] != count["d"] || len(state.Tools)+len(state.LeftOut) < 160 {
		t.Errorf("got %v and %d left out, want as many of each, and each other tool named", count, len(state.LeftOut))
	}
}

// TestServerThatFails starts a server that ends at once: people read the reason once, and it is started six times at most.
func TestServerThatFails(t *testing.T) {
	t.Parallel()
	s := start(t)
	starts := filepath.Join(t.TempDir(), "starts")
	began := time.Now()
	s.node(mcp.Server{Name: "ends", Command: "sh", Args: []string{"-c", `echo x >> "` + starts + `"; exit 1`}})
	if late := s.servers[0].Settle(s.Ctx); len(late) > 0 || time.Since(began) > 5*time.Second {
		t.Errorf("got %v after %v, want that it has failed", late, time.Since(began))
	}
	s.AwaitPolling("six starts", func() bool { return strings.Count(string(read(starts)), "x") == 6 })
	var state api.ToolState
	id := s.Open(api.CreateRequest{})
	s.AwaitPolling("the reason in the tools", func() (done bool) {
		var err error
		state, err = s.ToolState(s.Ctx, id)
		return err == nil && len(state.LeftOut) == 1 && strings.Contains(state.LeftOut[0].Reason, "is started again in")
	})
	runtest.Equal(t, "lines that people read", len(s.told.all()), 1)
}

func read(file string) []byte {
	data, _ := os.ReadFile(filepath.Clean(file)) // it may not be there yet
	return data
}
