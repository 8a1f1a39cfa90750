package serve

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/budget"
	"github.com/lash-go/lash/workers/builtin/files"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/history"
	"github.com/lash-go/lash/workers/builtin/planmode"
	"github.com/lash-go/lash/workers/builtin/shell"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/builtin/timer"
	"github.com/lash-go/lash/workers/builtin/todo"
	"github.com/lash-go/lash/workers/builtin/toolsearch"
)

// PluginFlags select the plugins of sessions, and configure the shipped ones.
type PluginFlags struct {
	Plugins        []string      `help:"Plugins of every session, comma-separated, as listed above. \"default\" and \"none\" are two such lists." default:"default" placeholder:"LIST"`
	Root           string        `help:"Directory that files, shell and background work in." placeholder:"DIR" type:"path"`
	Environments   string        `help:"File of execution environments, which sessions name in their configuration (environment): JSON as {\"environments\": {\"ci\": {\"directory\": \"/srv/ci\", \"variables\": {\"TOKEN\": \"...\"}, \"by_call\": false, \"timeout\": \"2m\", \"max_timeout\": \"10m\", \"max_output_bytes\": 65536, \"max_cpu_time\": \"1m\", \"max_memory_bytes\": 1000000000, \"code_timeout\": \"10s\"}}}, where all but directory may be left out. Files, shell, background and monitors work there, and code has its limits. Each process of a command has its own processor time and memory, and a program has at most a sixth of the memory of this machine, or 128 MiB. by_call lets the model name it in calls of commands. Sessions that name none have that of the name default, whose directory is --root. Give it to every node." placeholder:"FILE" type:"path" setting:""`
	Allow          []string      `help:"A rule of the gate: calls that run at once. TOOL or TOOL:PATTERN, where * is any text: of the tool's name, as in SERVER__*, or of a path or command. Repeatable." placeholder:"RULE" sep:"none"`
	Ask            []string      `help:"A rule of the gate: calls that wait for an approval." placeholder:"RULE" sep:"none"`
	Deny           []string      `help:"A rule of the gate: calls that never run. It goes before --allow, and that before --ask." placeholder:"RULE" sep:"none"`
	MCP            string        `name:"mcp" help:"File of servers of the Model Context Protocol, whose tools sessions get: JSON with mcpServers, as editors have it. References in it to variables and files are replaced. Section \"MCP servers\" of OPERATING.md has the fields." placeholder:"FILE" type:"path"`
	CommandTimeout time.Duration `help:"Timeout of the shell's commands that set none; at most 10m." default:"2m" setting:""`
}

// Given are the flags that do not have their default, as a shell reads them, each after a space.
func (f *PluginFlags) Given() (flags string) {
	if !slices.Equal(f.Plugins, []string{"default"}) {
		flags += " --plugins " + connect.Quoted(strings.Join(f.Plugins, ","))
	}
	if f.Root != "" {
		flags += " --root " + connect.Quoted(f.Root)
	}
	for _, rules := range f.lists() {
		for _, rule := range rules.list {
			flags += " --" + rules.flag + " " + connect.Quoted(rule)
		}
	}
	if f.MCP != "" {
		flags += " --mcp " + connect.Quoted(f.MCP)
	}
	return flags
}

// ruleFlag is a flag of the gate's rules.
type ruleFlag struct {
	flag string
	list []string
}

func (f *PluginFlags) lists() []ruleFlag {
	return []ruleFlag{{"allow", f.Allow}, {"ask", f.Ask}, {"deny", f.Deny}}
}

func (f *PluginFlags) rules() gate.Options {
	return gate.Options{Allow: f.Allow, Ask: f.Ask, Deny: f.Deny}
}

// shipped is a plugin that is part of lash.
type shipped struct {
	name      string
	help      string
	inDefault bool // part of the default list
	rooted    bool // needs --root, and the gate before it
	build     func(*PluginFlags) (plugin.Factory, error)
}

func plain(f plugin.Factory) func(*PluginFlags) (plugin.Factory, error) {
	return func(*PluginFlags) (plugin.Factory, error) { return f, nil }
}

// shippedPlugins are the shipped plugins in stack order. Those of the program follow them.
func shippedPlugins() []shipped {
	return []shipped{
		{name: "history", help: "keeps prompts within the model's window, and compacts", inDefault: true, build: plain(history.Factory(history.Options{}))},
		{name: "budget", help: "shows long outputs in part, and the rest on demand", inDefault: true, build: plain(budget.Factory(budget.Options{}))},
		{name: "todo", help: "a list of steps for the model", inDefault: true, build: plain(todo.Factory())},
		{name: "plan_mode", help: "plan first, act once the plan is approved", inDefault: true, build: plain(planmode.Factory(planmode.Options{}))},
		{name: "subagent", help: "agents that work for the model", inDefault: true, build: plain(subagent.Factory(subagent.Config{}))},
		{name: "gate", help: "asks before calls that must not run twice, or by --allow, --ask and --deny", inDefault: true, build: func(f *PluginFlags) (plugin.Factory, error) {
			return gate.Factory(gate.Config{Options: f.rules(), Root: f.Root}), f.rules().Check()
		}},
		{name: "files", help: "read, write, edit, list and search files below --root", rooted: true, build: func(f *PluginFlags) (plugin.Factory, error) {
			return files.Factory(files.Config{Root: f.Root, Rules: f.rules()})
		}},
		{name: "shell", help: "commands in --root, with the rights of the node", rooted: true, build: func(f *PluginFlags) (plugin.Factory, error) {
			return shell.Factory(shell.Config{Dir: f.Root, Timeout: f.CommandTimeout})
		}},
		{name: "background", help: "commands and monitors in --root that outlive a turn, with the rights of the node", rooted: true, build: func(f *PluginFlags) (plugin.Factory, error) {
			return background.Factory(background.Config{Dir: f.Root}), nil
		}},
		{name: "timer", help: "lets the model wait, for seconds or for days, without a node that waits", build: plain(timer.Factory(timer.Config{}))},
		{name: "tool_search", help: "lets the model find tools that are searchable, and call what it found", build: plain(toolsearch.Factory())},
	}
}

