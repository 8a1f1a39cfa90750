package internal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/nodes"
)

func message(id events.MessageID, text string) *events.Message {
	return &events.Message{ID: id, Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
}

// state is a session with the messages a and b.
func state(t *testing.T) *projector.State {
	t.Helper()
	s := projector.New("s")
	for i, p := range []events.Payload{
		&events.SessionOpened{},
		&events.GraphAppended{Nodes: []events.NewNode{
			{ID: "a", Kind: events.NodeMessage, Message: *message("a", "one")}, {ID: "b", Kind: events.NodeMessage, Message: *message("b", "two")},
		}},
	} {
		c := &events.Commit{
			ID: events.CommitID("c" + string(rune('1'+i))), Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"},
			Events: []events.Event{events.Of("", p)},
		}
		runtest.NoError(t, s.Apply(events.Entry{Seq: events.Seq(i + 1), Commit: c}))
	}
	return s
}

// TestNew gives each node an id that no node of the session and no waiting input has.
func TestNew(t *testing.T) {
	t.Parallel()
	s := state(t)
	s.Inputs = append(s.Inputs, projector.Input{ID: "i1"})
	got, err := nodes.New(s, []api.AppendNode{
		{Message: message("new", "x")},
		{Message: message("a", "x")},
		{Message: message("new", "x")},
		{Message: message(events.MessageID(projector.InputNode("i1")), "x")},
		{Message: message("shown", "x"), Transient: true},
		{Kind: events.NodePlugin, ID: "p", Type: "t"},
		{Message: message("", "x")},
		{Kind: events.NodePlugin, Type: "t"},
	})
	if err != nil || len(got) != 7 {
		t.Fatalf("got %d nodes, %v, want all but the transient one", len(got), err)
	}
	for i, want := range []events.NodeID{"new", "message:a", "message:new", "message:" + projector.InputNode("i1"), "p"} {
		if got[i].ID != want {
			t.Errorf("node %d: got id %s, want %s", i, got[i].ID, want)
		}
	}
	if id := got[5].ID; !strings.HasPrefix(string(id), "m") || string(id) != string(got[5].Message.ID) {
		t.Errorf("message without an id: got node %s of message %s, want one new id", id, got[5].Message.ID)
	}
	if id := got[6].ID; !strings.HasPrefix(string(id), "plugin:") {
		t.Errorf("plugin's node without an id: got %s, want plugin: and a new one", id)
	}
}

// TestTakenIDOfAPlugin refuses the id of another node, and names its place in the request. Messages get a free one.
func TestTakenIDOfAPlugin(t *testing.T) {
	t.Parallel()
	_, err := nodes.New(state(t), []api.AppendNode{{Message: message("c", "x")}, {Kind: events.NodePlugin, ID: "b", Type: "t"}})
	field, ok := errors.AsType[*events.FieldError](err)
	if !ok || field.Field != "id" || !errors.Is(err, events.ErrInvalid) || !strings.Contains(err.Error(), "nodes[1]") {
		t.Errorf("got %v, want a refusal of the id of nodes[1]", err)
	}
}

// TestHeal moves a leaf that names no node to the newest message, and leaves any other as it is.
func TestHeal(t *testing.T) {
	t.Parallel()
	s := state(t)
	if list, leaf, err := nodes.Heal(s); len(list) != 0 || leaf != "b" || err != nil {
		t.Errorf("whole: got %v, leaf %s, %v, want nothing to do", list, leaf, err)
	}
	s.Leaf = "gone"
	list, leaf, err := nodes.Heal(s)
	if err != nil || len(list) != 1 || leaf != "b" {
		t.Fatalf("got %v, leaf %s, %v, want a move to b", list, leaf, err)
	}
	if p, ok := list[0].Payload.(*events.GraphBranched); !ok || p.Leaf != "b" {
		t.Errorf("got %+v, want graph.branched to b", list[0].Payload)
	}
}
