package builtin_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/background"
	"github.com/lash-go/lash/workers/builtin/builtintest"
)

// host keeps what a session starts.
type backgroundHost struct {
	plugin.Absent
	monitor events.MonitorSpec
	task    api.TaskRequest
	state   *projector.State
}

func (h *backgroundHost) StartMonitor(_ context.Context, _ events.SessionID, spec events.MonitorSpec) (api.MonitorSnapshot, error) {
	h.monitor = spec
	return api.MonitorSnapshot{}, nil
}

func (h *backgroundHost) MonitorSnapshot(context.Context, events.SessionID) (api.MonitorSnapshot, error) {
	return api.MonitorSnapshot{Monitors: []projector.Monitor{
		{Spec: events.MonitorSpec{ID: "m1", Command: "tail"}, State: events.MonitorIdle},
		{Spec: events.MonitorSpec{ID: "m2"}, State: events.MonitorFailed, Exited: true, Exit: 3, LastError: "gone"},
	}}, nil
}

func (h *backgroundHost) Tasks(context.Context, events.SessionID) ([]projector.Task, error) {
	return []projector.Task{{ID: "t1", Of: events.TaskTool, State: events.TaskPending}, {ID: "t2", State: events.TaskRunning, Message: "half"}}, nil
}

func (h *backgroundHost) SpawnTask(_ context.Context, _ events.SessionID, req api.TaskRequest, _ plugin.TaskFunc) error {
	h.task = req
	return nil
}

func (h *backgroundHost) SnapshotCurrent(context.Context) (*projector.State, error) {
	return h.state, nil
}

func backgroundBuild(t *testing.T) *plugin.Stack {
	t.Helper()
	return builtintest.Build(t, plugin.BuildContext{}, background.Factory(background.Config{Dir: "/srv"}))
}

// TestStart: what a session starts, in which directory.
func TestStart(t *testing.T) {
	t.Parallel()
	s, h := backgroundBuild(t), &backgroundHost{}
	for args, want := range map[string]events.MonitorSpec{
		`{"id":"m","command":"x"}`:                             {ID: "m", Command: "x", Environment: "default", Cwd: "/srv"},
		`{"id":"m","command":"x","cwd":"a/b"}`:                 {ID: "m", Command: "x", Environment: "default", Cwd: "/srv", Place: "a/b"},
		`{"id":"m","command":"x","cwd":"/tmp","timeout_ms":9}`: {ID: "m", Command: "x", Environment: "default", Cwd: "/srv", Place: "/tmp", TimeoutMillis: 9},
		`{"id":"m","command":"x","persistent":true}`:           {ID: "m", Command: "x", Environment: "default", Cwd: "/srv", Persistent: true, RestartOnRestore: true},
		`{"id":"m","command":"x","notify_only":true}`:          {ID: "m", Command: "x", Environment: "default", Cwd: "/srv", Wake: events.WakeNotify},
		`{"id":"m","command":"x","timeout_ms":3600000}`:        {ID: "m", Command: "x", Environment: "default", Cwd: "/srv", TimeoutMillis: 3600000},
	} {
		if _, err := builtintest.Call(t, s, plugin.Call{Host: h}, "monitor_start", args); err != nil || !reflect.DeepEqual(h.monitor, want) {
			t.Errorf("%s: got %+v, %v, want %+v", args, h.monitor, err, want)
		}
	}
	if _, err := builtintest.Call(t, s, plugin.Call{Host: h}, "task_start", `{"id":"t","command":"x"}`); err != nil ||
		h.task.ID != "t" || h.task.Of != events.TaskTool || h.task.Producer != background.ID || h.task.Close != events.CloseCancel {
		t.Errorf("task: got %+v, %v, want t, which ends with its session", h.task, err)
	}
}

// TestBackgroundRefused: arguments with which nothing starts.
func TestBackgroundRefused(t *testing.T) {
	t.Parallel()
	s, h := backgroundBuild(t), &backgroundHost{}
	for _, c := range []struct{ tool, args, want string }{
		{"monitor_start", `{"id":"m","command":"x","timeout_ms":-1}`, "timeout_ms: -1, want 0 to 3600000"},
		{"monitor_start", `{"id":"m","command":"x","timeout_ms":3600001}`, "timeout_ms: 3600001, want 0 to 3600000"},
		{"task_start", `{"id":"t","command":" \t"}`, "command: is blank"},
		{"task_start", `{"id":"","command":"x"}`, "id"},
		{"task_start", `{"id":"a b","command":"x"}`, "id"},
		{"task_start", `{"id":"a.*.>","command":"x"}`, "id"},
		{"task_start", `{"id":"` + strings.Repeat("a", 1000) + `","command":"x"}`, "id"},
	} {
		_, err := builtintest.Call(t, s, plugin.Call{Host: h}, c.tool, c.args)
		builtintest.Refused(t, c.tool+" "+c.args[:min(len(c.args), 60)], err, plugin.ClassInvalidRequest, c.want)
	}
	if h.monitor.ID != "" || h.task.ID != "" {
		t.Errorf("got %q and %q started, want nothing", h.monitor.ID, h.task.ID)
	}
}

// TestLists: states that are empty in the history have a word for the model.
func TestLists(t *testing.T) {
	t.Parallel()
	s := backgroundBuild(t)
	for tool, want := range map[string]string{
		"monitors_list": `[{"id":"m1","state":"idle","command":"tail","lines":0},{"id":"m2","state":"failed","command":"","lines":0,"last_error":"gone","exit_status":3}]`,
		"tasks_list":    `[{"id":"t1","kind":"tool","state":"pending"},{"id":"t2","state":"running","message":"half"}]`,
	} {
		if got, err := builtintest.Call(t, s, plugin.Call{Host: &backgroundHost{}}, tool, `{}`); err != nil || got.Text != want {
			t.Errorf("%s: got %s, %v, want %s", tool, got.Text, err, want)
		}
	}
}

// TestAbandoned: the model reads once of each task that died with its node, and of no other.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	s := backgroundBuild(t)
	lost := func(id events.TaskID, seq events.Seq) projector.Task {
		return projector.Task{ID: id, Seq: seq, Producer: background.ID, State: events.TaskFailed, Summary: "abandoned: worker w is gone"}
	}
	others := []projector.Task{
		{ID: "done", Seq: 2, Producer: background.ID, State: events.TaskCompleted, Summary: "abandoned: so it says"},
		{ID: "failed", Seq: 3, Producer: background.ID, State: events.TaskFailed, Summary: "exit status 1"},
		{ID: "agent", Seq: 4, Producer: "subagent", State: events.TaskFailed, Summary: "abandoned: worker w is gone"},
	}
	for i, c := range []struct {
		tasks []projector.Task
		want  string
	}{
		{nil, ""},
		{[]projector.Task{lost("t1", 5)}, "not run again: t1"},
		{[]projector.Task{lost("t1", 5)}, ""},
		{[]projector.Task{lost("t1", 5), lost("t2", 6)}, "not run again: t2"},
		{[]projector.Task{lost("t1", 7)}, "not run again: t1"}, // another task of the same name
	} {
		state := projector.New("s")
		state.Tasks = append(c.tasks, others...)
		list, err := s.BeforeTurn(t.Context(), plugin.TurnContext{Host: &backgroundHost{state: state}})
		said := ""
		for _, d := range list {
			said += d.Value.Messages[0].Text()
		}
		if err != nil || !strings.HasSuffix(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("turn %d: got %q, %v, want %q", i, said, err, c.want)
		}
	}
}
