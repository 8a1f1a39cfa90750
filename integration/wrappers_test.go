package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// extended is a factory that also contributes extensions.
type extended struct {
	plugin.Factory
	extensions map[string]any
}

func (e extended) Extensions() map[string]any { return e.extensions }

// seenByPlugins is what a stack was told and did.
type seenByPlugins struct {
	mu        sync.Mutex
	phases    map[string]int // hooks that run now, by name; how often each ran, by "n "+name
	preambles []plugin.PreambleInput
	direct    []llm.Request
	do        func(ctx context.Context, c plugin.Call) error
}

func (s *seenByPlugins) probe(phase string) func() {
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

// setupWrappers has a node whose model calls the tool "do" once a turn, which does what the test says.
func setupWrappers(t *testing.T) (*fleet, *seenByPlugins) {
	t.Helper()
	s := &seenByPlugins{phases: make(map[string]int)}
	f := setupFleet(t)
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		switch last := req.Messages[len(req.Messages)-1]; {
		case last.Role == events.RoleUser && last.Text() == "go":
			return reply(call("k", "do", `{}`))(ctx, req)
		case last.Role == events.RoleUser && last.Text() == "aside":
			s.mu.Lock()
			defer s.mu.Unlock()
			s.direct = append(s.direct, req)
		}
		return reply(text("done"))(ctx, req)
	}
	declared := declares("wrapped", func(r *plugin.Registrar) {
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
	stack, err := plugin.NewHost(plugin.HostConfig{
		Builtins: append(workers.Builtins(), speaker), Factories: []plugin.Factory{extended{declared, map[string]any{"words": "from it"}}}, Probe: s.probe,
	})
	must(t, "plugins", err, nil)
	f.join(workers.Config{Plugins: stack})
	return f, s
}

// does runs a turn of a new session whose tool does something with its host.
func (s *seenByPlugins) does(f *fleet, id events.SessionID, do func(ctx context.Context, c plugin.Call) error) {
	f.t.Helper()
	if id == "" {
		id = f.open(api.CreateRequest{Config: events.Config{Protocol: "speaker"}})
	}
	var failed error
	s.do = func(ctx context.Context, c plugin.Call) error {
		failed = do(ctx, c)
		return failed
	}
	record := f.run(id, "t1", text("go"))
	must(f.t, "what the tool did", failed, nil)
	equal(f.t, "end", record.End, events.EndFinished)
}

// TestTasksOfPlugins asks for each capability of tasks through the host that a
// tool call has: what it promises has happened when it returns.
func TestTasksOfPlugins(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	other := f.open(api.CreateRequest{})
	register := func(ctx context.Context, c plugin.Call, names ...events.TaskID) error {
		for _, name := range names {
			if err := c.Host.RegisterBackgroundTask(ctx, c.Session, api.TaskRequest{ID: name, Of: events.TaskOther, Producer: "test"}); err != nil {
				return err
			}
		}
		return nil
	}
	taskOf := func(id events.SessionID, name events.TaskID) projector.Task {
		task, err := f.Task(f.ctx, id, name)
		must(t, string(name), err, nil)
		return task
	}
	t.Run("hidden", func(t *testing.T) { //nolint:paralleltest // one node, one turn after the other
		ran, broken := false, errors.New("broken")
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := c.Host.SpawnHiddenTask(ctx, c.Session, "h", func(context.Context) error { ran = true; return broken }); err != nil {
				return err
			}
			if err := c.Host.AwaitHiddenTasks(ctx, c.Session); !errors.Is(err, broken) {
				t.Errorf("await: got %v, want %v", err, broken)
			}
			return nil
		})
		equal(t, "ran", ran, true)
	})
	t.Run("unregister", func(t *testing.T) { //nolint:paralleltest // likewise
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := register(ctx, c, "a", "b"); err != nil {
				return err
			}
			err := c.Host.UnregisterBackgroundTask(ctx, c.Session, "a")
			equal(t, "b stays", taskOf(c.Session, "b").State, events.TaskRunning)
			_, lookErr := f.Task(ctx, c.Session, "a")
			must(t, "a after it was unregistered", lookErr, task.ErrUnknown)
			return err
		})
	})
	t.Run("cancel_all", func(t *testing.T) { //nolint:paralleltest // likewise
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := register(ctx, c, "a", "b"); err != nil {
				return err
			}
			list, err := c.Host.CancelAllBackgroundTasks(ctx, c.Session)
			for _, name := range []events.TaskID{"a", "b"} {
				equal(t, string(name), taskOf(c.Session, name).State, events.TaskCancelled)
			}
			for _, task := range list {
				equal(t, "told of "+string(task.ID), task.State, events.TaskCancelled)
			}
			equal(t, "told of", len(list) >= 2, true) // and of the monitor's
			return err
		})
	})
	t.Run("transfer", func(t *testing.T) { //nolint:paralleltest // likewise
		s.does(f, "", func(ctx context.Context, c plugin.Call) error {
			if err := register(ctx, c, "a", "b"); err != nil {
				return err
			}
			err := c.Host.TransferAsyncHandles(ctx, c.Session, other, []events.TaskID{"a"})
			equal(t, "a at the other", taskOf(other, "a").State, events.TaskRunning)
			equal(t, "a is told to be", taskOf(c.Session, "a").To, other)
			equal(t, "b", taskOf(c.Session, "b").To, "")
			return err
		})
	})
}

