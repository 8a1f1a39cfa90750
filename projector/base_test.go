package projector_test

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// copyOf is a session that starts with a base.
func copyOf(t interface{ Fatal(...any) }, st store, id events.SessionID, s *projector.State) *projector.State {
	base, fresh, err := s.EncodeBase()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range fresh {
		st[body.Ref] = body.Data
	}
	ref := projector.RefOf(base)
	st[ref] = base
	c, first := projector.New(id), firstOf(id, s, ref)
	if missing := new(projector.MissingBaseError); !errors.As(c.Apply(first), &missing) || missing.Ref != ref || c.Seq != 0 {
		t.Fatal("a first commit without its base: want a missing base and the state as before")
	}
	if c.NeedsBase(first.Commit) != ref {
		t.Fatal("the commit does not say what it needs")
	}
	if err := c.AttachBase(ref, base); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(first); err != nil {
		t.Fatal(err)
	}
	st.complete(t, c)
	return c
}

func firstOf(id events.SessionID, s *projector.State, base events.BlobRef) events.Entry {
	return events.Entry{Seq: 1, Commit: &events.Commit{Session: id, At: 5000, Events: []events.Event{events.Of("", &events.SessionOpened{
		Forked: events.ForkedFrom{Session: s.Session, Leaf: s.Leaf, Seq: s.Seq}, Base: base,
	})}}}
}

func (st store) complete(t interface{ Fatal(...any) }, s *projector.State) {
	for missing := s.Missing(); len(missing) > 0; missing = s.Missing() {
		for _, ref := range missing {
			if err := s.Attach(ref, st[ref]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func allNodes(t interface{ Fatal(...any) }, s *projector.State) []*projector.Node {
	list, err := s.AllNodes()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sameConversation compares a copy's conversation with its ancestor's.
func sameConversation(t *rapid.T, c, s *projector.State, nodes []*projector.Node) {
	if got, want := nodeIDs(allNodes(t, c)), nodeIDs(nodes); !slices.Equal(got, want) {
		t.Fatalf("nodes: got %v, want %v", got, want)
	}
	for i, n := range allNodes(t, c) {
		if n.Frame != nodes[i].Frame || n.Parent != nodes[i].Parent || n.At != nodes[i].At || n.Seq != 1 || n.Turn != "" || n.Key != "" {
			t.Fatalf("node %s: got %+v, want the parent, frame and time of %+v, and nothing of its commit", n.ID, *n, *nodes[i])
		}
	}
	frames := slices.Clone(s.Frames)
	frames[0].ID = projector.InitialFrame(c.Session)
	a, _ := events.EncodePayload(c.Frames)
	if b, _ := events.EncodePayload(frames); !bytes.Equal(a, b) {
		t.Fatalf("frames: got %+v, want %+v", c.Frames, frames)
	}
	got, err := c.View()
	want, wantErr := s.View()
	if err != nil || wantErr != nil || !slices.Equal(transcript(got.Messages), transcript(want.Messages)) {
		t.Fatalf("messages: got %v, %v, want %v, %v", transcript(got.Messages), err, transcript(want.Messages), wantErr)
	}
	runtest.NoError(t, c.CheckBase(s))
}

// TestCopy copies random histories, as a whole and as the active path, copies the copies, and continues them from the
// fold and from snapshots.
func TestCopy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		st := store{}
		s := drive(t, 80, nil).s
		if rapid.Bool().Draw(t, "restored") {
			data := st.save(t, s)
			s = restore(t, data)
			st.complete(t, s)
		}
		path, err := s.Path()
		runtest.NoError(t, err)
		c := copyOf(t, st, "copy", s)
		sameConversation(t, c, s, allNodes(t, s))
		alone, err := s.PathOnly()
		runtest.NoError(t, err)
		fork := copyOf(t, st, "fork", alone)
		sameConversation(t, fork, s, path)
		sameConversation(t, copyOf(t, st, "again", c), c, allNodes(t, c))

		for i := range 80 { // more than the head keeps
			id := events.NodeID(rapid.StringMatching(`n[0-9]{12}`).Draw(t, "id"))
			m := message(string(id), events.RoleUser, text("x"))
			e := events.Entry{Seq: c.Seq + 1, Commit: &events.Commit{Session: "copy", At: events.Millis(i), Events: []events.Event{
				events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{ID: id, Kind: events.NodeMessage, Message: m}}}),
			}}}
			if n, err := c.Node(id); err != nil || n != nil {
				continue
			}
			runtest.NoError(t, c.Apply(e))
		}
		back := restore(t, st.save(t, c))
		st.complete(t, back)
		same(t, "a copy from its snapshot", head(t, back), head(t, c))
		for i, n := range allNodes(t, back) {
			if want := allNodes(t, c)[i]; n.ID != want.ID || n.Seq != want.Seq || n.Turn != want.Turn {
				t.Fatalf("node from a snapshot: got %+v, want %+v", *n, *want)
			}
		}
	})
}

