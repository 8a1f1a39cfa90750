package system

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// agentNode is a node whose sessions may start agents. It runs so many turns at once.
func agentNode(t testing.TB, on *bus.Bus, places int, model scripted.Script) (*workers.Node, error) {
	t.Helper()
	plugins, err := plugin.NewBuilder(plugin.BuilderConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{subagent.Factory(subagent.Config{})},
	})
	runtest.WantError(t, "plugins", err, nil)
	return workers.NewNode(workers.Config{
		Bus: on, Plugins: plugins, Provider: "scripted", Concurrency: places, Logger: zap.NewNop(),
		Providers: map[string]llm.Provider{"scripted": scripted.New(model)},
	})
}

// TestAgentKilledAnywhere kills a node that runs a turn, its agent and the agent's answer before and after each of its requests. Another
// node finishes: the call has one result, which is the agent's answer, and the agent was asked once.
func TestAgentKilledAnywhere(t *testing.T) {
	t.Parallel()
	const step = 5
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late_%t", late), func(t *testing.T) {
			t.Parallel()
			k := 1
			for finished := false; !finished; k += step {
				b := harness.StartIdle(t)
				root := b.Open(api.CreateRequest{})
				b.StartTurn(root, "t1", harness.Text("1 0"))
				finished = bustest.KilledAt(t, b.Server, k, late, func(ctx context.Context, victim *bus.Bus) error {
					n, err := agentNode(b.T, victim, 1, delegating)
					if err == nil {
						err = n.Start(ctx)
					}
					if err != nil {
						return errors.Join(err, context.Cause(ctx))
					}
					err = awaitUntil(ctx, b, root, func(s *projector.State) bool { return s.Idle() })
					now, cancel := context.WithCancel(b.Ctx)
					cancel()
					n.Stop(now)
					return errors.Join(err, context.Cause(ctx))
				})
				n, err := agentNode(b.T, bustest.Open(t, b.Server), 1, delegating)
				runtest.WantError(t, "node", err, nil)
				b.Launch(n)
				checkAgentAnswered(b, root, k)
			}
			if k < 20 {
				t.Errorf("it took fewer than %d requests, want more", k)
			}
		})
	}
}

func checkAgentAnswered(b *harness.System, root events.SessionID, k int) {
	b.T.Helper()
	runtest.Equal(b.T, fmt.Sprintf("%d: end", k), b.AwaitTurn(root, "t1").End, events.EndFinished)
	results := harness.ToolResults(b, root)
	if len(results) != 1 || !strings.Contains(results[0].Text, `"answer":"done"`) {
		b.T.Errorf("%d: results: got %+v, want the agent's answer once", k, results)
	}
	children := b.Subagents(root)
	runtest.Equal(b.T, fmt.Sprintf("%d: agents", k), len(children), 1)
	harness.VerifyHistory(b.T, b.Bus, root)
	harness.VerifyHistory(b.T, b.Bus, children[0].Child)
	runtest.Equal(b.T, fmt.Sprintf("%d: requests of the agent", k), len(harness.Find[*events.TurnRequested](b, children[0].Child)), 1)
}

// TestAgentErasedKilledAnywhere kills a host that erases an agent whose parent waits for it, before each of its requests. The
// erasure is asked for again: the parent's call has one result, and its turn ends.
func TestAgentErasedKilledAnywhere(t *testing.T) {
	t.Parallel()
	k := 1
	for finished := false; !finished; k++ {
		b := harness.StartIdle(t)
		root := b.Open(api.CreateRequest{})
		asked := make(chan struct{})
		n, err := agentNode(b.T, bustest.Open(t, b.Server), 4, waiting(asked))
		runtest.WantError(t, "node", err, nil)
		b.Launch(n)
		b.StartTurn(root, "t1", harness.Text("1 0"))
		b.Wait("the agent's model", asked)
		child := b.Subagents(root)[0].Child
		finished = bustest.KilledAt(t, b.Server, k, false, func(ctx context.Context, victim *bus.Bus) error {
			_, err := b.NewHost(victim).Erase(ctx, child, "a test")
			return errors.Join(err, context.Cause(ctx))
		})
		_, err = b.OtherHost().Erase(b.Ctx, child, "a test")
		runtest.WantError(t, "erased again", err, nil)
		runtest.Equal(t, fmt.Sprintf("%d: end", k), b.AwaitTurn(root, "t1").End, events.EndFinished)
		results := harness.ToolResults(b, root)
		if len(results) != 1 || !strings.Contains(results[0].Text, "was erased") {
			t.Errorf("%d: results: got %+v, want one which says that the agent was erased", k, results)
		}
		harness.VerifyHistory(t, b.Bus, root)
	}
	if k < 5 {
		t.Errorf("it took fewer than %d requests, want more", k)
	}
}

// waiting is [delegating] for agents whose models never answer. asked is closed at the first of their requests.
func waiting(asked chan struct{}) scripted.Script {
	var once sync.Once
	return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if strings.HasPrefix(req.Messages[len(req.Messages)-1].Text(), "0") {
			once.Do(func() { close(asked) })
			<-ctx.Done()
		}
		return delegating(ctx, req)
	}
}