// TestDeclaredMonitors has a plugin declare monitors: those of session starts
// run once a node works on the session, though no client asks for anything.
func TestDeclaredMonitors(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	id := f.open(api.CreateRequest{Config: events.Config{Protocol: "speaker"}})
	s.does(f, id, func(context.Context, plugin.Call) error { return nil })
	f.monitorIs(id, "wrapped-m", events.MonitorRunning)
	state := f.await(id, "its line", func(s *projector.State) bool { return s.Feed.Sequence >= 1 })
	equal(t, "its first line", state.Feed.Updates[0].Message, "declared")
	idle := f.monitor(id, "wrapped-idle")
	equal(t, "the other one", idle.State, events.MonitorIdle)
	f.run(id, "t2", text("hello"))
	registered, tasks := find[*events.MonitorRegistered](f.bundle, id), find[*events.TaskRegistered](f.bundle, id)
	equal(t, "registered after two turns", len(registered), 2)
	equal(t, "tasks after two turns", len(tasks), 1)
}

// TestCompletionOptions asks a model beside a turn, with an effort and a limit of output of its own.
func TestCompletionOptions(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	s.does(f, "", func(ctx context.Context, c plugin.Call) error {
		_, err := c.Host.Complete(ctx, plugin.CompletionRequest{Effort: "high", MaxTokens: 321, Sampling: events.Sampling{Temperature: "0.5"}, Messages: []events.Message{plugin.Say(events.RoleUser, "aside")}}, "test")
		return err
	})
	equal(t, "asked", len(s.direct), 1)
	equal(t, "effort", s.direct[0].Effort, "high")
	equal(t, "limit of output", s.direct[0].MaxOutputTokens, 321)
	equal(t, "temperature", s.direct[0].Sampling.Temperature, "0.5")
}

// TestPreambleInput wants what a driver is promised to be given for every prompt.
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

// TestProbe wants every hook bracketed by the host's probe.
func TestProbe(t *testing.T) {
	t.Parallel()
	f, s := setupWrappers(t)
	s.does(f, "", func(context.Context, plugin.Call) error { return nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	equal(t, "hooks before the turn", s.phases["n plugin_hook.before_turn.wrapped"], 1)
	for phase, open := range s.phases {
		if open != 0 && !strings.HasPrefix(phase, "n ") {
			t.Errorf("%s: %d did not end", phase, open)
		}
	}
}
