package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/api"
	sessions "github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/transcript"
)

type pluginsCmd struct {
	clientFlags

	JSON bool `name:"json" help:"An array of objects, the plugins of GET /v1/plugins."`
}

func (*pluginsCmd) Help() string {
	return "A node answers with the plugins of its setting external-plugins, and the programs of them that live: it hears a sign of life of each every second.\n\n" +
		"Exit codes: 0 each plugin has a program that takes calls, 1 one has none, 2 it could not be done."
}

var errNoInstance = program.Difference("no program takes the calls")

func (c *pluginsCmd) Run(ctx context.Context, s *streams) error {
	return c.with(ctx, s, func(ctx context.Context, on *client) error {
		asking, err := sessions.New(sessions.Config{Bus: on.bus})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		over := s.NoteWait("a node to answer")
		list, err := asking.ExternalPlugins(ctx)
		over()
		if err != nil {
			return c.explain(err)
		}
		return c.show(s, list)
	})
}

func (c *pluginsCmd) show(s *streams, list []api.ExternalPlugin) error {
	var err error
	if c.JSON {
		err = writeJSON(s, list)
	} else {
		printPlugins(s, list)
	}
	for i := range list {
		if err == nil && !list[i].Ready() {
			return fmt.Errorf("%w of plugin %s: the log of the node says why an MCP server of --mcp has not registered; start any other program, as lash-node plugin run --help says for those on standard input and output", errNoInstance, list[i].Name)
		}
	}
	return err
}

func printPlugins(s *streams, list []api.ExternalPlugin) {
	if len(list) == 0 {
		write(s.Out, "the node has no plugins that run as programs of their own: the setting external-plugins of lash-node serve names them\n")
		return
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write(w, "PLUGIN\tVERSION\tINSTANCE\tMACHINE\tSTATE\tRUNNING\tENDED\tFAILED\tHEARD\n")
	for i := range list {
		p := &list[i]
		version := transcript.VisibleLine(p.Version)
		if version == "" {
			version = "not registered"
		}
		if len(p.Instances) == 0 {
			write(w, "%s\t%s\tnone\t\t\t\t\t\t\n", p.Name, version)
		}
		for j := range p.Instances {
			in := &p.Instances[j]
			its := version
			if !in.Current {
				its = "another"
			}
			write(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%.1f s ago\n", p.Name, its, in.ID, transcript.VisibleLine(in.Machine), in.State(),
				in.Running, in.Calls, in.Failures, (time.Duration(in.SilentMS) * time.Millisecond).Seconds())
		}
	}
	_ = w.Flush() // a builder takes everything
	write(s.Out, "%s", text.String())
}
