package projector_test

import (
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// TestFreeID checks how a used id is changed.
func TestFreeID(t *testing.T) {
	t.Parallel()
	h := begin(t).say("m1", "m1", "m1").note("p")
	if got, want := path(t, h.State), []events.NodeID{"m1", "message:m1", "message:m1:2", "p"}; !slices.Equal(got, want) {
		t.Errorf("path: got %v, want %v", got, want)
	}
	tests := []struct {
		name  string
		wish  events.NodeID
		taken map[events.NodeID]bool
		want  events.NodeID
	}{
		{"free", "m2", nil, "m2"},
		{"fourth", "m1", nil, "message:m1:3"},
		{"plugin", "p", nil, "message:p"},
		{"prefixed", "message:m1", nil, "message:message:m1"},
		{"request", "m2", map[events.NodeID]bool{"m2": true, "message:m2": true}, "message:m2:2"},
		{"both", "m1", map[events.NodeID]bool{"message:m1:3": true}, "message:m1:4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := h.Clone().FreeID(tt.wish, tt.taken)
			if err != nil || got != tt.want {
				t.Errorf("FreeID(%s): got %s, %v, want %s", tt.wish, got, err, tt.want)
			}
		})
	}
}

// TestPath walks branches.
func TestPath(t *testing.T) {
	t.Parallel()
	h := begin(t).say("a", "b", "c").branchTo("a").say("d").branchTo("").say("e").branchTo("c")
	tests := []struct {
		name string
		leaf events.NodeID
		want []events.NodeID
	}{
		{"first", "c", []events.NodeID{"a", "b", "c"}},
		{"second", "d", []events.NodeID{"a", "d"}},
		{"root", "e", []events.NodeID{"e"}},
		{"middle", "b", []events.NodeID{"a", "b"}},
		{"unknown", "x", []events.NodeID{}},
		{"none", "", []events.NodeID{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes, err := h.Clone().PathTo(tt.leaf)
			runtest.NoError(t, err)
			if got := nodeIDs(nodes); !slices.Equal(got, tt.want) {
				t.Errorf("PathTo(%s): got %v, want %v", tt.leaf, got, tt.want)
			}
		})
	}
	for id, want := range map[events.NodeID]bool{"a": true, "b": true, "c": true, "d": false, "e": false, "x": false, "": false} {
		if got, err := h.OnPath(id); err != nil || got != want {
			t.Errorf("OnPath(%q): got %v, %v, want %v", id, got, err, want)
		}
	}
	all, err := h.AllNodes()
	runtest.NoError(t, err)
	if got, want := nodeIDs(all), []events.NodeID{"a", "b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("nodes: got %v, want %v", got, want)
	}
}

// TestPathUnknownParent: an unknown parent ends the walk.
func TestPathUnknownParent(t *testing.T) {
	if projector.Invariants {
		t.Skip("this build does not let broken histories be folded")
	}
	t.Parallel()
	h := begin(t).say("a").branchTo("lost").say("b")
	if got, want := path(t, h.State), []events.NodeID{"b"}; !slices.Equal(got, want) {
		t.Errorf("path: got %v, want %v", got, want)
	}
	if err := h.Check(); err == nil {
		t.Error("check of a node below an unknown one: got nil, want an error")
	}
}

// TestOrphaned: a leaf that names no node is replaced.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		h        func(*history) *history
		leaf     events.NodeID
		orphaned bool
		path     []events.NodeID
	}{
		{"empty", func(h *history) *history { return h }, "", false, nil},
		{"sound", func(h *history) *history { return h.say("a", "b") }, "b", false, []events.NodeID{"a", "b"}},
		{"root", func(h *history) *history { return h.say("a").branchTo("") }, "", false, nil},
		{"newest_message", func(h *history) *history { return h.say("a", "b").branchTo("a").say("c").note("p").branchTo("x") }, "c", true, []events.NodeID{"a", "c"}},
		{"no_message", func(h *history) *history { return h.note("p").branchTo("x") }, "", true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := tt.h(begin(t))
			leaf, orphaned, err := h.Orphaned()
			if err != nil || leaf != tt.leaf || orphaned != tt.orphaned {
				t.Errorf("Orphaned: got %q, %v, %v, want %q, %v", leaf, orphaned, err, tt.leaf, tt.orphaned)
			}
			runtest.EqualLists(t, "path", path(t, h.State), tt.path)
		})
	}
}

