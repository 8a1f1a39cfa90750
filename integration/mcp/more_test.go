package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/mcp"
)

// TestSmokeProgress watches a call: the server's progress is output of the call, line by line.
func TestSmokeProgress(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	id := s.begin("srv__look", `{"do":"wait","millis":400}`)
	list, err := s.WatchTurn(s.Ctx, id, "t1")
	runtest.WantError(t, "watch", err, nil)
	text := ""
	for e, err := range list {
		runtest.WantError(t, "watch", err, nil)
		if e.Type == api.EventToolOutput {
			text += e.Text
			runtest.Equal(t, "stream", e.Stream, plugin.StreamProgress)
		}
	}
	if !strings.HasPrefix(text, "1 of 9: step\n2 of 9: step\n") {
		t.Errorf("output: got %q, want the progress of the call", text)
	}
}

// TestTurnKeepsItsTools has a server add a tool during a turn: the turn calls what it began with, and the next one has the
// new tool.
func TestTurnKeepsItsTools(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	id := s.begin("srv__look", `{"do":"wait","hold":true}`)
	s.AwaitPolling("the call", func() bool { return len(s.logged()) == 1 })
	s.result("srv__look", `{"do":"more","text":"added"}`)
	s.AwaitPolling("the new list", func() bool { return slices.Contains(s.tools(), "srv__added") })
	s.release()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.resultOf(id).Text, "waited")
	tools := func(turn events.TurnID) (names []string) {
		for _, ev := range s.History(id) {
			switch p := ev.Payload.(type) {
			case *events.ToolStateApplied:
				names = nil
				for _, tool := range p.Tools {
					names = append(names, tool.Name)
				}
			case *events.TurnCompleted:
				if ev.Turn == turn {
					return names
				}
			}
		}
		return nil
	}
	if list := tools("t1"); !slices.Contains(list, "srv__look") || slices.Contains(list, "srv__added") {
		t.Errorf("tools of the turn: got %v, want those that it began with", list)
	}
	s.RunTurn(id, "t2", harness.Text(`srv__added {"do":"x"}`))
	if list := tools("t2"); !slices.Contains(list, "srv__added") {
		t.Errorf("tools of the next turn: got %v, want the new one", list)
	}
	harness.VerifyHistory(t, s.Bus, id)
}

// TestSandboxAndGroup runs a server under a sandbox command. The server starts a process of its own. With the source all of
// them end, also after a run that was killed.
func TestSandboxAndGroup(t *testing.T) {
	t.Parallel()
	s := start(t)
	pids := filepath.Join(t.TempDir(), "pids")
	server := s.own("srv")
	server.Sandbox = []string{"sh", "-c", `sleep 1000 & echo $! >> "` + pids + `"; BOX=in "$@"`, "sandbox"}
	source := s.source(server)
	runtest.Contains(t, "environment", s.result("srv__look", `{"do":"env"}`).Text, "BOX=in")
	s.result("srv__once", `{"do":"die"}`)
	runtest.Equal(t, "next call", s.result("srv__look", `{"do":"x"}`).Text, "did x")
	runtest.WantError(t, "stop", source.Stop(s.Ctx), nil)
	data, err := os.ReadFile(pids)
	runtest.WantError(t, "pids", err, nil)
	list := strings.Fields(string(data))
	runtest.Equal(t, "runs", len(list), 2)
	for _, pid := range list {
		var n int
		_, err := fmt.Sscan(pid, &n)
		runtest.WantError(t, "pid", err, nil)
		s.AwaitPolling("the end of process "+pid, func() bool { return !s.alive(n) })
	}
}

