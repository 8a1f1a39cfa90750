// Package background gives the model work that continues after its call: tasks, commands whose end begins a turn, and
// monitors, whose lines on standard output begin turns. Tools list and stop them.
//
// Guarantees: a command runs at most once in the cluster. All processes that it starts are killed when it ends, when
// it is stopped and when its node dies. A task whose node died does not run again: the model reads so at the next
// turn. A persistent monitor starts again; any other runs for at most an hour. A command begins where the gate judged its
// directory to be, on any node, or not at all. Otherwise commands have the rights of the node: register the gate before
// them. The package imports session/plugin and below, builtin/gate and workers/process.
package background

import (
	"cmp"
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// ID names the plugin in histories.
const ID = "background"

// maxTimeoutMillis limits the time of a monitor that is not persistent.
const maxTimeoutMillis = 3_600_000

// Config configures the plugin.
type Config struct {
	Dir string // directory of commands in an environment without one. Defaults to that of the node
}

// Factory builds the plugin.
func Factory(cfg Config) plugin.Factory {
	cfg.Dir = cmp.Or(cfg.Dir, ".")
	return plugin.New(ID, func(plugin.BuildContext) (plugin.Plugin, error) { return &background{cfg: cfg}, nil })
}

type background struct {
	plugin.State[reportedTasks]
	cfg Config
}

func (b *background) Register(r *plugin.Registrar) error {
	tool := func(name string, effects events.Effects, description string) plugin.Tool {
		return plugin.Tool{Name: name, Description: description, Effects: effects}
	}
	once, again, none := events.EffectsNonIdempotent, events.EffectsIdempotent, events.EffectsNone
	plugin.AddTool(r, tool("task_start", once, "Runs a command in the background with bash. You are told of its end and its output."), b.begin)
	plugin.AddTool(r, tool("monitor_start", once, "Runs a command in the background with bash. Each line that it prints wakes you."), b.start)
	plugin.AddTool(r, tool("monitor_stop", again, "Stops a monitor."), stop)
	plugin.AddTool(r, tool("monitors_list", none, "Lists your monitors."), monitors)
	plugin.AddTool(r, tool("tasks_list", none, "Lists your background tasks: commands, monitors, agents and others."), tasks)
	plugin.AddTool(r, tool("tasks_stop", again, "Stops a background task."), cancel)
	r.BeforeTurn(b.reportAbandoned)
	return nil
}

type startRequest struct {
	ID         events.MonitorID `json:"id" jsonschema:"a short name of your choice"`
	Command    string           `json:"command"`
	Cwd        string           `json:"cwd,omitempty"`
	Where      string           `json:"environment,omitempty" jsonschema:"where it runs, if not in the environment of the session"`
	Persistent bool             `json:"persistent,omitempty" jsonschema:"no time limit, and started again after a failure of the machine"`
	TimeoutMS  int64            `json:"timeout_ms,omitempty" jsonschema:"at most 3600000, by default 300000"`
	NotifyOnly bool             `json:"notify_only,omitempty" jsonschema:"its lines do not wake you"`
}

// monitorReply is the state of a monitor.
type monitorReply struct {
	ID        events.MonitorID    `json:"id"`
	State     events.MonitorState `json:"state"` // idle is spelled out
	Command   string              `json:"command"`
	Lines     int64               `json:"lines"`
	LastLine  string              `json:"last_line,omitempty"`
	LastError string              `json:"last_error,omitempty"`
	Exit      *int64              `json:"exit_status,omitempty"`
}

func (b *background) start(ctx context.Context, call plugin.Call, in startRequest) ([]monitorReply, error) {
	if in.TimeoutMS < 0 || in.TimeoutMS > maxTimeoutMillis {
		return nil, plugin.InvalidArgs("timeout_ms: %d, want 0 to %d", in.TimeoutMS, maxTimeoutMillis)
	}
	where, err := call.Environment(in.Where)
	if err != nil {
		return nil, err
	}
	place, err := gate.Cwd(cmp.Or(where.Dir, b.cfg.Dir), in.Cwd, call)
	if err != nil {
		return nil, err
	}
	spec := events.MonitorSpec{
		ID: in.ID, Command: in.Command, Environment: where.Name, Place: place, Persistent: in.Persistent, TimeoutMillis: in.TimeoutMS, RestartOnRestore: in.Persistent,
	}
	if where.Dir == "" { // the node that runs it would not know the directory
		spec.Cwd = b.cfg.Dir
	}
	if in.NotifyOnly {
		spec.Wake = events.WakeNotify
	}
	if _, err := call.Host.StartMonitor(ctx, call.Session, spec); err != nil {
		return nil, err
	}
	return monitors(ctx, call, struct{}{})
}

func stop(ctx context.Context, call plugin.Call, in struct {
	ID events.MonitorID `json:"id"`
},
) ([]monitorReply, error) {
	if _, err := call.Host.StopMonitor(ctx, call.Session, in.ID); err != nil {
		return nil, err
	}
	return monitors(ctx, call, struct{}{})
}

func monitors(ctx context.Context, call plugin.Call, _ struct{}) ([]monitorReply, error) {
	now, err := call.Host.MonitorSnapshot(ctx, call.Session)
	list := []monitorReply{}
	for _, m := range now.Monitors {
		shown := monitorReply{ID: m.Spec.ID, State: m.State, Command: m.Spec.Command, Lines: m.Events, LastLine: m.LastEvent, LastError: m.LastError}
		if m.State == events.MonitorIdle {
			shown.State = "idle"
		}
		if m.Exited {
			shown.Exit = &m.Exit
		}
		list = append(list, shown)
	}
	return list, err
}

// taskReply is the state of a background task.
type taskReply struct {
	ID      events.TaskID    `json:"id"`
	Kind    events.TaskKind  `json:"kind,omitempty"`
	State   events.TaskState `json:"state"` // pending is spelled out
	Message string           `json:"message,omitempty"`
	Summary string           `json:"summary,omitempty"`
}

func tasks(ctx context.Context, call plugin.Call, _ struct{}) ([]taskReply, error) {
	all, err := call.Host.Tasks(ctx, call.Session)
	list := []taskReply{}
	for i := range all {
		t := taskReply{ID: all[i].ID, Kind: all[i].Of, State: all[i].State, Message: all[i].Message, Summary: all[i].Summary}
		if t.State == events.TaskPending {
			t.State = "pending"
		}
		list = append(list, t)
	}
	return list, err
}

func cancel(ctx context.Context, call plugin.Call, in struct {
	ID events.TaskID `json:"id"`
},
) (string, error) {
	task, err := call.Host.CancelTask(ctx, call.Session, in.ID)
	return string(task.State), err
}
