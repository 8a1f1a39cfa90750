package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
)

// Environment is where commands and programs of sessions run, as the operator of a node defines it. Histories have its name
// alone: the shipped tools replace its directory and the values of its variables in what commands print.
type Environment struct {
	Name      string
	Dir       string            // of commands; paths of calls are relative to it. Empty: the tool's own
	Variables map[string]string // of commands
	ByCall    bool              // a call may name it where it is not the session's

	// Limits; 0 leaves them to what runs the command or the program.
	Timeout   time.Duration // of a command that sets none
	MaxTime   time.Duration // of a command
	MaxOutput int           // bytes of a command's output in a result
	CPU       time.Duration // processor time of each process of a command, in whole seconds
	Memory    int64         // bytes of data of each process of a command, and of a program
	CodeTime  time.Duration // of a program, without the time of tools
}

// Environments are those of a node, by name. There is always one with the name [events.DefaultEnvironment].
type Environments map[string]Environment

// Names are the names, sorted.
func (e Environments) Names() []string {
	names := slices.Collect(maps.Keys(e))
	if _, ok := e[events.DefaultEnvironment]; !ok {
		names = append(names, events.DefaultEnvironment)
	}
	slices.Sort(names)
	return names
}

// Find is the environment of a name; empty is the default. The error is a [*Failure], which has the names that there are.
func (e Environments) Find(name string) (Environment, error) {
	name = cmp.Or(name, events.DefaultEnvironment)
	found, ok := e[name]
	if !ok && name != events.DefaultEnvironment {
		return found, &Failure{
			Class: ClassUnavailable, Code: CodeUnknownEnvironment,
			Message: fmt.Sprintf("environment: this node has no %q, but %s", name, strings.Join(e.Names(), ", ")),
		}
	}
	found.Name = name
	return found, nil
}

// For is the environment of a call in a session: the one that the call names, if it may, or else the session's.
func (e Environments) For(session, named string) (Environment, error) {
	session = cmp.Or(session, events.DefaultEnvironment)
	if named == "" || named == session {
		return e.Find(session)
	}
	found, err := e.Find(named)
	if err == nil && !found.ByCall {
		err = InvalidArgs("environment: %q is not for calls to name; leave it out for the session's, %s", named, session)
	}
	return found, err
}

// Environment is where a command of the call runs: in the environment that the call names, or, where that is empty, in the
// session's. The error is a [*Failure].
func (c Call) Environment(named string) (Environment, error) {
	if c.Run.Environment == nil {
		return Environments(nil).For("", named)
	}
	return c.Run.Environment(named)
}
