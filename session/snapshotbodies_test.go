package session_test

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// TestSnapshotGivesNoBodies restores snapshots that refer to a body of another session, as each kind of caller: only a
// caller that reaches that session gets a state from them, as the owner of a copy could read the body.
func TestSnapshotGivesNoBodies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref, err := b.Host.StoreBlob(t.Context(), sid, []byte("only of the session"))
	runtest.NoError(t, err)
	part := events.Part{Kind: events.PartText, Blob: ref}
	if _, err := b.Host.AppendNodes(t.Context(), sid, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{part}}}}}); err != nil {
		t.Fatal(err)
	}
	whole, err := b.Host.State(t.Context(), sid)
	runtest.NoError(t, err)
	head, segments, err := whole.Clone().Snapshot()
	runtest.NoError(t, err)
	var bodies [][]byte
	for _, s := range segments {
		bodies = append(bodies, s.Data)
	}
	for name, c := range map[string]struct {
		caller api.Caller
		want   bool
	}{
		"all sessions":         {api.Caller{Reach: api.Reach{Scope: api.ScopeWrite}}, true},
		"its own sessions":     {api.Caller{Reach: api.Reach{Scope: api.ScopeWrite, Own: true}}, false},
		"sessions of a call":   {api.Caller{Reach: api.Reach{Scope: api.ScopeWrite}, Within: func(s *projector.State) bool { return s.Session == "hers" }}, false},
		"this session's call":  {api.Caller{Reach: api.Reach{Scope: api.ScopeWrite}, Within: func(s *projector.State) bool { return s.Session == sid }}, true},
		"its own, and no call": {api.Caller{Reach: api.Reach{Scope: api.ScopeWrite, Own: true}, Within: func(*projector.State) bool { return false }}, false},
	} {
		c.caller.Name = "eve"
		ctx := api.WithCaller(t.Context(), c.caller, operation.Create.Needs, "")
		if s, err := b.Host.RestoreSnapshot(ctx, head, bodies); (err == nil) != c.want {
			t.Errorf("%s: got %v, %v, want a state: %v", name, s != nil, err, c.want)
		}
	}
}

// TestSnapshotHasSegmentsOfItsSession restores snapshots without their segments, which are stored or not: those of the snapshot's session are
// found, and no other session's.
func TestSnapshotHasSegmentsOfItsSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const other events.SessionID = "other"
	_, err := b.Host.Create(t.Context(), api.CreateRequest{ID: other})
	runtest.NoError(t, err)
	var nodes []api.AppendNode
	for range 3 * projector.SegmentNodes {
		nodes = append(nodes, api.AppendNode{Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "a text"}}}})
	}
	_, err = b.Host.AppendNodes(t.Context(), other, api.AppendNodesRequest{Nodes: nodes})
	runtest.NoError(t, err)
	whole, err := b.Host.State(t.Context(), other)
	runtest.NoError(t, err)
	head, segments, err := whole.Snapshot()
	if err != nil || len(segments) == 0 {
		t.Fatalf("got %d segments, %v", len(segments), err)
	}
	whole.Session = sid
	moved, _, err := whole.Snapshot()
	runtest.NoError(t, err)
	ctx := api.WithCaller(t.Context(), api.Caller{Name: "eve", Reach: api.Reach{Scope: api.ScopeAdmin}}, operation.Create.Needs, "")
	for range 2 { // it stores those that it finds
		if s, err := b.Host.RestoreSnapshot(ctx, head, nil); err != nil || s.Nodes != int64(len(nodes)) {
			t.Errorf("its own segments: got %v", err)
		}
	}
	_, err = b.Host.RestoreSnapshot(ctx, moved, nil)
	runtest.WantError(t, "another session's segments", err, events.ErrInvalid)
}
