package projector_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// snapshotOf encodes a chain of n messages.
func snapshotOf(t *testing.T, n int) (*history, []byte, []projector.Segment) {
	t.Helper()
	h := chain(t, n)
	data, segments, err := h.Snapshot()
	runtest.NoError(t, err)
	return h, data, segments
}

// TestSnapshotSize: the head's size does not depend on the length of the history.
func TestSnapshotSize(t *testing.T) {
	t.Parallel()
	_, short, _ := snapshotOf(t, 2*projector.SegmentNodes)
	_, long, segments := snapshotOf(t, 2*projector.SegmentNodes+64*projector.SegmentNodes)
	if got, want := len(segments), 65+1; got != want { // plus a page of 64
		t.Errorf("segments: got %d, want %d", got, want)
	}
	if limit := 2*len(short) + 64*100; len(long) > limit {
		t.Errorf("long head: got %d bytes, want at most %d", len(long), limit)
	}
}

// TestSnapshotOnce: a segment is returned once.
func TestSnapshotOnce(t *testing.T) {
	t.Parallel()
	h, first, segments := snapshotOf(t, 200)
	again, fresh, err := h.Snapshot()
	if err != nil || len(fresh) != 0 || !bytes.Equal(first, again) {
		t.Errorf("second snapshot: got %d segments, %v, same head %v, want none and the same", len(fresh), err, bytes.Equal(first, again))
	}
	s, err := projector.Restore(first)
	runtest.NoError(t, err)
	var refs []events.BlobRef
	for _, seg := range segments {
		refs = append(refs, seg.Ref)
	}
	runtest.EqualLists(t, "missing", s.Missing(), refs)
	if _, fresh, err := s.Snapshot(); err != nil || len(fresh) != 0 {
		t.Errorf("snapshot of a restored state: got %d segments, %v, want none", len(fresh), err)
	}
}

// TestSnapshotOfTurn restores the open and answered requests of a running turn.
func TestSnapshotOfTurn(t *testing.T) {
	t.Parallel()
	h := working(t)
	h.add("t1", &events.ModelCompleted{Key: "k", Request: "r", Source: "p", Stop: events.StopEnd, Parts: []events.Part{text("direct")}})
	h.add("t1", &events.ToolApprovalAsked{Effect: "t1/0/1", Tool: "t", Args: []byte("{}"), Plugin: "p", Question: "really?", Until: 7})
	h.add("t1", &events.ToolApprovalGiven{Effect: "t1/0/1", Granted: true, By: "b"})
	h.add("t1", &events.ToolApprovalAsked{Effect: "t1/0/1/x", Tool: "t", Plugin: "p", Question: "again?"})
	data, _, err := h.Snapshot()
	runtest.NoError(t, err)
	s, err := projector.Restore(data)
	runtest.NoError(t, err)
	got, want := s.Turn(), h.Turn()
	if len(want.Asks) != 2 || len(want.Direct) != 1 || !reflect.DeepEqual(got.Asks, want.Asks) || !reflect.DeepEqual(got.Direct, want.Direct) {
		t.Errorf("got %+v and %+v, want %+v and %+v", got.Asks, got.Direct, want.Asks, want.Direct)
	}
	if !s.Turn().WaitsForApproval("t1/0/1") {
		t.Error("the second question is gone")
	}
}

// TestPartial: only questions that need the body return ErrPartial.
func TestPartial(t *testing.T) {
	t.Parallel()
	h, data, segments := snapshotOf(t, 200)
	s, err := projector.Restore(data)
	runtest.NoError(t, err)
	for name, ask := range map[string]func() error{
		"Path":     func() error { _, err := s.Path(); return err },
		"PathTo":   func() error { _, err := s.PathTo("m0"); return err },
		"OnPath":   func() error { _, err := s.OnPath("m0"); return err },
		"Node":     func() error { _, err := s.Node("m0"); return err },
		"AllNodes": func() error { _, err := s.AllNodes(); return err },
		"FreeID":   func() error { _, err := s.FreeID("m0", nil); return err },
		"Orphaned": func() error { _, _, err := s.Orphaned(); return err },
		"Appended": func() error { _, err := s.Appended("k"); return err },
		"Record":   func() error { _, err := s.Record("t"); return err },
		"Records":  func() error { _, err := s.Records(); return err },
		"Settled":  func() error { _, err := s.Settled("i"); return err },
		"Asked":    func() error { _, _, err := s.FindRequest("k"); return err },
		"Prompt":   func() error { _, err := s.Prompt(); return err },
		"View":     func() error { _, err := s.View(); return err },
		"Rewrite":  func() error { _, _, _, err := s.Rewrite(nil); return err },
		"Check":    s.Check,
	} {
		runtest.WantError(t, name, ask(), projector.ErrPartial)
	}
	for _, seg := range segments {
		runtest.NoError(t, s.Attach(seg.Ref, seg.Data))
	}
	if got, want := path(t, s), path(t, h.State); !slices.Equal(got, want) {
		t.Errorf("path: got %v, want %v", got, want)
	}
	runtest.WantError(t, "check", s.Check(), nil)
}

