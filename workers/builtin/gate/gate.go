// Package gate requires an approval for calls before they run. Host clients list the questions and answer them, at
// any time and from any process. Rules decide which calls run at once, which wait for an answer, and which never run.
// Without a rule, tools that must not run twice need an approval, such as those that write files and run commands.
// Tools that read or may be repeated run.
//
// Guarantees: what runs is what the rules judged, because the gate sees the arguments after all hooks that replace them,
// and a question shows the same. Paths are judged by the place where they lead, which is in the question and in the history: the
// tools of files and commands work there, or refuse the call if the path leads elsewhere by then, on any node. A call is refused that has its command, path or cwd more than once, also where the case
// differs: its tool may read another one than the rules. A call that waits has not started, and waits through the death
// of its node. The first answer counts. The result of a refused call tells the model so. The rules of a session bind its agents too; their questions are in
// their own sessions. Rules help a careful user and are no sandbox: a command that is allowed can do anything. The
// package imports session/plugin, session/pattern and events.
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

// ID names the plugin in histories and in its questions.
const ID = "gate"

// Options of the plugin. The options of a session replace those of the node, except that the node's Deny always
// applies.
//
// A rule is the name of a tool, or the name, a colon and a pattern for the command or path of the call. In both * stands
// for any text: "read_file", "write_file:docs/*", "run_command:go test *", "github__*". "*" is every tool. Deny has
// priority over Allow, and Allow over Ask. In an Allow rule for a command, * does not match operators of the shell,
// so that no second command can follow the allowed one.
//
// Rules for paths apply to the file, not to the spelling: Deny and Ask match if they match the path of the call or
// the path that links lead to; Allow must match both. Deny ignores case in paths, because some filesystems do. Deny
// and Ask also apply to the directory of a command, with a / at its end. A hard link counts as a file of its own: it
// cannot be told from the file that a rule names.
type Options struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Check reports rules that can never match.
func (o Options) Check() error {
	var errs []error
	for _, of := range []struct {
		name string
		list []string
	}{{"allow", o.Allow}, {"ask", o.Ask}, {"deny", o.Deny}} {
		for _, rule := range of.list {
			tool, pattern, found := strings.Cut(rule, ":")
			switch err := events.CheckToken("tool", strings.ReplaceAll(tool, "*", "x")); {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: rule %q: want TOOL or TOOL:PATTERN: %w", of.name, rule, err))
			case found && pattern == "":
				errs = append(errs, fmt.Errorf("%s: rule %q: the pattern is empty", of.name, rule))
			}
		}
	}
	return errors.Join(errs...)
}

// Config configures the plugin.
type Config struct {
	Options
	Root string // directory of relative paths in an environment without one. Empty: links are not followed, and no places are recorded
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

func (g gate) Register(r *plugin.Registrar) error {
	r.AuthorizeToolCall(g.decide)
	return nil
}

func (g gate) decide(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
	s, err := g.subjectOf(in)
	if err != nil {
		return nil, err
	}
	switch {
	case s.twice != "":
		return []plugin.Directive{plugin.Abort(ID, in.Tool+" has the argument "+s.twice+" more than once")}, nil
	case g.o.denies(in.Tool, s):
		return []plugin.Directive{plugin.Abort(ID, in.Tool+" is not allowed here"+s.text())}, nil
	case g.o.allows(in.Tool, s):
		return s.judged(), nil
	case g.o.requiresApproval(in.Tool, s):
		return s.asked(in.Tool), nil
	}
	state, err := in.Host.SnapshotCurrent(ctx)
	if err != nil {
		return nil, err
	}
	if tool, known := state.Catalog.Tool(in.Tool); !known || tool.Effects.Repeatable() {
		return s.judged(), nil
	}
	return s.asked(in.Tool), nil
}

// judged records where the paths of a call that may run lead.
func (s subject) judged() []plugin.Directive {
	if len(s.places) == 0 {
		return nil
	}
	return []plugin.Directive{plugin.JudgePlaces(s.places)}
}

// asked makes the call wait for an approval.
func (s subject) asked(tool string) []plugin.Directive {
	question := "Let " + tool + " run?" + s.text()
	if len(s.cwd) > 0 {
		question += ", in " + shown(s.cwd)
	}
	if s.environment != "" {
		question += ", in the environment " + s.environment
	}
	return append(s.judged(), plugin.Ask(question))
}

// maxShown limits a command, and each name of a file, in a question, in bytes. The question has the whole call too.
const maxShown = 500

func (s subject) text() string {
	switch {
	case len(s.command) > maxShown:
		return " " + strings.ToValidUTF8(s.command[:maxShown], "") + " …"
	case s.command != "":
		return " " + s.command
	case len(s.paths) > 0:
		return " " + shown(s.paths)
	}
	return ""
}

// shown are the names of a file. The middle of a long one is left out: its end says where the file is.
func shown(names []string) string {
	short := make([]string, len(names))
	for i, name := range names {
		if short[i] = name; len(name) > maxShown {
			short[i] = strings.ToValidUTF8(name[:maxShown/2]+" … "+name[len(name)-maxShown/2:], "")
		}
	}
	return strings.Join(short, ", which is ")
}

// operators are characters with which a command can do more than its first words say.
const operators = ";&|<>$`(){}\\\n\r"

// match reports whether a text matches a pattern; plain: its * does not match operators.
func match(p, text string, plain bool) bool {
	if plain {
		return pattern.Match(p, text, operators)
	}
	return pattern.Match(p, text, "")
}
