// Package mcp tests servers of the Model Context Protocol as sources of tools: with real processes and servers that others
// wrote.
package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/mcp"
)

// In a process of a test server this variable names the file in which it logs its runs.
const runsVariable = "LASH_TEST_RUNS"

// In a process of a test server this variable is how many tools it has besides.
const toolsVariable = "LASH_TEST_TOOLS"

// In a process of a test server this variable makes it one of an earlier version of the protocol.
const oldVariable = "LASH_TEST_OLD"

func TestMain(m *testing.M) {
	if url := os.Getenv(nodeVariable); url != "" {
		runNode(url, os.Getenv(nodeRunsVariable))
		return
	}
	if os.Getenv(runsVariable) == "" {
		runtest.AtOnce(16) // most of them wait for servers that say nothing
		harness.MainOfSmoke(m)
		return
	}
	if file := os.Getenv(rawVariable); file != "" {
		rawServer(os.Stdin, os.Stdout, file)
		return
	}
	if os.Getenv(oldVariable) != "" {
		oldServer(os.Stdin, os.Stdout)
		return
	}
	if err := testServer(os.Getenv(runsVariable)).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// setting is a system with sources.
type setting struct {
	*harness.System
	nodes   []*workers.Node
	kills   map[events.WorkerID]func() // of the nodes
	servers []*mcp.Servers             // of the nodes
	runs    string                     // file
	told    lines
	log     *zap.Logger // of the servers; nil: that of the test
}

// asked answers a prompt of lines "TOOL ARGUMENTS" with calls of the tools, whose ids are k, k1 and so on, and their results with a text.
func asked(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Parts[0].Kind == events.PartToolResult {
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	var calls []events.Part
	for n, line := range strings.Split(last.Parts[0].Text, "\n") {
		tool, args, _ := strings.Cut(line, " ")
		calls = append(calls, harness.Call(events.CallID(strings.TrimSuffix(fmt.Sprint("k", n), "0")), tool, args))
	}
	return harness.Reply(calls...)(ctx, req)
}

// lines are what people are told.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, line)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func start(t *testing.T) *setting {
	t.Helper()
	s := &setting{System: harness.StartIdle(t, slices.Repeat([]harness.Step{asked}, 1000)...)}
	s.kills = make(map[events.WorkerID]func())
	s.runs = filepath.Join(t.TempDir(), "runs")
	return s
}

// own is the server in this test binary.
func (s *setting) own(name string) mcp.Server { return ownServer(name, s.runs) }

func ownServer(name, runs string) mcp.Server {
	return mcp.Server{Name: name, Command: os.Args[0], Env: map[string]string{runsVariable: runs, "GORACE": "atexit_sleep_ms=0"}, Timeout: time.Minute}
}

// node starts a node with servers. kill stops it at once. It does not wait for the servers.
func (s *setting) node(servers ...mcp.Server) (kill func()) {
	s.T.Helper()
	on := bustest.Open(s.T, s.Server)
	own, err := mcp.New(mcp.Config{Servers: servers, Bus: on, Logger: cmp.Or(s.log, zaptest.NewLogger(s.T)), Tell: s.told.add})
	runtest.WantError(s.T, "servers", err, nil)
	runtest.WantError(s.T, "start", own.Start(s.Ctx), nil)
	s.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own has ended
		defer cancel()
		_ = own.Stop(ctx)
	})
	n, killNode := s.StartNodeOn(on, own)
	kill = func() {
		killNode()
		_ = own.Stop(s.Ctx) // they die with the node
	}
	s.Host = n.Host()
	s.servers, s.nodes = append(s.servers, own), append(s.nodes, n)
	s.kills[n.ID()] = kill
	return kill
}

// source starts a node with a server, and others, and waits until the tools of the first are offered.
func (s *setting) source(server mcp.Server, others ...mcp.Server) *mcp.Source {
	s.T.Helper()
	s.node(append([]mcp.Server{server}, others...)...)
	source := s.of(server.Name)
	s.Wait("tools of "+server.Name, source.Ready())
	return source
}