// TestAttach: other data than the segment is refused and changes nothing.
func TestAttach(t *testing.T) {
	t.Parallel()
	_, data, segments := snapshotOf(t, 200)
	s, err := projector.Restore(data)
	runtest.NoError(t, err)
	clone := s.Clone()
	garbage := []byte("no segment")
	for name, err := range map[string]error{
		"other":   s.Attach(segments[0].Ref, segments[1].Data),
		"cut":     s.Attach(segments[0].Ref, segments[0].Data[1:]),
		"nothing": s.Attach(segments[0].Ref, nil),
	} {
		runtest.WantError(t, name, err, events.ErrMalformed)
	}
	runtest.WantError(t, "a body that is no segment of the state", s.Attach(projector.RefOf(garbage), garbage), nil)
	if got, want := len(s.Missing()), len(segments); got != want {
		t.Fatalf("missing: got %d, want %d", got, want)
	}
	for range 2 { // a second attach changes nothing
		runtest.NoError(t, s.Attach(segments[1].Ref, segments[1].Data))
	}
	if got, want := len(s.Missing()), len(segments)-1; got != want {
		t.Errorf("missing: got %d, want %d", got, want)
	}
	if got, want := len(clone.Missing()), len(segments); got != want {
		t.Errorf("missing of the clone: got %d, want %d", got, want)
	}
}

// TestAttachGarbage: a damaged segment is refused.
func TestAttachGarbage(t *testing.T) {
	t.Parallel()
	garbage := []byte("\x81\xa1n")
	ref := projector.RefOf(garbage)
	head := encodedAny(t, &struct {
		Fold     int64            `msgpack:"v"`
		Head     projector.Head   `msgpack:"h"`
		Segments []events.BlobRef `msgpack:"s"`
	}{projector.FoldVersion, projector.New(sid).Head, []events.BlobRef{ref}})
	s, err := projector.Restore(head)
	runtest.NoError(t, err)
	runtest.WantError(t, "attach", s.Attach(ref, garbage), events.ErrMalformed)
	runtest.Equal(t, "missing", len(s.Missing()), 1)
}

// TestRestoreRefuses other fold versions and malformed snapshots.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	old := encodedAny(t, &struct {
		Fold int64 `msgpack:"v"`
	}{projector.FoldVersion + 1})
	h, data, _ := snapshotOf(t, 3)
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"newer", old, projector.ErrOldFold},
		{"none", encodedAny(t, &struct{}{}), projector.ErrOldFold},
		{"empty", nil, events.ErrMalformed},
		{"cut", data[:len(data)-1], events.ErrMalformed},
		{"trailing", append(slices.Clone(data), 0), events.ErrMalformed},
		{"text", []byte("no snapshot"), events.ErrMalformed},
		{"initial nodes below zero", spoiled(t, h.State, func(s *projector.State) { s.Frames[0].Seeds = -1 }), events.ErrMalformed},
		{"copied nodes below zero", spoiled(t, h.State, func(s *projector.State) { s.Copied = -1 }), events.ErrMalformed},
		{"copied nodes above all", spoiled(t, h.State, func(s *projector.State) { s.Copied = s.Nodes + 1 }), events.ErrMalformed},
	}
	for _, tt := range tests {
		_, err := projector.Restore(tt.data)
		runtest.WantError(t, tt.name, err, tt.want)
	}
}

// spoiled is the snapshot of a state that spoil changed.
func spoiled(t *testing.T, s *projector.State, spoil func(*projector.State)) []byte {
	t.Helper()
	c := s.Clone()
	c.Frames = slices.Clone(c.Frames)
	spoil(c)
	data, _, err := c.Snapshot()
	runtest.NoError(t, err)
	return data
}

// FuzzRestore: Restore returns a usable state or an error.
func FuzzRestore(f *testing.F) {
	h := begin(&testing.T{}).say("a", "b")
	data, _, err := h.Snapshot()
	runtest.NoError(f, err)
	f.Add(data)
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := projector.Restore(data)
		if err != nil {
			return
		}
		_ = s.Check()
		_, _ = s.Prompt()
		_, _ = s.View()
		_, _ = s.FreeID("a", nil)
		_, _, err = s.Snapshot()
		runtest.WantError(t, "snapshot of what was restored", err, nil)
	})
}

// TestUnproven: a state for readers is that of a node without the tree of the commits, and has no snapshot.
func TestUnproven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := drive(t, 40, nil)
		s := projector.NewUnproven(sid)
		for _, e := range d.log {
			runtest.NoError(t, s.Apply(e))
		}
		runtest.WantError(t, "check", s.Clone().Check(), nil)
		_, _, err := s.Clone().Snapshot()
		runtest.WantError(t, "snapshot", err, projector.ErrOutOfOrder)
		got, want := s.Head, d.s.Head
		if got.Proof.Tree.Size() != 0 {
			t.Errorf("got a tree of %d commits, want none", got.Proof.Tree.Size())
		}
		got.Stored = want.Stored // as the tree, of commits
		if got.Proof.Tree = want.Proof.Tree; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
