package serve

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/mcp"
)

// mcpServers reads the file of --mcp.
func (c *Command) mcpServers(s *program.Streams) error {
	if c.MCP == "" {
		return nil
	}
	data, err := program.ReadFile(c.MCP, program.MaxFileBytes)
	if err != nil {
		return fmt.Errorf("--mcp: %w", err)
	}
	if c.mcp, err = mcp.Parse(data, s.Env, program.ReadSetting); err != nil {
		return fmt.Errorf("--mcp %s: %w", c.MCP, err)
	}
	taken := c.taken()
	for i := range c.mcp {
		c.mcp[i].OAuth.File = MCPTokens(c.MCP, &c.mcp[i])
		if slices.Contains(taken, c.mcp[i].Name) {
			return fmt.Errorf("--mcp %s: mcpServers.%s: a plugin of this program has the name, used or not: give the server another one", c.MCP, c.mcp[i].Name)
		}
	}
	return nil
}

// MCPTokens is the file of the tokens for a server of a file of --mcp; empty where there are none.
func MCPTokens(file string, s *mcp.Server) string {
	if s.URL == "" {
		return ""
	}
	return cmp.Or(s.OAuth.File, filepath.Join(file+".tokens", s.Name+".json"))
}

// mcpWait is how long a start waits for the tools of all servers, and a stop for their end. A node serves without those that are late.
const mcpWait = 10 * time.Second

// makeMCP makes the servers of --mcp a plugin of the node. Without the flag the node has the tools of other nodes' servers.
func (c *Command) makeMCP(s *program.Streams, n *Node, cfg *workers.Config) (err error) {
	n.mcp, err = mcp.New(mcp.Config{Servers: c.mcp, Bus: n.bus, Logger: cfg.Logger, Quiet: !slices.Contains(c.Roles, string(workers.RoleTool)), Tell: func(line string) { s.Printf("%s", line) }})
	if err == nil {
		c.stack.Factories = append(c.stack.Factories, n.mcp)
	}
	return err
}

// startMCP starts the servers of --mcp, and waits until they have listed their tools, or have failed.
func (c *Command) startMCP(ctx context.Context, s *program.Streams, n *Node, log *zap.Logger) error {
	if err := n.mcp.Start(ctx); err != nil {
		return err
	}
	n.closers = append(n.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), mcpWait) // the command's context has usually ended
		defer cancel()
		if err := n.mcp.Stop(ctx); err != nil {
			log.Warn("an MCP server does not end", zap.Error(err))
		}
	})
	over := s.NoteWait("the servers of %s", c.MCP)
	once, cancel := context.WithTimeout(ctx, mcpWait)
	late := n.mcp.Settle(once)
	cancel()
	over()
	if len(late) > 0 {
		s.Printf("MCP server %s has not listed its tools yet: sessions get them when it has; the log says when, or why not", strings.Join(late, ", "))
	}
	return nil
}
