package mcp

import (
	"encoding/hex"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TestSessionsShareTools: the sessions of a node have one list of tools in memory. Turns, a level that a host sets in one
// session, and the removal of that level leave the list as the history has it.
func TestSessionsShareTools(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	server.Env[toolsVariable] = "40"
	s.source(server)
	ids := []events.SessionID{s.begin("srv__look", `{"do":"x"}`), s.begin("srv__look", `{"do":"x"}`), s.begin("srv__look", `{"do":"x"}`)}
	for _, id := range ids {
		s.AwaitTurn(id, "t1")
	}
	catalog := func(id events.SessionID) projector.Catalog {
		t.Helper()
		v, err := s.View(s.Ctx, id)
		runtest.WantError(t, "view", err, nil)
		sum, err := events.PayloadSum(v.Standing.Catalog.Tools)
		runtest.WantError(t, "sum", err, nil)
		runtest.Equal(t, "digest of the tools", hex.EncodeToString(sum[:]), v.Standing.Catalog.Digest)
		return v.Standing.Catalog
	}
	shared := &catalog(ids[0]).Tools[0]
	for i, level := range []events.Override{"off", ""} {
		_, err := s.SetToolsAvailability(s.Ctx, ids[1], []string{"srv__look"}, level)
		runtest.WantError(t, "level", err, nil)
		other := catalog(ids[1])
		tool, _ := other.Tool("srv__look")
		runtest.Equal(t, "level of the session", tool.Override, level)
		s.StartTurn(ids[1], events.TurnID([]string{"t2", "t3"}[i]), harness.Text(`srv__tool1 {}`))
		s.AwaitTurn(ids[1], events.TurnID([]string{"t2", "t3"}[i]))
		catalog(ids[1])
		for _, id := range append(ids, s.Open(api.CreateRequest{}))[2:] {
			s.StartTurn(id, events.TurnID([]string{"u2", "u3"}[i]), harness.Text(`srv__look {"do":"x"}`))
			s.AwaitTurn(id, events.TurnID([]string{"u2", "u3"}[i]))
			c := catalog(id)
			if &c.Tools[0] != shared {
				t.Errorf("session %s has a list of its own", id)
			}
			if tool, _ := c.Tool("srv__look"); tool.Override != "" {
				t.Errorf("session %s: got the level %q of another one", id, tool.Override)
			}
		}
	}
}
