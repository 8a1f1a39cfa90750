package system

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// cancelFleet is work that continues until it is cancelled, on any node.
type cancelFleet struct {
	*harness.Fleet
	started chan string // the node, of work that has started
	stopped chan string // the node, of work whose context has ended
	kills   map[string]func()
}

const cancelSession events.SessionID = "held"

// block blocks until ctx ends.
func (r *cancelFleet) block(ctx context.Context, node string) error {
	r.started <- node
	<-ctx.Done()
	r.stopped <- node
	return context.Cause(ctx)
}

// setupCancelFleet starts two nodes of all roles, whose work blocks: the model of every agent, the task, the tool.
func setupCancelFleet(t *testing.T) *cancelFleet {
	t.Helper()
	r := &cancelFleet{Fleet: harness.StartFleet(t), started: make(chan string, 8), stopped: make(chan string, 8), kills: make(map[string]func())}
	return r
}

func (r *cancelFleet) start(name string, roles ...workers.Role) {
	r.T.Helper()
	tools := func(reg *plugin.Registrar) {
		plugin.AddTool(reg, plugin.Tool{Name: "stay", Effects: events.EffectsIdempotent, Portable: true}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			return "", r.block(ctx, name)
		})
	}
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{
		Builtins:  []plugin.Factory{standard.Factory()},
		Factories: []plugin.Factory{subagent.Factory(subagent.Config{}), harness.PluginOf("tools", tools)},
	})
	runtest.WantError(r.T, "plugins", err, nil)
	on := bustest.Open(r.T, r.Server)
	n, err := workers.NewNode(workers.Config{
		Bus: on, Roles: roles, Plugins: builder, Provider: "scripted",
		Runners:   map[string]workers.TaskFunc{"stay": func(ctx context.Context, _ *workers.RunningTask) (string, error) { return "", r.block(ctx, name) }},
		Providers: map[string]llm.Provider{"scripted": scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) { return r.reply(ctx, req, name) })},
	})
	runtest.WantError(r.T, "node", err, nil)
	runtest.WantError(r.T, "start", n.Start(r.Ctx), nil)
	r.kills[name] = stopsAtOnce(r.T, n)
}

// stopsAtOnce returns how to stop a node in the middle of its work.
func stopsAtOnce(t *testing.T, n *workers.Node) (kill func()) {
	kill = func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own may have ended
		cancel()
		n.Stop(now)
	}
	t.Cleanup(kill)
	return kill
}

