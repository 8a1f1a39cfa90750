package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
)

// mcpCases are valid arguments of each tool, without the session.
func mcpCases() map[string]string {
	return map[string]string{
		"create_session": `{"id":""}`, "list_sessions": `{"limit":3}`, "run_turn": `{"text":"hello","wait_seconds":0}`, "wait_turn": `{"turn":"t1","wait_seconds":0}`,
		"cancel_turn": `{"turn":"t1"}`, "list_approvals": `{}`, "answer_approval": `{"call":"t1/0/0","granted":true}`, "read_session": `{}`, "read_history": `{"limit":3}`, "search_history": `{"text":"hello"}`,
	}
}

// mcpMethods are parameters of the other methods.
func mcpMethods() map[string]string {
	return map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}`, "ping": `{}`, "tools/list": `{}`,
		"resources/read": `{"uri":"lash://sessions/warm-0"}`, "resources/templates/list": `{}`, "notifications/cancelled": `{"requestId":1}`, "nosuch": `{}`,
	}
}

// mcpTargets are the tools that the server lists, and other methods. A tool without a case ends the test.
func (s *siege) mcpTargets() (list []target) {
	s.T.Helper()
	a := &attacker{siege: s, forger: newForger(0, 0)}
	status, answer := a.postMCP("admin", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	var listed struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Properties map[string]any }
		}
	}
	if answer == nil || json.Unmarshal(answer.Result, &listed) != nil || len(listed.Tools) == 0 {
		s.T.Fatalf("tools: got %d %+v", status, answer)
	}
	for _, tool := range listed.Tools {
		arguments, has := mcpCases()[tool.Name]
		if !has {
			s.T.Fatalf("%s: is a tool of the MCP server, and no case has it: see mcpCases", tool.Name)
		}
		properties := slices.Sorted(maps.Keys(tool.InputSchema.Properties))
		list = append(list, target{"MCP", tool.Name, func(a *attacker) {
			session, token := a.aim(tool.Name, "bob", a.token("write"))
			a.overMCP(tool.Name, token, "tools/call", a.arguments(tool.Name, arguments, session, properties))
		}})
	}
	for method, params := range mcpMethods() {
		list = append(list, target{"MCP", method, func(a *attacker) {
			a.overMCP(method, a.token("read"), method, a.mutated(params, func(any) {}))
		}})
	}
	slices.SortFunc(list, func(a, b target) int { return strings.Compare(a.op, b.op) })
	return list
}

// arguments are the parameters of a call of a tool, some of them hostile.
func (a *attacker) arguments(tool, valid, session string, properties []string) string {
	var in map[string]any
	_ = json.Unmarshal([]byte(valid), &in)
	switch {
	case slices.Contains(properties, "session"):
		in["session"] = session
	case tool == "create_session":
		in["id"] = a.fresh
	}
	for range a.IntN(3) {
		a.change = "values"
		switch name := pick(a.forger, append(properties, a.field())...); name {
		case "wait_seconds", "session": // the caller reaches the conversations that are played
			in[name] = pick[any](a.forger, -1, 1<<40, "x", nil, 1.5, "", "a.b", "\x00", a.fresh, strings.Repeat("x", 300))
		default:
			in[name] = a.value(0)
		}
	}
	data, err := json.Marshal(map[string]any{"name": tool, "arguments": in})
	if err != nil {
		return `{}`
	}
	return a.broken(string(data))
}

// mcpAnswer is a response of JSON-RPC.
type mcpAnswer struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// postMCP sends a message to the server. Its answer is nil where the response is no message.
func (a *attacker) postMCP(token, body string) (status int, answer *mcpAnswer) {
	r, err := http.NewRequestWithContext(a.Ctx, http.MethodPost, a.http.URL+"/v1/mcp", strings.NewReader(body))
	if err != nil {
		a.wrong("request: %v", err)
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token+harness.TokenSecret)
	}
	got, err := a.http.Client.Do(r)
	if err != nil {
		if len(body) <= 1<<20 {
			a.wrong("MCP %s: %v", clipped(body), err)
		}
		return 0, nil
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	if err != nil || len(data) == 0 && got.StatusCode != http.StatusAccepted || got.StatusCode >= 500 {
		a.wrong("MCP %s: got %d %s, %v", clipped(body), got.StatusCode, clipped(string(data)), err)
	}
	if _, last, ok := bytes.Cut(data, []byte("data: ")); ok {
		data = last
	}
	answer = &mcpAnswer{}
	if json.Unmarshal(data, answer) != nil || answer.Result == nil && answer.Error == nil {
		return got.StatusCode, nil
	}
	return got.StatusCode, answer
}

// overMCP sends a message of a method, and checks the answer. A failure of a tool says what the API says.
func (a *attacker) overMCP(op, token, method, params string) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	if a.IntN(30) == 0 {
		body = a.mutated(body, func(any) {})
	}
	status, answer := a.postMCP(token, body)
	switch {
	case status >= 400 || status == 0:
		a.outcome("MCP", fmt.Sprintf("status %d", status))
	case answer == nil:
		a.outcome("MCP", "no answer") // of a notification
	case answer.Error != nil:
		if answer.Error.Message == "" || answer.Error.Code == -32603 {
			a.wrong("MCP %s: got %+v, want a reason that is not the node's", clipped(body), answer.Error)
		}
		a.outcome("MCP", fmt.Sprintf("error %d", answer.Error.Code))
	default:
		a.toolAnswered(op, body, answer.Result)
	}
}

// toolAnswered checks the result of a tool.
func (a *attacker) toolAnswered(op, body string, result []byte) {
	var r struct {
		IsError bool
		Content []struct{ Text string }
	}
	_ = json.Unmarshal(result, &r)
	text := ""
	if len(r.Content) > 0 {
		text = r.Content[0].Text
	}
	if !r.IsError {
		a.accepted("MCP", "", 0, "", madeBy(op, []byte(text)))
		var asked struct {
			Params struct {
				Arguments struct{ Session events.SessionID }
			}
		}
		if json.Unmarshal([]byte(body), &asked) == nil {
			a.promises(op, asked.Params.Arguments.Session, []byte(text))
		}
		return
	}
	code, why, _ := strings.Cut(text, ": ")
	if why == "" || code == "internal" || strings.HasPrefix(text, "status ") || strings.HasPrefix(text, "the node") {
		a.wrong("MCP %s: got %q, want a reason that is not the node's", clipped(body), clipped(text))
	}
	if strings.ContainsAny(code, " \"") || len(code) > 32 {
		code = "refused"
	}
	a.outcome("MCP", code)
}
