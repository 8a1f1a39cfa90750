// Package builtintest builds a shipped plugin without a node, and calls its tools as a worker does. Tests of the
// plugins decide with it what a plugin alone decides; package integration/system has whole sessions.
package builtintest

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// Build builds the stack of a session with the plugins, on the standard protocol unless they have the session's.
func Build(t *testing.T, in plugin.BuildContext, plugins ...plugin.Factory) *plugin.Stack {
	t.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: plugins})
	if err != nil {
		t.Fatal(err)
	}
	in.Session = "s"
	s, err := builder.BuildStack(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Call checks the arguments against the tool's schema, and runs the tool.
func Call(t *testing.T, s *plugin.Stack, call plugin.Call, tool, args string) (plugin.Result, error) {
	t.Helper()
	found, ok := s.Tools().Find(tool)
	if !ok {
		t.Fatalf("tool %s: not found", tool)
	}
	checked, err := found.Check([]byte(args))
	if err != nil {
		return plugin.Result{}, err
	}
	call.Session = "s"
	return found.Handler(t.Context(), call, checked)
}

// Refused checks that a call failed with a class, and a text in its message.
func Refused(t *testing.T, name string, err error, class, text string) {
	t.Helper()
	failure, ok := errors.AsType[*plugin.Failure](err)
	if !ok || failure.Class != class || !strings.Contains(failure.Message, text) {
		t.Errorf("%s: got %v, want a failure of class %s with %q", name, err, class, text)
	}
}

// Said is a message of text.
func Said(id events.MessageID, role events.Role, text string) events.Message {
	m := plugin.Say(role, text)
	m.ID = id
	return m
}

// State folds a session that was opened with a configuration and has the messages.
func State(t *testing.T, config events.Config, messages ...events.Message) *projector.State {
	t.Helper()
	s := projector.New("s")
	var nodes []events.NewNode
	for _, m := range messages {
		nodes = append(nodes, events.NewNode{ID: events.NodeID(m.ID), Kind: events.NodeMessage, Message: m})
	}
	list := []events.Event{events.Of("", &events.SessionOpened{Config: config})}
	if len(nodes) > 0 {
		list = append(list, events.Of("", &events.GraphAppended{Nodes: nodes}))
	}
	if err := s.Apply(events.Entry{Seq: 1, Commit: &events.Commit{Session: "s", At: 1, Events: list}}); err != nil {
		t.Fatal(err)
	}
	return s
}