// reply calls the tool that the session's turn names, and blocks the models of agents.
func (r *cancelFleet) reply(ctx context.Context, req llm.Request, node string) (scripted.Answer, error) {
	last := req.Messages[len(req.Messages)-1].Text()
	switch {
	case req.Session != cancelSession:
		return scripted.Answer{}, r.block(ctx, node)
	case req.Iteration > 0:
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	tool, args, _ := strings.Cut(last, " ")
	return harness.Reply(harness.Call("c1", tool, args))(ctx, req)
}

// appendWithoutHints appends the events of a host that dies before it sends any hint. No subscription receives the commit
// live.
func (r *cancelFleet) appendWithoutHints(payload events.Payload, turn events.TurnID) {
	r.T.Helper()
	js := harness.JetStreamOf(r.Bus)
	stream, err := js.Stream(r.Ctx, "lash-s-"+string(cancelSession))
	runtest.WantError(r.T, "stream", err, nil)
	cfg := stream.CachedInfo().Config
	cfg.RePublish = nil
	_, err = js.UpdateStream(r.Ctx, cfg)
	runtest.WantError(r.T, "no live subject", err, nil)
	for {
		_, err := r.Bus.Log().Append(r.Ctx, &events.Commit{
			ID: events.CommitID(ulid.Make().String()), Session: cancelSession, At: events.MillisOf(time.Now()),
			Actor: events.Actor{Kind: events.ActorSystem, ID: "dead"}, Events: []events.Event{events.Of(turn, payload)},
		}, r.LastSeq(cancelSession))
		if !errors.As(err, new(*events.ConflictError)) {
			runtest.WantError(r.T, "append", err, nil)
			return
		}
	}
}

// agent is the session of the only agent.
func (r *cancelFleet) agent() events.SessionID {
	r.T.Helper()
	return r.AwaitState(cancelSession, "an agent", func(s *projector.State) bool { return len(s.Tasks) == 1 && s.Tasks[0].Child != "" }).Tasks[0].Child
}

// cancelCase is a kind of work, and how it is cancelled.
type cancelCase struct {
	start      func(r *cancelFleet)
	cancel     func(r *cancelFleet, by *session.Host) error
	cancelLost func(r *cancelFleet) // the same by a host that dies
	check      func(r *cancelFleet)
}

func turnCalling(tool string) func(r *cancelFleet) {
	return func(r *cancelFleet) { r.StartTurn(cancelSession, "t1", harness.Text(tool)) }
}

func cancelTurn(r *cancelFleet, by *session.Host) error {
	_, _, err := by.Cancel(r.Ctx, cancelSession, "t1", api.CancelRequest{})
	return err
}

func lostCancelTurn(r *cancelFleet) {
	r.appendWithoutHints(&events.TurnCancelRequested{Request: "x"}, "t1")
}

func cancelledTurn(r *cancelFleet) {
	runtest.Equal(r.T, "end", r.AwaitTurn(cancelSession, "t1").End, events.EndCancelled)
}

// spawns is a turn that waits for an agent.
var spawns = turnCalling(`spawn_agent {"capability":"explore","task":"work"}`)

func closedAgent(r *cancelFleet) {
	r.AwaitState(r.agent(), "closed agent", func(s *projector.State) bool { return s.Status == projector.StatusClosed && s.Idle() })
	r.AwaitState(cancelSession, "that nothing is owed", func(s *projector.State) bool { return !s.Tasks[0].Unfinished() })
}

func restarted(r *cancelFleet) {
	_, err := r.RegisterTask(r.Ctx, cancelSession, api.TaskRequest{ID: "k", Runner: "stay", Restart: events.RestartAlways})
	runtest.WantError(r.T, "register", err, nil)
}

// TestCancelReaches cancels work of every kind, on the node where it started and after that node has died. The
// host's hints arrive, or the host dies before it sends any. The context of the work ends.
func TestCancelReaches(t *testing.T) {
	t.Parallel()
	taskEnds := func(r *cancelFleet) {
		r.AwaitState(cancelSession, "the task's end", func(s *projector.State) bool { return s.Tasks[0].State == events.TaskCancelled })
	}
	for name, kind := range map[string]cancelCase{
		"call":        {turnCalling(`stay {}`), cancelTurn, lostCancelTurn, cancelledTurn},
		"remote_call": {turnCalling(`stay {}`), cancelTurn, lostCancelTurn, nil}, // the turn itself rests, and is found by the sweep
		"subagent": {spawns, cancelTurn, lostCancelTurn, func(r *cancelFleet) {
			cancelledTurn(r)
			r.AwaitState(r.agent(), "the end of the agent's turn", func(s *projector.State) bool { return s.Idle() && s.Turns == 1 })
		}},
		"subagent_task": {spawns, func(r *cancelFleet, by *session.Host) error {
			_, err := by.CancelTask(r.Ctx, cancelSession, events.TaskID(r.agent()))
			return err
		}, func(r *cancelFleet) {
			r.appendWithoutHints(&events.TaskEnded{Task: events.TaskID(r.agent()), State: events.TaskCancelled}, "")
		}, closedAgent},
		"subagent_asked": {spawns, func(r *cancelFleet, by *session.Host) error {
			_, err := by.RequestCancelTask(r.Ctx, cancelSession, events.TaskID(r.agent()), "enough")
			return err
		}, func(r *cancelFleet) {
			r.appendWithoutHints(&events.TaskCancelRequested{Task: events.TaskID(r.agent())}, "")
		}, closedAgent},
		"task": {restarted, func(r *cancelFleet, by *session.Host) error {
			_, err := by.CancelTask(r.Ctx, cancelSession, "k")
			return err
		}, func(r *cancelFleet) {
			r.appendWithoutHints(&events.TaskEnded{Task: "k", State: events.TaskCancelled}, "")
		}, taskEnds},
		"task_asked": {restarted, func(r *cancelFleet, by *session.Host) error {
			_, err := by.RequestCancelTask(r.Ctx, cancelSession, "k", "enough")
			return err
		}, func(r *cancelFleet) { r.appendWithoutHints(&events.TaskCancelRequested{Task: "k"}, "") }, taskEnds},
		"all_tasks": {restarted, func(r *cancelFleet, by *session.Host) error {
			_, err := by.CancelTasks(r.Ctx, cancelSession, nil)
			return err
		}, nil, taskEnds},
	} {
		for _, afterDeath := range []bool{false, true} {
			for _, lost := range []bool{false, true} {
				if lost && kind.cancelLost == nil {
					continue
				}
				t.Run(fmt.Sprintf("%s_died_%v_lost_%v", name, afterDeath, lost), func(t *testing.T) {
					t.Parallel()
					r := setupCancelFleet(t)
					roles := workers.Roles()
					if name == "remote_call" {
						r.start("turns", workers.RoleTurn)
						roles = []workers.Role{workers.RoleTool}
					}
					r.start("first", roles...)
					r.Open(api.CreateRequest{ID: cancelSession})
					kind.start(r)
					runtest.Equal(t, "started on", harness.Receive(r.System, "work", r.started), "first")
					on := "first"
					if afterDeath {
						r.start("second", roles...)
						r.kills["first"]()
						runtest.Equal(t, "stopped on", harness.Receive(r.System, "the first work's end", r.stopped), "first")
						runtest.Equal(t, "taken over by", harness.Receive(r.System, "work again", r.started), "second")
						on = "second"
					}
					began := time.Now()
					if lost {
						kind.cancelLost(r)
					} else {
						runtest.WantError(t, "cancel", kind.cancel(r, r.OtherHost()), nil)
					}
					runtest.Equal(t, "stopped on", harness.Receive(r.System, "the work's end", r.stopped), on)
					t.Logf("reached after %v", time.Since(began))
					if kind.check != nil {
						kind.check(r)
					}
				})
			}
		}
	}
}
