package system

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// extended is a factory that also contributes extensions.
type pluginsExtended struct {
	plugin.Factory
	extensions map[string]any
}

func (e pluginsExtended) Extensions() map[string]any { return e.extensions }

// stackCalls records the calls of a stack.
type stackCalls struct {
	mu        sync.Mutex
	phases    map[string]int // hooks that run now, by name; how often each ran, by "n "+name
	preambles []plugin.PreambleInput
	direct    []llm.Request
	do        func(ctx context.Context, c plugin.Call) error
}

func (s *stackCalls) probe(phase string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phases[phase]++
	s.phases["n "+phase]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.phases[phase]--
	}
}

// setupWrappers has a node whose model calls the tool "do" once a turn, which runs a function of the test.
func setupWrappers(t *testing.T) (*harness.Fleet, *stackCalls) {
	t.Helper()
	s := &stackCalls{phases: make(map[string]int)}
	f := harness.StartFleet(t)
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		switch last := req.Messages[len(req.Messages)-1]; {
		case last.Role == events.RoleUser && last.Text() == "go":
			return harness.Reply(harness.Call("k", "do", `{}`))(ctx, req)
		case last.Role == events.RoleUser && last.Text() == "aside":
			s.mu.Lock()
			defer s.mu.Unlock()
			s.direct = append(s.direct, req)
		}
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	declared := harness.PluginOf("wrapped", func(r *plugin.Registrar) {
		r.Monitor(events.MonitorSpec{ID: "m", Command: "echo declared; sleep 1000", Persistent: true, ArmOn: events.ArmSessionStart, Wake: events.WakeNotify})
		r.Monitor(events.MonitorSpec{ID: "idle", Command: "true"})
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return nil, nil })
		plugin.AddTool(r, plugin.Tool{Name: "do"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) { return "did", s.do(ctx, c) })
	})
	speaker := plugin.OfDriver("speaker", plugin.DriverFunc(func(in plugin.PreambleInput) plugin.Preamble {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.preambles = append(s.preambles, in)
		return plugin.Preamble{}
	}))
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{
		Builtins: append(workers.Builtins(), speaker), Factories: []plugin.Factory{pluginsExtended{declared, map[string]any{"words": "from it"}}}, Probe: s.probe,
	})
	runtest.WantError(t, "plugins", err, nil)
	f.Join(workers.Config{Plugins: builder})
	return f, s
}

// does runs a turn of a new session whose tool uses its host.
func (s *stackCalls) does(f *harness.Fleet, id events.SessionID, do func(ctx context.Context, c plugin.Call) error) {
	f.T.Helper()
	if id == "" {
		id = f.Open(api.CreateRequest{Config: events.Config{Protocol: "speaker"}})
	}
	var failed error
	s.do = func(ctx context.Context, c plugin.Call) error {
		failed = do(ctx, c)
		return failed
	}
	record := f.RunTurn(id, "t1", harness.Text("go"))
	runtest.WantError(f.T, "what the tool did", failed, nil)
	runtest.Equal(f.T, "end", record.End, events.EndFinished)
}

