package main

import (
	"context"
	"time"

	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// NodeSpec is the [Spec] of a node.
type NodeSpec struct {
	CastSpec
	Name   string   `json:"name"`
	MCP    *MCPSpec `json:"mcp,omitempty"` // the server of the node; nil: none
	Agents bool     `json:"agents"`        // turns may start agents
	Plugin bool     `json:"plugin"`        // tools that an external plugin may have are those of [PluginSpec]
}

// coldAfter keeps the number of hot sessions small in a run of any length. Each hot session is a stream on three
// servers, and a server that restarts recovers all streams.
const coldAfter = 10 * time.Second

func (s *NodeSpec) run(ctx context.Context, working func()) error {
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	works := make(chan struct{})
	cfg := workers.Config{
		Bus: c.bus, Name: s.Name, ID: s.ID, Provider: "scripted", Tools: c.tools, Logger: c.log,
		Providers: map[string]llm.Provider{"scripted": c.player.Provider()}, ArchiveAfter: coldAfter,
	}
	if s.MCP != nil {
		cfg.Providers["scripted"] = newMCPModel(c.player.Provider())
	}
	if s.Agents {
		cfg.Providers["scripted"] = newDelegate(cfg.Providers["scripted"], c.spec.Think, works)
	}
	if s.Plugin || s.Agents || s.MCP != nil {
		stop, err := c.addPlugins(ctx, &cfg, s)
		if err != nil {
			return err
		}
		defer stop()
	}
	node, err := workers.NewNode(cfg)
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	working()
	close(works)
	<-ctx.Done()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	node.Stop(now)
	return nil
}