// TestBackoff runs a server that ends at once. It is started again after waits that become longer.
func TestBackoff(t *testing.T) {
	t.Parallel()
	s := start(t)
	starts := filepath.Join(t.TempDir(), "starts")
	s.node(mcp.Server{Name: "ends", Command: "sh", Args: []string{"-c", `date +%s%N >> "` + starts + `"`}})
	var at []int64
	s.AwaitPolling("six starts", func() bool {
		data, _ := os.ReadFile(starts) // before the first one there is no file
		at = nil
		for _, field := range strings.Fields(string(data)) {
			var n int64
			_, _ = fmt.Sscan(field, &n)
			at = append(at, n)
		}
		return len(at) >= 6
	})
	runtest.WantError(t, "stop", s.of("ends").Stop(s.Ctx), nil)
	if took := time.Duration(at[5] - at[0]); took < 800*time.Millisecond { // of waits of 100, 200, 400, 800 and 1 600 ms at least a third, as they are random
		t.Errorf("six starts took %v", took)
	}
}

// TestHostileResults has a server return what a session cannot keep, or that is not what it says. Each call ends, with what
// can be kept, and the next one works.
func TestHostileResults(t *testing.T) {
	t.Parallel()
	hostile := sdk.NewServer(&sdk.Implementation{Name: "hostile", Version: "1"}, nil)
	add := func(name string, result func() *sdk.CallToolResult) {
		hostile.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return result(), nil })
	}
	text := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	add("nothing", func() *sdk.CallToolResult { return &sdk.CallToolResult{Content: []sdk.Content{}} })
	add("large", func() *sdk.CallToolResult { return text(strings.Repeat("x", 40<<20)) })
	add("escapes", func() *sdk.CallToolResult { return text("\x1b]0;title\x07\x00\u202e") })
	add("deep", func() *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: json.RawMessage(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))}
	})
	add("parts", func() *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: make([]byte, 6<<20)}}}
	})
	add("media", func() *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: strings.Repeat("m", 5000), Data: []byte{1}}}}
	})
	add("many", func() *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: slices.Repeat([]sdk.Content{&sdk.TextContent{Text: "y"}}, 20000)}
	})
	add("fine", func() *sdk.CallToolResult { return text("fine") })
	s := start(t)
	server, _, _ := serveHTTP(t, hostile)
	s.source(server)
	for name, want := range map[string]string{
		"nothing": "", "large": "[failed]", "escapes": "\x1b]0;title\x07\x00\u202e", "deep": "[[[[", "parts": "are left out", "media": "", "many": "y\ny", "fine": "fine",
	} {
		t.Run(name, func(t *testing.T) {
			id := s.begin("web__"+name, `{}`)
			s.AwaitTurn(id, "t1")
			r := s.resultOf(id)
			if !strings.Contains(r.Text, want) {
				t.Errorf("got %.200q, want %q", r.Text, want)
			}
			if r.Outcome == events.OutcomeSuccess != (want != "[failed]") {
				t.Errorf("outcome: got %q of %.200q", r.Outcome, r.Text)
			}
			harness.VerifyHistory(t, s.Bus, id)
		})
	}
}

// TestServerOfSomeSessions has a server that sessions have by name only: those to which a caller adds it.
func TestServerOfSomeSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	server.BySession = true
	s.source(server)
	runtest.Equal(t, "without it", s.result("srv__look", `{"do":"x"}`).Class, plugin.ClassUnavailable)
	id := s.Open(api.CreateRequest{})
	_, err := s.AddToolSource(s.Ctx, id, "srv")
	runtest.WantError(t, "add", err, nil)
	for n, tool := range []string{"srv__look", "srv__once"} {
		turn := events.TurnID(fmt.Sprintf("t%d", n+1))
		s.RunTurn(id, turn, harness.Text(tool+` {"do":"x"}`))
	}
	results := s.ResultsByPosition(id)
	if len(results) == 0 || results[len(results)-1].Outcome != events.OutcomeSuccess || len(s.logged()) != 2 {
		t.Errorf("results: got %+v and runs %v, want both calls", results, s.logged())
	}
	runtest.Equal(t, "another session", s.result("srv__look", `{"do":"x"}`).Class, plugin.ClassUnavailable)
	_, err = s.RemoveToolSource(s.Ctx, id, "srv")
	runtest.WantError(t, "remove", err, nil)
	s.RunTurn(id, "t3", harness.Text(`srv__look {"do":"x"}`))
	runtest.Equal(t, "runs", len(s.logged()), 2)
	harness.VerifyHistory(t, s.Bus, id)
}
