package session_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// asking is the context of a request by a caller with a scope that reaches every session.
func asking(ctx context.Context, scope api.Scope, op operation.Name) context.Context {
	c := api.Caller{Name: "bob", Reach: api.Reach{Scope: scope}}
	return api.WithRequestMeta(api.WithCaller(ctx, c, operation.Named()[op].Needs, sid), api.RequestMeta{Actor: "bob"})
}

// TestSystemStays sends every request that moves a conversation with system messages. Without the right to configure,
// the system messages stay at their place.
func TestSystemStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	says := func(id string, role events.Role) api.AppendNode {
		m := events.Message{ID: events.MessageID(id), Role: role, Parts: []events.Part{{Kind: events.PartText, Text: id}}}
		return api.AppendNode{Message: &m}
	}
	nodes := []api.AppendNode{says("a", events.RoleUser), says("b", events.RoleSystem), says("c", events.RoleUser)}
	if _, err := b.Host.AppendNodes(t.Context(), sid, api.AppendNodesRequest{Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	type move func(ctx context.Context) error
	branch := func(to events.NodeID) move {
		return func(ctx context.Context) error { return b.Host.BranchTo(ctx, sid, to) }
	}
	frame := func(keep events.NodeID) move {
		return func(ctx context.Context) error {
			_, err := b.Host.OpenFrame(ctx, sid, api.FrameRequest{Frame: "f-" + events.FrameID(keep), Keep: keep})
			return err
		}
	}
	moves := map[string]struct {
		move move
		op   operation.Name
	}{
		"branch_before": {branch("a"), operation.BranchTo.Name},
		"branch_none":   {branch(""), operation.BranchTo.Name},
		"frame":         {frame(""), operation.OpenFrame.Name},
		"frame_after":   {frame("c"), operation.OpenFrame.Name},
		"rewrite": {func(ctx context.Context) error {
			return b.Host.Rewrite(ctx, sid, []api.RewriteMessage{{Message: *says("x", events.RoleUser).Message}})
		}, operation.Rewrite.Name},
	}
	before := b.State()
	for name, m := range moves {
		if name == "frame" {
			m.move = func(ctx context.Context) error {
				_, err := b.Host.OpenFrame(ctx, sid, api.FrameRequest{Frame: "new"})
				return err
			}
		}
		runtest.WantError(t, name, m.move(asking(t.Context(), "read,write", m.op)), api.ErrForbidden)
		b.unchanged(before, name)
	}
	runtest.WantError(t, "to the message itself", branch("b")(asking(t.Context(), "read,write", operation.BranchTo.Name)), nil)
	for _, name := range slices.Sorted(maps.Keys(moves)) {
		if err := moves[name].move(asking(t.Context(), api.ScopeWrite, moves[name].op)); err != nil {
			t.Errorf("%s with the right to configure: %v", name, err)
		}
		runtest.NoError(t, branch("c")(t.Context()))
	}
}

// TestCopyIsHeldToWhatItsBaseIs copies a session with options and tool restrictions. A copy by a caller without the
// right to configure has them too.
func TestCopyIsHeldToWhatItsBaseIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.Host.Create(t.Context(), api.CreateRequest{
		ID: "base", Options: map[string]string{"gate": `{"deny":["x"]}`, "other": "{}"}, Access: events.ToolAccess{Hidden: []string{"x"}},
		Subagent: events.Subagent{Capability: "c", Depth: 1, MaxDepth: 2},
	})
	runtest.NoError(t, err)
	for id, req := range map[events.SessionID]api.CreateRequest{
		"fork":    {Start: api.StartExisting, From: "base"},
		"current": {Start: api.StartCurrent, Parent: "base"},
	} {
		req.ID = id
		if _, err := b.Host.Create(asking(t.Context(), "read,write", operation.Create.Name), req); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		s, err := b.Host.State(t.Context(), id)
		if err != nil || s.Options["gate"] != `{"deny":["x"]}` || s.Options["other"] != "{}" || !slices.Equal(s.Access.Hidden, []string{"x"}) || s.Subagent.MaxDepth != 2 {
			t.Errorf("%s: got options %v, access %v, subagent %v, %v", id, s.Options, s.Access, s.Subagent, err)
		}
	}
	own := api.CreateRequest{ID: "own", Start: api.StartExisting, From: "base", Options: map[string]string{"gate": "{}"}}
	_, err = b.Host.Create(asking(t.Context(), api.ScopeWrite, operation.Create.Name), own)
	runtest.NoError(t, err)
	if s, err := b.Host.State(t.Context(), "own"); err != nil || s.Options["gate"] != "{}" || s.Options["other"] != "{}" {
		t.Errorf("with options of its own: got %v, %v", s.Options, err)
	}
}
