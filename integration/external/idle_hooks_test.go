package external

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// endingHooked is a plugin that ends its sessions when they are idle.
type endingHooked struct {
	*hooked
	ends atomic.Int64 // of sessions
}

func (h *endingHooked) IdleSession(context.Context, events.SessionID) remote.IdleAction {
	h.ends.Add(1)
	return remote.IdleEnd
}

// ended reports whether each session that was started has ended.
func (h *endingHooked) ended() bool {
	_, starts := h.recorded()
	return h.ends.Load() == int64(len(starts))
}

// TestHooksAfterAnIdleSessionEnded has a model think until the instance has ended the idle session. The hooks that follow
// start it again.
func TestHooksAfterAnIdleSessionEnded(t *testing.T) {
	t.Parallel()
	h := &endingHooked{hooked: newHooked()}
	thinks := func(next harness.Step) harness.Step {
		return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			for ctx.Err() == nil && !h.ended() {
				runtime.Gosched()
			}
			return next(ctx, req)
		}
	}
	s := start(t, thinks(harness.Reply(harness.Call("k", "write", "{}"))), thinks(harness.Reply(harness.Text("done"))))
	s.config.Idle = 200 * time.Millisecond
	s.config.Plugins = []external.Plugin{{Name: "notes"}}
	s.node()
	s.instance(remote.Config{Plugin: h, Scope: wire.ScopeSession})
	id := s.begin()
	runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "result", s.CallResult(id, "k"), "noted")
	points, epochs := h.recorded()
	runtest.EqualLists(t, "points", points, []string{"after_tool_call", "after_turn", "before_tool_call", "before_turn", "checkpoint"})
	if len(epochs) < 3 { // on a busy machine the session is idle between hooks as well
		t.Errorf("epochs: got %v, want one more after each reply", epochs)
	}
	for n, epoch := range epochs {
		runtest.Equal(t, "epoch", epoch, int64(n+1))
	}
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
		at := s.placement(id).Instance
		to := s.on.prefix + ".plugin.notes." + s.idOf(at) + ".idle"
		kills[at]()
		var err error
		for ctx.Err() == nil && !errors.Is(err, nats.ErrNoResponders) { // until the server has noticed
			_, err = s.Bus.Conn().Request(to, nil, 100*time.Millisecond)
		}
		return harness.Reply(harness.Call("k", "write", "{}"))(ctx, req)
	}, harness.Reply(harness.Text("done")))
	s.node()
	instances := make(map[string]*hooked)
	for n, name := range []string{"i1", "i2"} {
		instances[name] = newHooked()
		_, kills[name] = s.instanceOf(remote.Config{Plugin: instances[name], Instance: name, Scope: wire.ScopeSession}, n+1)
	}
	runtest.Equal(t, "session", s.Open(api.CreateRequest{ID: id}), id)
	s.StartTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "result", s.CallResult(id, "k"), "noted")
	at := s.placement(id)
	runtest.Equal(t, "the session moved", at.Epoch > 1, true)
	points, epochs := instances[at.Instance].recorded()
	runtest.EqualLists(t, "points", points, []string{"after_tool_call", "after_turn", "before_tool_call", "checkpoint"})
	runtest.DeepEqual(t, "epochs", epochs, []int64{at.Epoch})
	harness.VerifyHistory(t, s.Bus, id)
}