// TestCopyCost: a copy uses stored bodies, however long the history is, and needs none of them loaded.
func TestCopyCost(t *testing.T) {
	t.Parallel()
	var sizes []int
	for _, n := range []int{200, 20_000} {
		h := begin(t)
		nodes := make([]events.NewNode, 0, 100)
		for i := range n {
			id := events.NodeID("m" + string(rune('a'+i%26)) + fmtInt(i))
			nodes = append(nodes, events.NewNode{ID: id, Kind: events.NodeMessage, Message: message(string(id), events.RoleUser, text("x"))})
			if len(nodes) == cap(nodes) {
				h.add("", &events.GraphAppended{Nodes: slices.Clone(nodes)})
				nodes = nodes[:0]
			}
		}
		data, _, err := h.Snapshot()
		runtest.NoError(t, err)
		s, err := projector.Restore(data)
		runtest.NoError(t, err)
		alone, err := s.PathOnly()
		runtest.NoError(t, err)
		base, fresh, err := alone.EncodeBase()
		if err != nil || len(fresh) != 0 {
			t.Fatalf("base of a session that is stored: got %d bodies to store, %v, want none", len(fresh), err)
		}
		sizes = append(sizes, len(base))
		h.branchTo("ma0")
		_, err = restoredPath(t, h)
		runtest.WantError(t, "path alone of a partial state with branches", err, projector.ErrPartial)
	}
	if sizes[1] > sizes[0]+8<<10 {
		t.Errorf("base of 20 000 nodes: got %d bytes, of 200 %d, want at most 8 KiB more", sizes[1], sizes[0])
	}
}

func restoredPath(t *testing.T, h *history) (*projector.State, error) {
	t.Helper()
	data, _, err := h.Snapshot()
	runtest.NoError(t, err)
	s, err := projector.Restore(data)
	runtest.NoError(t, err)
	return s.PathOnly()
}

func fmtInt(i int) string { return strconv.Itoa(i) }

// TestBaseOfAnother attaches a base that the commit does not name.
func TestBaseOfAnother(t *testing.T) {
	t.Parallel()
	h := chain(t, 3)
	base, _, err := h.EncodeBase()
	runtest.NoError(t, err)
	ref := projector.RefOf(base)
	s := projector.New("copy")
	runtest.WantError(t, "give with another reference", s.AttachBase(events.BlobRef{Digest: ref.Digest, Size: 1}, base), events.ErrMalformed)
	runtest.NoError(t, s.AttachBase(ref, base))
	other := projector.RefOf([]byte("other"))
	runtest.WantError(t, "apply with another base", s.Apply(firstOf("copy", h.State, other)), projector.ErrPartial)
	ahead := projector.New("copy")
	first := firstOf("copy", h.State, ref)
	ahead.ApplyUncommitted(&first.Commit.Events[0], 1)
	_, err = ahead.Path()
	runtest.WantError(t, "path of a copy that was folded ahead without its base", err, projector.ErrPartial)
}

// TestCheckBase distinguishes a base from another state of the same session.
func TestCheckBase(t *testing.T) {
	t.Parallel()
	st := store{}
	h := chain(t, 100)
	c := copyOf(t, st, "copy", h.Clone())
	runtest.WantError(t, "check base", c.CheckBase(h.State), nil)
	changes := map[string]func(*history){
		"a node more":     func(h *history) { h.say("more") },
		"a frame":         func(h *history) { h.add("", &events.FrameOpened{Frame: "f", Reason: "r"}) },
		"options":         func(h *history) { h.add("", &events.FrameConfigured{Options: []byte("1")}) },
		"another leaf":    func(h *history) { h.branchTo("m1") },
		"another history": func(h *history) { h.add("", &events.SessionClosed{}) },
	}
	for what, change := range changes {
		other := chain(t, 100)
		change(other)
		if err := c.CheckBase(other.State); err == nil {
			t.Errorf("%s: got none, want an error", what)
		}
		other.Seq = c.Forked.Seq
		if err := c.CheckBase(other.State); err == nil && what != "another history" {
			t.Errorf("%s at the same sequence: got none, want an error", what)
		}
	}
}