// TestNodes checks the fields of an appended node.
func TestNodes(t *testing.T) {
	t.Parallel()
	h := begin(t).say("a")
	h.add("", &events.GraphAppended{Key: "k", Nodes: []events.NewNode{
		{ID: "p", Kind: events.NodePlugin, Type: "note", Body: []byte("{}")}, {ID: "q", Kind: events.NodeProtocol, Type: "step"},
	}})
	h.add("", &events.FrameOpened{Frame: "f2", Reason: "compaction"}).say("b")
	want := []projector.Node{
		{ID: "a", At: 101, Seq: 2, Kind: events.NodeMessage, Message: message("a", events.RoleUser, text("a"))},
		{ID: "p", Parent: "a", At: 102, Seq: 3, Kind: events.NodePlugin, Type: "note", Body: []byte("{}"), Key: "k"},
		{ID: "q", Parent: "p", At: 102, Seq: 3, Kind: events.NodeProtocol, Type: "step", Key: "k"},
		{ID: "b", Parent: "q", At: 104, Seq: 5, Frame: "f2", Kind: events.NodeMessage, Message: message("b", events.RoleUser, text("b"))},
	}
	for i := range want {
		n, err := h.Node(want[i].ID)
		if err != nil || n == nil {
			t.Fatalf("node %s: got %v, %v", want[i].ID, n, err)
		}
		if got, want := encodedAny(t, n), encodedAny(t, &want[i]); string(got) != string(want) {
			t.Errorf("node %s: got %q, want %q", n.ID, got, want)
		}
	}
	for key, want := range map[string][]events.NodeID{"k": {"p", "q"}, "other": nil} {
		if got, err := h.Appended(key); err != nil || !slices.Equal(got, want) {
			t.Errorf("Appended(%s): got %v, %v, want %v", key, got, err, want)
		}
	}
}

func encodedAny(t *testing.T, v any) []byte {
	t.Helper()
	data, err := events.EncodePayload(v)
	runtest.NoError(t, err)
	return data
}

// TestRewrite checks which prefix of a path stays.
func TestRewrite(t *testing.T) {
	t.Parallel()
	three := func(h *history) *history { return h.say("1", "2", "3") }
	noted := func(h *history) *history { return h.say("1").note("P").say("2").note("Q") }
	twice := func(h *history) *history { return h.say("1", "1", "2") }
	tests := []struct {
		name   string
		h      func(*history) *history
		target []string
		leaf   events.NodeID
		branch bool
		rest   []string
	}{
		{"same", three, []string{"1", "2", "3"}, "3", false, nil},
		{"longer", three, []string{"1", "2", "3", "4"}, "3", false, []string{"4"}},
		{"replaced", three, []string{"1", "3x"}, "1", true, []string{"3x"}},
		{"dropped", three, []string{"1", "3"}, "1", true, []string{"3"}},
		{"shorter", three, []string{"1", "2"}, "2", true, nil},
		{"nothing", three, nil, "", true, nil},
		{"all_new", three, []string{"x"}, "", true, []string{"x"}},
		{"note_kept", noted, []string{"1"}, "P", true, nil},
		{"last_note_kept", noted, []string{"1", "2"}, "Q", false, nil},
		{"note_lost", noted, []string{"1", "x"}, "P", true, []string{"x"}},
		{"repeated_skipped", twice, []string{"1", "2"}, "2", false, nil},
		{"repeated_kept", twice, []string{"1"}, "message:1", true, nil},
		{"empty", func(h *history) *history { return h }, []string{"1"}, "", false, []string{"1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var target []events.Message
			for _, id := range tt.target {
				target = append(target, message(id, events.RoleUser, text(id)))
			}
			leaf, branch, rest, err := tt.h(begin(t)).Rewrite(target)
			if err != nil || leaf != tt.leaf || branch != tt.branch {
				t.Errorf("Rewrite: got leaf %q, branch %v, %v, want %q, %v", leaf, branch, err, tt.leaf, tt.branch)
			}
			var ids []string
			for _, m := range rest {
				ids = append(ids, string(m.ID))
			}
			runtest.EqualLists(t, "rest", ids, tt.rest)
		})
	}
}
