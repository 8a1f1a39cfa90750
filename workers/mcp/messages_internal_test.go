package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// people grant every question.
func people(context.Context, string, string, json.RawMessage) (events.ToolApprovalGiven, error) {
	return events.ToolApprovalGiven{Granted: true, Reason: `{"a":"x"}`}, nil
}

// FuzzMessages has a server send anything after the handshake, while the client lists its tools and calls one. The client does not panic,
// and its requests end with the messages.
func FuzzMessages(f *testing.F) {
	request := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":%q,"params":%s}`, method, params) + "\n"
	}
	result := func(id int, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, text) + "\n"
	}
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":null}` + "\n",
		request("elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","oneOf":[null]}}}}`),
		request("elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[null]}}}}}`),
		request("elicitation/create", `{"message":"m","mode":"url","url":"http://x"}`),
		request("sampling/createMessage", `{"messages":[null]}`) + request("roots/list", `null`) + request("ping", `[]`),
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":null}}` + "\n" + `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]` + "\n",
		result(2, `{"tools":[null,{"name":"x","inputSchema":null}]}`) + result(3, `{"content":[{"type":"text","text":"x"}]}`),
		result(2, `{"tools":[]}`) + result(3, `{"inputRequests":{"a":null}}`),
		result(2, `{"tools":[]}`) + result(3, `{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"properties":{"a":{"type":"string","oneOf":[null]}}}}}}}`),
		result(2, `{"tools":[]}`) + result(3, `{"content":[{"type":"resource"},{"type":"tool_result","content":[null]}],"structuredContent":{"a":1}}`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		all, err := New(Config{})
		runtest.NoError(t, err)
		s := all.newSource(&Server{Name: "x", Command: "x"})
		in, said := io.Pipe()
		heard, out := io.Pipe()
		done := make(chan struct{})
		go func() { // the server; ends with the client's end of the pipe
			defer close(done)
			for lines := bufio.NewScanner(heard); lines.Scan(); {
				line := lines.Text()
				switch {
				case strings.Contains(line, `"method":"initialize"`):
					_, _ = io.WriteString(said, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`+"\n")
				case strings.Contains(line, `"method":"tools/list"`):
					go func() { _, _ = said.Write(sent); _ = said.Close() }() // ends with the reader
				}
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		run := newRun(ctx, s)
		run.server, run.pipe = s.server.Load(), newPipe(&run.answers, out)
		run.pipe.noise, run.pipe.busy = s.noise, s.busy
		go run.pipe.listen(in) // ends with what the server sends
		client, err := run.newClient().Connect(ctx, run.pipe, &mcp.ClientSessionOptions{ProtocolVersion: protocolVersion})
		runtest.NoError(t, err)
		run.client = client
		s.set(run)
		called := make(chan struct{})
		go func() { // ends with the session
			defer close(called)
			_, _ = run.do(ctx, &attempt{caller: plugin.Call{Session: "s", Run: plugin.Running{Ask: people}}, source: s}, func(ctx context.Context, token string) (plugin.Result, error) {
				for range 2 { // whichever of the ids it has
					if out, err := callTool(ctx, client, "x", json.RawMessage(`{}`), token); err == nil {
						return out, nil
					}
				}
				return plugin.Result{}, nil
			})
		}()
		_, _ = (&Server{Name: "x"}).listed(ctx, client)
		<-called
		if ctx.Err() != nil {
			t.Error("the requests did not end with the messages")
		}
		run.end(nil)
		_ = client.Close()
		_ = heard.Close()
		<-done
	})
}

// listed lists the tools, as a source does.
func (s *Server) listed(ctx context.Context, client *mcp.ClientSession) (o *offer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = invalidMessage("a list", p)
		}
	}()
	return s.offerOf(ctx, client)
}