// TestTasksOfPlugins uses each capability of tasks through the host of a tool call: its effect is complete when it
// returns.
func TestTasksOfPlugins(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	other := f.Open(api.CreateRequest{})
	register := func(ctx context.Context, c plugin.Call, names ...events.TaskID) error {
		for _, name := range names {
			if _, err := c.Host.RegisterTask(ctx, c.Session, api.TaskRequest{ID: name, Of: events.TaskOther, Producer: "test"}); err != nil {
				return err
			}
		}
		return nil
	}
	taskOf := func(id events.SessionID, name events.TaskID) projector.Task {
		task, err := f.Task(f.Ctx, id, name)
		runtest.WantError(t, string(name), err, nil)
		return task
	}
	t.Run("hidden", func(t *testing.T) { //nolint:paralleltest // one node, one turn after the other
		ran, broken := false, errors.New("broken")
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := c.Host.SpawnHiddenTask(ctx, c.Session, "h", func(context.Context) error { ran = true; return broken }); err != nil {
				return err
			}
			runtest.WantError(t, "await", c.Host.AwaitHiddenTasks(ctx, c.Session), broken)
			return nil
		})
		runtest.Equal(t, "ran", ran, true)
	})
	t.Run("unregister", func(t *testing.T) { //nolint:paralleltest // likewise
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := register(ctx, c, "a", "b"); err != nil {
				return err
			}
			err := c.Host.UnregisterTask(ctx, c.Session, "a")
			runtest.Equal(t, "b stays", taskOf(c.Session, "b").State, events.TaskRunning)
			_, inspectErr := f.Task(ctx, c.Session, "a")
			runtest.WantError(t, "a after it was unregistered", inspectErr, api.ErrUnknownTask)
			return err
		})
	})
	t.Run("cancel_all", func(t *testing.T) { //nolint:paralleltest // likewise
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := register(ctx, c, "a", "b"); err != nil {
				return err
			}
			list, err := c.Host.CancelTasksExcept(ctx, c.Session, nil)
			for _, name := range []events.TaskID{"a", "b"} {
				runtest.Equal(t, string(name), taskOf(c.Session, name).State, events.TaskCancelled)
			}
			for _, task := range list {
				runtest.Equal(t, "told of "+string(task.ID), task.State, events.TaskCancelled)
			}
			runtest.Equal(t, "told of", len(list) >= 2, true) // and of the monitor's
			return err
		})
	})
	t.Run("transfer", func(t *testing.T) { //nolint:paralleltest // likewise
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := register(ctx, c, "a", "b"); err != nil {
				return err
			}
			err := c.Host.TransferTasks(ctx, c.Session, other, []events.TaskID{"a"})
			runtest.Equal(t, "a at the other", taskOf(other, "a").State, events.TaskRunning)
			runtest.Equal(t, "a is told to be", taskOf(c.Session, "a").To, other)
			runtest.Equal(t, "b", taskOf(c.Session, "b").To, "")
			return err
		})
	})
}

// TestDeclaredMonitors has a plugin declare monitors: those of the session's start run when a node works on the
// session, without a request of a client.
func TestDeclaredMonitors(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	id := f.Open(api.CreateRequest{Config: events.Config{Protocol: "speaker"}})
	s.does(f, id, func(context.Context, plugin.Call) error { return nil })
	f.AwaitMonitor(id, "wrapped-m", events.MonitorRunning)
	state := f.AwaitState(id, "its line", func(s *projector.State) bool { return s.Feed.Sequence >= 1 })
	runtest.Equal(t, "its first line", state.Feed.Updates[0].Message, "declared")
	idle := f.MonitorRecord(id, "wrapped-idle")
	runtest.Equal(t, "the other one", idle.State, events.MonitorIdle)
	f.RunTurn(id, "t2", harness.Text("hello"))
	registered, tasks := harness.Find[*events.MonitorRegistered](f.System, id), harness.Find[*events.TaskRegistered](f.System, id)
	runtest.Equal(t, "registered after two turns", len(registered), 2)
	runtest.Equal(t, "tasks after two turns", len(tasks), 1)
}

// TestCompletionOptions requests a completion during a turn, with an effort and a limit of output of its own.
func TestCompletionOptions(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	s.does(f, "", func(ctx context.Context, c plugin.Call) error {
		_, err := c.Host.Complete(ctx, plugin.CompletionRequest{Effort: "high", MaxTokens: 321, Sampling: events.Sampling{Temperature: "0.5"}, Messages: []events.Message{plugin.Say(events.RoleUser, "aside")}}, "test")
		return err
	})
	runtest.Equal(t, "requests", len(s.direct), 1)
	runtest.Equal(t, "effort", s.direct[0].Effort, "high")
	runtest.Equal(t, "limit of output", s.direct[0].MaxOutputTokens, 321)
	runtest.Equal(t, "temperature", s.direct[0].Sampling.Temperature, "0.5")
}

// TestPreambleInput checks the input of a driver for every prompt.
func TestPreambleInput(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	s.does(f, "", func(context.Context, plugin.Call) error { return nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.preambles) < 2 {
		t.Errorf("got %d preambles, want one of each of two prompts at least", len(s.preambles))
	}
	for i, in := range s.preambles {
		if len(in.Extensions["words"]) != 1 || len(in.Tools) == 0 {
			t.Errorf("preamble %d: got extensions %v and %d tools", i, in.Extensions, len(in.Tools))
		}
	}
}

// TestHookProbeRunsAroundHooks checks that the host's probe runs before and after every hook.
func TestHookProbeRunsAroundHooks(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	s.does(f, "", func(context.Context, plugin.Call) error { return nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	runtest.Equal(t, "hooks before the turn", s.phases["n plugin_hook.before_turn.wrapped"], 1)
	for phase, open := range s.phases {
		if open != 0 && !strings.HasPrefix(phase, "n ") {
			t.Errorf("%s: %d did not end", phase, open)
		}
	}
}
