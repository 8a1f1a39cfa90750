package external

import (
	"context"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// ending is a plugin that ends its sessions when they are idle.
type endingHooked struct{ *hooked }

func (endingHooked) IdleSession(context.Context, events.SessionID) remote.IdleAction {
	return remote.IdleEnd
}

// TestHooksAfterAnIdleSessionEnded has a model think for longer than a session may be idle. The instance ends the
// session, and the hooks that follow start it again.
func TestHooksAfterAnIdleSessionEnded(t *testing.T) {
	t.Parallel()
	thinks := func(next harness.Step) harness.Step {
		return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			time.Sleep(time.Second)
			return next(ctx, req)
		}
	}
	s := start(t, thinks(harness.Reply(harness.Call("k", "write", "{}"))), thinks(harness.Reply(harness.Text("done"))))
	s.config.Idle = 200 * time.Millisecond
	s.config.Plugins = []external.Plugin{{Name: "notes"}}
	s.node()
	h := newHooked()
	s.instance(remote.Config{Plugin: endingHooked{h}, Scope: wire.ScopeSession})
	id := s.begin()
	harness.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
	harness.Equal(t, "result", s.CallResult(id, "k"), "noted")
	points, epochs := h.recorded()
	harness.EqualLists(t, "points", points, []string{"after_tool_call", "after_turn", "before_tool_call", "before_turn", "checkpoint"})
	harness.DeepEqual(t, "epochs", epochs, []int64{1, 2, 3})
	harness.VerifyHistory(t, s.Bus, id)
}

// TestHooksAfterTheInstanceIsGone ends the instance of a session while the model thinks. The hooks that follow start the
// session on the other one.
func TestHooksAfterTheInstanceIsGone(t *testing.T) {
	t.Parallel()
	kills := make(map[string]func())
	var s *setting
	id := events.SessionID("s1")
	s = start(t, func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		kills[s.placement(id).Instance]()
		time.Sleep(200 * time.Millisecond) // the server notices
		return harness.Reply(harness.Call("k", "write", "{}"))(ctx, req)
	}, harness.Reply(harness.Text("done")))
	s.node()
	instances := make(map[string]*hooked)
	for n, name := range []string{"i1", "i2"} {
		instances[name] = newHooked()
		_, kills[name] = s.instanceOf(remote.Config{Plugin: instances[name], Instance: name, Scope: wire.ScopeSession}, n+1)
	}
	harness.Equal(t, "session", s.Open(api.CreateRequest{ID: id}), id)
	s.StartTurn(id, "t1", harness.Text("go"))
	harness.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
	harness.Equal(t, "result", s.CallResult(id, "k"), "noted")
	at := s.placement(id)
	harness.Equal(t, "the session moved", at.Epoch > 1, true)
	points, epochs := instances[at.Instance].recorded()
	harness.EqualLists(t, "points", points, []string{"after_tool_call", "after_turn", "before_tool_call", "checkpoint"})
	harness.DeepEqual(t, "epochs", epochs, []int64{at.Epoch})
	harness.VerifyHistory(t, s.Bus, id)
}
