package plugin

import (
	"fmt"
	"reflect"
)

// ToolsOf returns the tools of a factory whose plugin registers tools only, without options and without a session.
// Such a plugin can run as a program of its own. Another one is an error.
func ToolsOf(f Factory) (*Tools, error) {
	s := &Session{c: newContributions()}
	if err := s.register(f, BuildContext{}); err != nil {
		return nil, err
	}
	for _, m := range s.plugins {
		if _, stateful := m.plugin.(Stateful); stateful {
			return nil, fmt.Errorf("%w: plugin %s has a state in the session", ErrRegistration, f.ID())
		}
	}
	tools := s.c.tools
	rest := s.c
	rest.tools, rest.owners = NewTools(), make(map[string]string)
	if !reflect.DeepEqual(rest, newContributions()) {
		return nil, fmt.Errorf("%w: plugin %s registers more than tools", ErrRegistration, f.ID())
	}
	return tools, nil
}
