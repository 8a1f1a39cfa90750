package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/external"
)

// pluginName is the external plugin that has the recorded tools.
const pluginName = "recorded"

// PluginSpec is the [Spec] of a process of the plugin.
type PluginSpec struct{ CastSpec }

func (s *PluginSpec) run(ctx context.Context, working func()) error {
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	i, err := remote.Start(ctx, remote.Config{
		Conn: c.bus.Conn(), Plugin: plugin.Func(pluginName, c.register), Version: "1", Instance: string(s.ID), Logger: c.log,
	})
	if err != nil {
		return err
	}
	working()
	<-ctx.Done()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = i.Stop(now) // the process ends
	return nil
}

// register declares the tools of all recordings that the plugin has. Each call runs the tool of its session.
func (c *cast) register(r *plugin.Registrar) error {
	set := plugin.NewTools()
	for _, name := range c.chats.outside {
		tool := plugin.Tool{Name: name, Effects: c.chats.effects(name), Schema: &jsonschema.Schema{}}
		err := set.Add(tool, func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
			own, ok := c.tools(call.Session).Find(name)
			if !ok {
				return plugin.Result{}, fmt.Errorf("session %s has no tool %s", call.Session, name)
			}
			return own.Handler(ctx, call, args)
		})
		if err != nil {
			return err
		}
	}
	return r.Tools(set)
}

// addPlugins gives a node the external plugin, its server of the Model Context Protocol and agents, where the node has them. The
// other tools stay with the node.
func (c *cast) addPlugins(ctx context.Context, cfg *workers.Config, s *NodeSpec) (stop func(), err error) {
	var list []external.Plugin
	tools := c.tools
	if s.Plugin {
		list, tools = append(list, external.Plugin{Name: pluginName}), c.inside
	}
	var factories []plugin.Factory
	end := func() {}
	if s.MCP != nil {
		servers, stop, err := s.MCP.start(ctx, c)
		if err != nil {
			return nil, err
		}
		factories, end = append(factories, servers), stop
	}
	if s.Agents {
		factories = append(factories, subagent.Factory(subagent.Config{}))
	}
	known, err := external.New(external.Config{Bus: c.bus, Plugins: list, Logger: c.log})
	if err == nil {
		err = known.Start(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	cfg.Tools = nil
	cfg.Plugins, err = plugin.NewBuilder(plugin.BuilderConfig{
		Builtins: workers.Builtins(), Factories: append(append(factories, known.Factories()...), plugin.OfTools("tools", tools)),
	})
	if err != nil {
		known.Stop()
		end()
		return nil, err
	}
	return func() { known.Stop(); end() }, nil
}

// inside are the tools of a session that stay with the node.
func (c *cast) inside(id events.SessionID) *plugin.Tools {
	all, set := c.tools(id), plugin.NewTools()
	for _, entry := range all.Entries() {
		if _, outside := slices.BinarySearch(c.chats.outside, entry.Name); outside {
			continue
		}
		tool, _ := all.Find(entry.Name)
		if err := set.AddNamed(tool.Tool, tool.Handler); err != nil {
			c.log.Error("tool", zap.String("tool", entry.Name), zap.Error(err))
		}
	}
	return set
}