// of is a server of the last node.
func (s *setting) of(name string) *mcp.Source { return s.servers[len(s.servers)-1].Source(name) }

// tools are the tools of a session that begins now, by name.
func (s *setting) tools() (names []string) {
	s.T.Helper()
	state, err := s.ToolState(s.Ctx, s.Open(api.CreateRequest{}))
	runtest.WantError(s.T, "tools", err, nil)
	for _, t := range state.Tools {
		names = append(names, t.Name)
	}
	return names
}

// begin asks for a call in a turn of a new session.
func (s *setting) begin(tool, args string) events.SessionID {
	s.T.Helper()
	id := s.Open(api.CreateRequest{})
	s.StartTurn(id, "t1", harness.Text(tool+" "+args))
	return id
}

// result is the result of a call in a turn of a new session.
func (s *setting) result(tool, args string) events.ToolResult {
	s.T.Helper()
	id := s.begin(tool, args)
	s.AwaitTurn(id, "t1")
	return s.resultOf(id)
}

func (s *setting) resultOf(id events.SessionID) events.ToolResult {
	s.T.Helper()
	list := s.ResultsByPosition(id)
	if len(list) != 1 {
		s.T.Fatalf("results: got %+v, want one", list)
	}
	r := list[0]
	r.Text = s.CallResult(id, "k")
	return r
}

// pidOf is the process of a server: the youngest one with its variables.
func (s *setting) pidOf(server mcp.Server) (pid int) {
	s.T.Helper()
	s.AwaitPolling("the process of "+server.Name, func() bool {
		for _, n := range s.pidsOf(server) {
			pid = max(pid, n)
		}
		return pid != 0
	})
	return pid
}

// pidsOf are the processes that run with the variables of a server.
func (s *setting) pidsOf(server mcp.Server) (list []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, file := range files {
		data, _ := os.ReadFile(file) // it may have ended
		if !bytes.Contains(data, []byte(runsVariable+"="+server.Env[runsVariable]+"\x00")) {
			continue
		}
		if n, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))); s.alive(n) {
			list = append(list, n)
		}
	}
	return list
}

// alive reports whether a process runs: it is there, and no zombie.
func (*setting) alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(data), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// logged are the runs that the servers logged.
func (s *setting) logged() []string {
	data, _ := os.ReadFile(s.runs) // before the first one there is no file
	return strings.Fields(string(data))
}

// client is a session of the SDK with a server, without lash.
func client(t testing.TB, server mcp.Server) *sdk.ClientSession {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), server.Command, server.Args...) //nolint:gosec // a program of the test
	for name, value := range server.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if r.Params.URL != "" {
				return &sdk.ElicitResult{Action: "accept"}, nil
			}
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
	}).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the process may be gone
	return c
}

// doing are the arguments of the tools of the test server.
type doing struct {
	Do     string `json:"do"`
	Text   string `json:"text,omitempty"`
	Millis int    `json:"millis,omitempty"` // of a call that waits: until it returns
	Hold   bool   `json:"hold,omitempty"`   // a call that waits returns when the test has released it
}

// released ends the name of the file that is there when calls with hold may return.
const released = ".released"

// release ends the calls that are held.
func (s *setting) release() {
	s.T.Helper()
	runtest.WantError(s.T, "release", os.WriteFile(s.runs+released, nil, 0o600), nil)
}

// isReleased reports whether the test has released the calls that are held.
func isReleased() bool {
	_, err := os.Stat(filepath.Clean(os.Getenv(runsVariable)) + released)
	return err == nil
}

