package projector_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

func view(t *testing.T, s *projector.State) projector.ReadView {
	t.Helper()
	v, err := s.View()
	runtest.NoError(t, err)
	return v
}

// TestViewDedupe: of messages with one id the view shows the first.
func TestViewDedupe(t *testing.T) {
	t.Parallel()
	h := begin(t).append(message("m", events.RoleUser, text("first")))
	h.append(message("m", events.RoleUser, text("second"))).say("n")
	v := view(t, h.State)
	if got, want := transcript(v.Messages), []string{"user first", "user n"}; !slices.Equal(got, want) {
		t.Errorf("messages: got %v, want %v", got, want)
	}
	if got, want := nodeIDs(v.Nodes), []events.NodeID{"m", "message:m", "n"}; !slices.Equal(got, want) {
		t.Errorf("nodes: got %v, want %v", got, want)
	}
}

// TestViewStays: a view does not change with the state.
func TestViewStays(t *testing.T) {
	t.Parallel()
	h := begin(t).say("a", "b")
	v := view(t, h.State)
	h.say("c").branchTo("a").say("d")
	if got, want := nodeIDs(v.Nodes), []events.NodeID{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("nodes: got %v, want %v", got, want)
	}
	v.Nodes = append(v.Nodes, nil)
	if got, want := path(t, h.State), []events.NodeID{"a", "d"}; !slices.Equal(got, want) {
		t.Errorf("path: got %v, want %v", got, want)
	}
}

// TestFrames checks the nodes that each frame shows.
func TestFrames(t *testing.T) {
	t.Parallel()
	seed := func(ids ...events.NodeID) []events.NewNode {
		var list []events.NewNode
		for _, id := range ids {
			list = append(list, events.NewNode{ID: id, Kind: events.NodeMessage, Message: message(string(id), events.RoleUser, text(string(id)))})
		}
		return list
	}
	open := func(h *history, keep events.NodeID, nodes ...events.NewNode) *history {
		return h.add("", &events.FrameOpened{Frame: "f2", Reason: "compaction", Keep: keep, Nodes: nodes})
	}
	tests := []struct {
		name    string
		h       func(*history) *history
		visible []events.NodeID
		frame   events.FrameID
	}{
		{"initial", func(h *history) *history { return h }, []events.NodeID{"a", "p", "b"}, "s1:frame:initial"},
		{"fresh", func(h *history) *history { return open(h, "") }, []events.NodeID{}, "f2"},
		{"seeded", func(h *history) *history { return open(h, "", seed("s")...).say("c") }, []events.NodeID{"s", "c"}, "f2"},
		{"kept", func(h *history) *history { return open(h, "p", seed("s", "r")...).say("c") }, []events.NodeID{"s", "r", "p", "b", "c"}, "f2"},
		{"kept_last", func(h *history) *history { return open(h, "b").say("c") }, []events.NodeID{"b", "c"}, "f2"},
		{"kept_left_the_path", func(h *history) *history { return open(h, "b", seed("s")...).branchTo("a").say("c") }, []events.NodeID{"c"}, "f2"},
		{"same_again", func(h *history) *history {
			open(h, "").say("c")
			return open(h, "a", seed("s")...)
		}, []events.NodeID{"c"}, "f2"},
		{"third", func(h *history) *history {
			open(h, "b").say("c")
			return h.add("", &events.FrameOpened{Frame: "f3", Reason: "x", Keep: "c"}).say("d")
		}, []events.NodeID{"c", "d"}, "f3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := tt.h(begin(t).say("a").note("p").say("b"))
			v := view(t, h.State)
			runtest.EqualLists(t, "nodes", nodeIDs(v.Nodes), tt.visible)
			runtest.Equal(t, "frame", v.Frame.ID, tt.frame)
			var messages []string
			for _, id := range tt.visible {
				if id != "p" {
					messages = append(messages, "user "+string(id))
				}
			}
			runtest.EqualLists(t, "messages", transcript(v.Messages), messages)
			runtest.EqualLists(t, "prompt", transcript(prompt(t, h.State).Messages), messages)
			runtest.WantError(t, "check", h.Check(), nil)
		})
	}
}

// TestChronology lists messages, calls and other nodes.
func TestChronology(t *testing.T) {
	t.Parallel()
	h := begin(t).say("u").append(message("r1", events.RoleAssistant, text("let me"), call("k"), call("k"), call("open")))
	h.note("p").append(message("x1", events.RoleUser, result("k", "one"), result("k", "two")))
	h.append(message("r2", events.RoleAssistant, call("k"))).append(message("r2", events.RoleAssistant, call("again")))
	h.append(message("x2", events.RoleUser, events.Part{Kind: events.PartToolResult, Call: "k", Outcome: events.OutcomeFailure, Text: "three"}))
	list := view(t, h.State).Chronology()
	var got []string
	for i, c := range list {
		if c.Index != i {
			t.Errorf("index of entry %d: got %d", i, c.Index)
		}
		switch c.Kind {
		case projector.EntryMessage:
			got = append(got, "message "+string(c.Message.ID))
		case projector.EntryToolCall:
			got = append(got, fmt.Sprintf("call %s %v %s%s", c.Call.ID, c.Call.Done, c.Call.Outcome, c.Call.Text))
		case projector.EntryNode:
			got = append(got, "node "+string(c.Node.ID))
		}
	}
	want := []string{
		"message u", "message r1", "call k true one", "call k true two", "call open false ", "node p", "message x1",
		"message r2", "call k true failurethree", "message x2",
	}
	runtest.EqualLists(t, "entries", got, want)
}

// TestChronologyReusedID: a later reply that reuses an id does not change an unanswered call.
func TestChronologyReusedID(t *testing.T) {
	t.Parallel()
	h := begin(t).append(message("r1", events.RoleAssistant, call("k"))).append(message("r2", events.RoleAssistant, call("k")))
	h.append(message("x", events.RoleUser, result("k", "two")))
	list := view(t, h.State).Chronology()
	if first, second := list[1].Call, list[3].Call; first.Done || second.Text != "two" {
		t.Errorf("calls: got %v, %v, want the second answered", first, second)
	}
}
