package serve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/workers/mcp"
)

// mcpServers reads the file of --mcp. Each of its servers is a plugin of the node.
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
		if slices.Contains(taken, c.mcp[i].Name) {
			return fmt.Errorf("--mcp %s: mcpServers.%s: a plugin of this program has the name, used or not: give the server another one", c.MCP, c.mcp[i].Name)
		}
		c.external = append(c.external, c.mcp[i].Plugin())
	}
	return nil
}

// mcpWait is how long a start waits for the tools of all servers. A node serves without those that are late.
const mcpWait = 10 * time.Second

// startMCP starts the servers of --mcp.
func (c *Command) startMCP(ctx context.Context, s *program.Streams, n *Node, log *zap.Logger) error {
	sources := make([]*mcp.Source, len(c.mcp))
	for i := range c.mcp {
		conn, err := c.mcpConn(n, c.mcp[i].Name)
		if err != nil {
			return fmt.Errorf("MCP server %s: %w", c.mcp[i].Name, err)
		}
		source, err := mcp.Start(ctx, mcp.Config{Server: c.mcp[i], Conn: conn, Prefix: c.Prefix, Logger: log})
		if err != nil {
			return err
		}
		n.closers = append(n.closers, func() {
			ctx, cancel := context.WithTimeout(context.Background(), mcpWait) // the command's context has usually ended
			defer cancel()
			source.Drain(ctx) // calls of other nodes
			ctx, cancel = context.WithTimeout(context.Background(), mcpWait)
			defer cancel()
			if err := source.Stop(ctx); err != nil {
				log.Warn("an MCP server does not end", zap.Error(err))
			}
			if conn != n.bus.Conn() {
				conn.Close()
			}
		})
		sources[i] = source
	}
	over := s.NoteWait("the servers of %s", c.MCP)
	defer over()
	once, cancel := context.WithTimeout(ctx, mcpWait)
	defer cancel()
	for i, source := range sources {
		select {
		case <-source.Ready():
		case <-once.Done():
		}
		select {
		case <-source.Ready():
			for _, name := range source.Unlisted() {
				s.Printf("MCP server %s lists no tool %q: correct tools or effects of its field lash in %s; lash-node plugins lists what it registered", c.mcp[i].Name, name, c.MCP)
			}
		default:
			s.Printf("MCP server %s has not listed its tools yet: sessions get them when it has; the log says when, or why not", c.mcp[i].Name)
		}
	}
	return nil
}

// mcpConn is a connection with the credentials of a server's plugin. Existing servers have none for it, so there it is the
// node's own.
func (c *Command) mcpConn(n *Node, name string) (*nats.Conn, error) {
	if n.server == nil {
		return n.bus.Conn(), nil
	}
	return remote.Connect(busembed.PluginFile(c.Store, name))
}