// testServer is a server with the tools once, again and look, which differ in their annotations.
func testServer(runs string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for name, annotations := range map[string]*sdk.ToolAnnotations{"once": nil, "again": {IdempotentHint: true}, "look": {ReadOnlyHint: true}} {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "Does it.", Annotations: annotations}, func(ctx context.Context, r *sdk.CallToolRequest, in doing) (*sdk.CallToolResult, any, error) {
			logRun(runs, strings.TrimSuffix(name+":"+in.Text, ":"))
			return in.act(ctx, s, r)
		})
	}
	more, _ := strconv.Atoi(os.Getenv(toolsVariable)) // missing: none
	for n := range more {
		s.AddTool(&sdk.Tool{Name: fmt.Sprintf("t%04d", n), InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	}
	s.AddResource(&sdk.Resource{URI: "test://one", Name: "one"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://one", MIMEType: "text/plain", Text: "the first"}, {URI: "test://two", MIMEType: "image/png", Blob: []byte{1, 2, 3}}}}, nil
	})
	reads := 0
	s.AddResource(&sdk.Resource{URI: "test://count", Name: "count"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		reads++ // one read after the other
		contents := []*sdk.ResourceContents{{URI: "test://count", MIMEType: "text/plain", Text: fmt.Sprint("read ", reads)}}
		return &sdk.ReadResourceResult{Contents: contents, Cacheable: sdk.Cacheable{TTLMs: int(time.Hour.Milliseconds())}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "name"}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Description: "A greeting.", Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["name"]}}}}, nil
	})
	return s
}

// waits counts the calls that wait. killed is logged by a server that kills itself in one of the first calls, as many as killsVariable says.
var waits atomic.Int64

const (
	killsVariable = "LASH_TEST_KILLS"
	killed        = "killed"
)

func logRun(runs, line string) {
	f, err := os.OpenFile(runs, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	_ = f.Close()
}

func (in doing) act(ctx context.Context, s *sdk.Server, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
	text := func(parts ...sdk.Content) *sdk.CallToolResult { return &sdk.CallToolResult{Content: parts} }
	switch in.Do {
	case "die":
		os.Exit(7)
	case "fail":
		return nil, nil, fmt.Errorf("as requested: %s", in.Text)
	case "wait":
		step := time.NewTicker(20 * time.Millisecond)
		defer step.Stop()
		if kills, _ := strconv.Atoi(os.Getenv(killsVariable)); kills > 0 && waits.Add(1) > int64(os.Getpid()%kills) {
			logRun(filepath.Clean(os.Getenv(runsVariable)), killed)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		for n := 1; ; n++ {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(n), Total: 9, Message: "step"})
			select {
			case <-ctx.Done():
				logRun(filepath.Clean(os.Getenv(runsVariable)), "cancelled")
				return nil, nil, ctx.Err()
			case <-step.C:
			}
			if in.Millis > 0 && n*20 > in.Millis || in.Hold && isReleased() {
				return text(&sdk.TextContent{Text: "waited"}), nil, nil
			}
		}
	case "picture":
		return text(&sdk.TextContent{Text: "look"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte{7, 8, 9}}), nil, nil
	case "structured":
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "18 degrees"}}, StructuredContent: json.RawMessage(`{"degrees":18}`)}, nil, nil
	case "digits":
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a number"}}, StructuredContent: json.RawMessage(`{"number":9007199254740993}`)}, nil, nil
	case "ask":
		if len(r.Params.InputResponses) == 0 {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: in.Text, RequestedSchema: colours}}}, nil, nil
		}
		data, err := json.Marshal(r.Params.InputResponses["q"])
		return text(&sdk.TextContent{Text: string(data)}), nil, err
	case "pid":
		return text(&sdk.TextContent{Text: fmt.Sprint(os.Getpid())}), nil, nil
	case "refuse":
		return nil, nil, &jsonrpc.Error{Code: -32000, Message: "refused with " + os.Getenv(in.Text)}
	case "digest":
		sum := sha256.Sum256([]byte(os.Getenv(in.Text)))
		return text(&sdk.TextContent{Text: hex.EncodeToString(sum[:])}), nil, nil
	case "env":
		return text(&sdk.TextContent{Text: strings.Join(os.Environ(), "\n")}), nil, nil
	case "less":
		s.RemoveTools(in.Text)
	case "more":
		sdk.AddTool(s, &sdk.Tool{Name: in.Text, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *sdk.CallToolRequest, doing) (*sdk.CallToolResult, any, error) {
			return text(&sdk.TextContent{Text: "I am new"}), nil, nil
		})
	}
	return text(&sdk.TextContent{Text: "did " + in.Do + in.Text}), nil, nil
}
