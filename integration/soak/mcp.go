package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/mcp"
)

// mcpName is the server of the Model Context Protocol that each node has: a program on stdin and stdout.
const mcpName = "soak"

// mcpPrefix begins the ids of sessions that call tools of the servers, and of no other ones.
const mcpPrefix = "mcp-"

// MCPSpec says how a node runs its server.
type MCPSpec struct {
	Ledger string `json:"ledger"` // a line for each run of a tool
	Order  string `json:"order"`  // file whose existence orders the server to die
}

// start starts the server of a node before that takes turns, and waits until its tools are listed.
func (s *MCPSpec) start(ctx context.Context, c *cast) (servers *mcp.Servers, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	server := mcp.Server{Name: mcpName, Command: self, Args: []string{apartMCP, s.Ledger, s.Order}, Timeout: time.Minute}
	if servers, err = mcp.New(mcp.Config{Servers: []mcp.Server{server}, Bus: c.bus, Logger: c.log}); err == nil {
		err = servers.Start(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	once, cancel := context.WithTimeout(ctx, readyWait/4) // a fault may last longer: calls fail until then
	defer cancel()
	_ = servers.Settle(once)
	return servers, func() {
		now, cancel := context.WithTimeout(context.Background(), stopGrace) // the context of the process has ended
		defer cancel()
		_ = servers.Stop(now) // the process ends
	}, nil
}

// orderEvery is the time between two looks at the order to die.
const orderEvery = 10 * time.Millisecond

// runMCP is a server with the tool once, which must not run twice, and look, which may. Each run is a line of the ledger. The
// server kills itself as kill -9 does when the file of the order exists: its parent knows no process id of it that is
// certain.
func runMCP(ctx context.Context, args []string) error {
	out, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // a file of the run
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // it is only appended to
	go func() {       // ends with the process
		for delay.Sleep(ctx, orderEvery) {
			if os.Remove(args[1]) == nil {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
			}
		}
	}()
	type call struct {
		Key string `json:"key"`
	}
	s := sdk.NewServer(&sdk.Implementation{Name: mcpName, Version: "1"}, nil)
	for name, annotations := range map[string]*sdk.ToolAnnotations{"once": nil, "look": {ReadOnlyHint: true}} {
		sdk.AddTool(s, &sdk.Tool{Name: name, Annotations: annotations}, func(ctx context.Context, _ *sdk.CallToolRequest, in call) (*sdk.CallToolResult, any, error) {
			if _, err := fmt.Fprintf(out, "%s %s\n", name, in.Key); err != nil {
				return nil, nil, err
			}
			delay.Sleep(ctx, time.Duration(hash(in.Key)%80)*time.Millisecond)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did " + in.Key}}}, nil, ctx.Err()
		})
	}
	return s.Run(ctx, &sdk.StdioTransport{})
}

// newMCPModel makes the model of the sessions that call tools of the servers; the other sessions have the recorded one. An input
// "TOOL KEY" becomes a call, and its result a text.
func newMCPModel(recorded llm.Provider) llm.Provider {
	return &instead{recorded, scripted.New(func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		last := req.Messages[len(req.Messages)-1].Parts[0]
		if last.Kind == events.PartToolResult {
			return done(), nil
		}
		tool, key, _ := strings.Cut(last.Text, " ")
		return scripted.Answer{Response: llm.Response{Stop: events.StopToolUse, Parts: []events.Part{{
			Kind: events.PartToolCall, Call: "k", Tool: mcp.ToolName(mcpName, tool), Args: fmt.Appendf(nil, `{"key":%q}`, key),
		}}}}, nil
	}), func(req llm.Request) bool { return strings.HasPrefix(string(req.Session), mcpPrefix) }}
}
