package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/session/pattern"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// checkRules refuses rules of the gate for tools that no plugin of this program has: such a rule has no effect. It
// accepts tools of plugins that only other nodes of the fleet have. The tools of sources change while a node runs, so
// a program whose plugins register sources may have any rule. So may a node with external plugins, or MCP servers.
func (c *Command) checkRules() error {
	if len(c.external)+len(c.mcp) > 0 {
		return nil
	}
	all := c.PluginFlags
	all.Root = "." // for the plugins that need a directory: their tools do not depend on it
	cfg := plugin.BuilderConfig{Builtins: workers.Builtins()}
	for _, p := range c.adds.available() {
		factory, err := p.build(&all)
		if err != nil {
			return fmt.Errorf("--plugins %s: %w", p.name, err)
		}
		cfg.Factories = append(cfg.Factories, factory)
	}
	builder, err := plugin.NewBuilder(cfg)
	if err != nil {
		return err
	}
	sources, err := builder.Sources(plugin.BuildContext{})
	if err != nil || len(sources) > 0 {
		return err
	}
	tools, err := builder.ToolNames(plugin.BuildContext{})
	if err != nil {
		return err
	}
	var errs []error
	for _, rules := range c.lists() {
		for _, rule := range rules.list {
			tool, _, _ := strings.Cut(rule, ":")
			if !slices.ContainsFunc(tools, func(name string) bool { return pattern.Match(tool, name, "") }) {
				errs = append(errs, fmt.Errorf("--%s %s: %q is no tool: want some of %s, or *", rules.flag, rule, tool, strings.Join(tools, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}
