package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// hostileMessages are messages of an agent that the protocol does not have, or that it has for others, each with an id of its own.
func hostileMessages() (list []string) {
	methods := []string{
		"initialize", "server/discover", "ping", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe",
		"resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "subscriptions/listen", "elicitation/create", "sampling/createMessage",
		"roots/list", "notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "notifications/message", "x\x00\x1b[2J", "",
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":null}`
	params := []string{
		"", `null`, `{}`, `[]`, `[null]`, `"x"`, `{"name":null,"arguments":null}`, `{"name":"run_turn","arguments":[]}`, `{"name":"run_turn","arguments":{"session":null}}`,
		`{"uri":null}`, `{"uri":"lash://sessions/%"}`, `{"uri":"lash://sessions/../../x"}`, `{"ref":null,"argument":null}`, `{"requestId":{}}`, `{"cursor":7}`, `{"notifications":null}`,
		`{"protocolVersion":null,"capabilities":null,"clientInfo":null}`, `{"progressToken":{},"progress":"x"}`, `{` + meta + `}`, `{` + meta + `,"notifications":{"toolsListChanged":true}}`,
		`{"a":` + strings.Repeat("[", 1500) + strings.Repeat("]", 1500) + `}`,
	}
	for _, method := range methods {
		for i, text := range params {
			name, _ := json.Marshal(method) // a text
			message := fmt.Sprintf(`{"jsonrpc":"2.0","method":%s`, name)
			if text != "" {
				message += `,"params":` + text
			}
			if !strings.HasPrefix(method, "notifications/") || i%4 == 0 {
				message += fmt.Sprintf(`,"id":"%d"`, len(list))
			}
			list = append(list, message+"}")
		}
	}
	return list
}

// TestLongMCPHostileMessagesOverHTTP sends a node every message at its MCP server. None is a fault of the node, and the node serves afterwards.
func TestLongMCPHostileMessagesOverHTTP(t *testing.T) {
	t.Parallel()
	n := serveModel(t, "", "--provider", "scripted", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "sesame"))
	defer n.stop(t, syscall.SIGTERM)
	client := &http.Client{}
	for _, message := range append(hostileMessages(), `{`, `null`, `7`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`) {
		for _, version := range []string{"", "2025-06-18"} {
			ctx := limited(t)
			if strings.Contains(message, "subscriptions/listen") { // its answer has no end
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.http+"/mcp", strings.NewReader(message))
			runtest.NoError(t, err)
			r.Header.Set("Authorization", "Bearer sesame")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if version != "" {
				r.Header.Set("Mcp-Protocol-Version", version)
			}
			answer, err := client.Do(r)
			if err != nil {
				if !strings.Contains(message, "subscriptions/listen") {
					t.Fatalf("%.200s: %v", message, err)
				}
				continue
			}
			data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16)) // a stream is cut off
			_ = answer.Body.Close()
			if answer.StatusCode >= http.StatusInternalServerError || bytes.Contains(data, []byte("nil pointer")) {
				t.Errorf("%.200s: got %d and %.300s", message, answer.StatusCode, data)
			}
		}
	}
	a := startAgent(t, overHTTP(t, n.http, "sesame"))
	a.do("create_session", map[string]any{"id": "after"}, nil)
}

// TestLongMCPHostileMessagesOverStdio sends `lash-node mcp` every message, and then asks for its tools. It answers. What is no message ends it,
// with a reason.
func TestLongMCPHostileMessagesOverStdio(t *testing.T) {
	t.Parallel()
	n := serveModel(t, "", "--provider", "scripted", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "sesame"))
	defer n.stop(t, syscall.SIGTERM)
	const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	var deep []string
	for _, message := range hostileMessages() {
		if !strings.Contains(message, "[[[[") { // no message, see below
			deep = append(deep, message)
		}
	}
	for name, c := range map[string]struct {
		sent    string
		answers bool
	}{
		"messages": {strings.Join(deep, "\n") + "\n", true},
		"garbage":  {"garbage\n", false},
		"deep":     {`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 20000) + "\n", false},
		"endless":  {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 20<<20), false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(limited(t), os.Args[0])
			cmd.Args = []string{"lash-node", "mcp", "--url", n.http, "--token-file", file(t, "token", []byte("sesame\n"))}
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
			var said bytes.Buffer
			cmd.Stderr = &said
			in, err := cmd.StdinPipe()
			runtest.NoError(t, err)
			out, err := cmd.StdoutPipe()
			runtest.NoError(t, err)
			runtest.NoError(t, cmd.Start())
			go func() { // ends with the process
				_, _ = io.WriteString(in, hello+c.sent)
				if c.answers {
					_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":"last","method":"tools/list","params":{}}`+"\n")
				}
			}()
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<20)
			answered := false
			for !answered && lines.Scan() {
				answered = strings.Contains(lines.Text(), `"id":"last"`) && strings.Contains(lines.Text(), "run_turn")
			}
			if c.answers {
				_ = in.Close()
			}
			_, _ = io.Copy(io.Discard, out)
			err = cmd.Wait()
			if answered != c.answers || strings.Contains(said.String(), "panic") || strings.Contains(said.String(), "goroutine ") {
				t.Errorf("got an answer: %t, and %.1000s", answered, said.String())
			}
			if !c.answers && (err == nil || said.Len() == 0) {
				t.Errorf("got %v and %q, want a reason", err, said.String())
			}
		})
	}
}