// available are the plugins that --plugins accepts, in stack order.
func (cfg Config) available() []shipped {
	list := shippedPlugins()
	for _, f := range cfg.Plugins {
		list = append(list, shipped{name: f.ID(), help: "of this program", inDefault: true, build: plain(f)})
	}
	return list
}

// check refuses plugins and providers whose ids are no valid or unique flag values.
func (cfg Config) check() error {
	var errs []error
	used := map[string]bool{"": true, "default": true, "none": true}
	for _, p := range cfg.available() {
		if used[p.name] || strings.ContainsAny(p.name, ", \t\n") {
			errs = append(errs, fmt.Errorf("plugin %q: want an id of its own, without commas and spaces", p.name))
		}
		used[p.name] = true
	}
	used = map[string]bool{"": true}
	for _, p := range cfg.Providers {
		if used[p.ID()] {
			errs = append(errs, fmt.Errorf("provider %q: want an id of its own", p.ID()))
		}
		used[p.ID()] = true
	}
	return errors.Join(errs...)
}

func (cfg Config) defaultPlugins() (names []string) {
	for _, p := range cfg.available() {
		if p.inDefault {
			names = append(names, p.name)
		}
	}
	return names
}

// Help implements [kong.HelpProvider].
func (c *Command) Help() string {
	return ModelsHelp + c.adds.PluginsHelp() + c.adds.providersHelp() + "\nlash-node config prints a file of further settings. What the gate asks is answered with lash-node approvals and lash-node approve."
}

// PluginsHelp lists the values of --plugins, one a line.
func (cfg Config) PluginsHelp() string {
	var b strings.Builder
	b.WriteString("Plugins:\n\n")
	for _, p := range cfg.available() {
		fmt.Fprintf(&b, "  %-11s %s\n", p.name, p.help)
	}
	fmt.Fprintf(&b, "  %-11s %s\n  %-11s no plugin\n", "default", strings.Join(cfg.defaultPlugins(), ","), "none")
	return b.String()
}

// providersHelp lists the model providers that a program adds; empty where it adds none.
func (cfg Config) providersHelp() string {
	if len(cfg.Providers) == 0 {
		return ""
	}
	names := make([]string, len(cfg.Providers))
	for i, p := range cfg.Providers {
		names[i] = p.ID()
	}
	return fmt.Sprintf("\nModel providers of this program: %s. The default of --provider is %s.\n", strings.Join(names, ", "), names[0])
}

// chosen expands the list of --plugins to names.
func (c *Command) chosen() ([]string, error) {
	var names, known []string
	for _, p := range c.adds.available() {
		known = append(known, p.name)
	}
	for _, name := range c.Plugins {
		switch {
		case name == "default":
			names = append(names, c.adds.defaultPlugins()...)
		case name == "none" && len(c.Plugins) == 1:
		case slices.Contains(known, name):
			names = append(names, name)
		case strings.HasSuffix(name, ".json") || strings.ContainsAny(name, `/\`):
			return nil, fmt.Errorf("--plugins: %q is no plugin: did you mean --set external-plugins=%s of lash-node serve?", name, connect.Quoted(name))
		default:
			return nil, fmt.Errorf("--plugins: %q is no plugin: want %s, default or none alone", name, strings.Join(known, ", "))
		}
	}
	return names, nil
}

// plugins are the stack of every session of the node, without the external plugins.
func (c *Command) plugins(s *program.Streams) (cfg plugin.BuilderConfig, err error) {
	names, err := c.chosen()
	if err != nil {
		return cfg, err
	}
	gated := slices.Contains(names, gate.ID)
	if !gated && len(c.Allow)+len(c.Ask)+len(c.Deny) > 0 {
		return cfg, errors.New("--allow, --ask and --deny are the gate's rules: add gate to --plugins")
	}
	if gated {
		if err := c.checkRules(); err != nil {
			return cfg, err
		}
	}
	cfg.Builtins = workers.Builtins()
	for _, p := range c.adds.available() {
		switch {
		case !slices.Contains(names, p.name):
			continue
		case p.rooted && c.Root == "":
			return cfg, fmt.Errorf("--plugins %s: needs --root DIR", p.name)
		case p.rooted && !gated:
			s.Printf("%s without gate: what it changes is not asked about", p.name)
		}
		if p.rooted {
			if info, err := os.Stat(c.Root); err != nil {
				return cfg, fmt.Errorf("--plugins %s: --root: %w", p.name, err)
			} else if !info.IsDir() {
				return cfg, fmt.Errorf("--plugins %s: --root: %s is no directory", p.name, c.Root)
			}
		}
		factory, err := p.build(&c.PluginFlags)
		if err != nil {
			return cfg, fmt.Errorf("--plugins %s: %w", p.name, err)
		}
		cfg.Factories = append(cfg.Factories, factory)
	}
	_, err = plugin.NewBuilder(cfg) // which checks it
	return cfg, err
}
