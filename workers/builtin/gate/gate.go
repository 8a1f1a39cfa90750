// Package gate lets somebody approve calls before they run: host clients list
// the questions and answer them, at any time and from any process. Rules say
// which calls run at once, which wait for an answer, and which never run.
// Where no rule speaks, tools that must not run twice ask, as what writes files
// and runs commands does; what reads and what may be repeated runs.
//
// Guarantees: a call that waits has not begun, and waits through the death of
// its node; the first answer counts. A refused call is a result that the model
// reads. Agents are held to the rules of the session that they work for, and
// ask in their own. Rules are hints to a careful user, no sandbox: a command that is
// allowed may do whatever it can. It imports session/plugin, session/pattern and events.
package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/pattern"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories, and as who asks.
const ID = "gate"

// Options of the plugin. A session may have its own, which stand in place of
// these; what the node denies stays denied.
//
// A rule is the name of a tool, or the name, a colon and a pattern for the
// call's command or path, in which * stands for any text: "read_file",
// "write_file:docs/*", "run_command:go test *". "*" is every tool. Deny goes
// before Allow, Allow before Ask. In Allow the * of a command stands for text
// without operators of the shell, so that no second command hides behind the
// first.
//
// A path is a file, whatever the call names it by: Deny and Ask hold if they match
// the path as it was given or the one that links lead to, Allow if it matches
// both. Deny tells no case apart in paths, as some filesystems do not. The directory that a command
// runs in is under Deny and Ask too, with a / at its end. A hard link is a file of its
// own: nothing tells it from the one that a rule means.
type Options struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Check finds rules that can never be meant.
func (o Options) Check() error {
	var errs []error
	for _, of := range []struct {
		name string
		list []string
	}{{"allow", o.Allow}, {"ask", o.Ask}, {"deny", o.Deny}} {
		for _, rule := range of.list {
			tool, pattern, found := strings.Cut(rule, ":")
			switch err := events.CheckToken("tool", tool); {
			case tool != "*" && err != nil:
				errs = append(errs, fmt.Errorf("%s: rule %q: want TOOL or TOOL:PATTERN: %w", of.name, rule, err))
			case found && pattern == "":
				errs = append(errs, fmt.Errorf("%s: rule %q: the pattern is empty", of.name, rule))
			}
		}
	}
	return errors.Join(errs...)
}

// Config of the plugin.
type Config struct {
	Options
	Root string // directory that paths are relative to. Defaults to none: links are not followed
}

// Factory builds the plugin.
func Factory(cfg Config) plugin.Factory {
	return plugin.New(ID, func(in plugin.BuildContext) (plugin.Plugin, error) {
		o, err := OptionsFor(in, cfg.Options)
		return gate{o, cfg.Root}, errors.Join(err, o.Check())
	})
}

type gate struct {
	o    Options
	root string
}

// Register implements [plugin.Plugin].
func (g gate) Register(r *plugin.Registrar) error {
	r.BeforeToolCall(g.decide)
	return nil
}

func (g gate) decide(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
	s := subjectOf(g.root, in.Args)
	switch {
	case g.o.denies(in.Tool, s):
		return []plugin.Directive{plugin.Abort(ID, in.Tool+" is not allowed here"+s.shown())}, nil
	case g.o.allows(in.Tool, s):
		return nil, nil
	case g.o.asks(in.Tool, s):
		return ask(in.Tool, s), nil
	}
	state, err := in.Host.SnapshotCurrent(ctx)
	if err != nil {
		return nil, err
	}
	if tool, known := state.Catalog.Tool(in.Tool); !known || tool.Effects.Repeatable() {
		return nil, nil
	}
	return ask(in.Tool, s), nil
}

func ask(tool string, s subject) []plugin.Directive {
	return []plugin.Directive{plugin.Ask("Let " + tool + " run?" + s.shown())}
}

// maxShown bounds what a question shows, in bytes. The whole stands beside it.
const maxShown = 500

func (s subject) shown() string {
	text := s.command
	if text == "" && len(s.paths) > 0 {
		text = strings.Join(s.paths, ", which is ")
	}
	switch {
	case text == "":
		return ""
	case len(text) > maxShown:
		return " " + strings.ToValidUTF8(text[:maxShown], "") + " …"
	}
	return " " + text
}

// operators let a command do more than its first words say.
const operators = ";&|<>$`(){}\\\n\r"

// match reports whether a text is what a pattern means; plain keeps operators out of what its * stand for.
func match(p, text string, plain bool) bool {
	if plain {
		return pattern.Match(p, text, operators)
	}
	return pattern.Match(p, text, "")
}
