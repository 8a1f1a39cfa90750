// Package background gives the model monitors, whose lines on standard output
// wake the session, and the session's background tasks: to list and to stop.
//
// Guarantees: a monitor runs at most once in the cluster, at most an hour
// unless it is persistent, and a persistent one is started again when its node
// dies. Starting one runs a command with the node's rights: put the approval
// gate before it. It imports session/plugin and below.
package background

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories.
const ID = "background"

// MaxTimeoutMillis bounds the time of a monitor that is not persistent.
const MaxTimeoutMillis = 3_600_000

// Factory builds the plugin.
func Factory() plugin.Factory { return plugin.Func(ID, register) }

func register(r *plugin.Registrar) error {
	plugin.AddTool(r, plugin.Tool{Name: "monitor_start", Description: "Runs a command in the background with bash. Each line that it prints wakes you."}, start)
	plugin.AddTool(r, plugin.Tool{Name: "monitor_stop", Description: "Stops a monitor.", Effects: events.EffectsIdempotent}, stop)
	plugin.AddTool(r, plugin.Tool{Name: "monitors_list", Description: "Lists your monitors.", Effects: events.EffectsNone}, monitors)
	plugin.AddTool(r, plugin.Tool{Name: "tasks_list", Description: "Lists your background tasks: monitors, agents and others.", Effects: events.EffectsNone}, tasks)
	plugin.AddTool(r, plugin.Tool{Name: "tasks_stop", Description: "Stops a background task.", Effects: events.EffectsIdempotent}, cancel)
	return nil
}

type startRequest struct {
	ID         events.MonitorID `json:"id" jsonschema:"a short name of your choice"`
	Command    string           `json:"command"`
	Cwd        string           `json:"cwd,omitempty"`
	Persistent bool             `json:"persistent,omitempty" jsonschema:"no time limit, and started again after a failure of the machine"`
	TimeoutMS  int64            `json:"timeout_ms,omitempty" jsonschema:"at most 3600000, by default 300000"`
	NotifyOnly bool             `json:"notify_only,omitempty" jsonschema:"its lines do not wake you"`
}

// Monitor is how a monitor stands.
type Monitor struct {
	ID        events.MonitorID    `json:"id"`
	State     events.MonitorState `json:"state"` // idle is spelled out
	Command   string              `json:"command"`
	Lines     int64               `json:"lines"`
	LastLine  string              `json:"last_line,omitempty"`
	LastError string              `json:"last_error,omitempty"`
	Exit      *int64              `json:"exit_status,omitempty"`
}

func start(ctx context.Context, call plugin.Call, in startRequest) ([]Monitor, error) {
	if in.TimeoutMS < 0 || in.TimeoutMS > MaxTimeoutMillis {
		return nil, &plugin.Failure{Class: plugin.ClassInvalidRequest, Code: plugin.CodeInvalidArgs, Message: "timeout_ms must be 0 to 3600000"}
	}
	spec := events.MonitorSpec{
		ID: in.ID, Command: in.Command, Cwd: in.Cwd, Persistent: in.Persistent, TimeoutMillis: in.TimeoutMS, RestartOnRestore: in.Persistent,
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
) ([]Monitor, error) {
	if _, err := call.Host.StopMonitor(ctx, call.Session, in.ID); err != nil {
		return nil, err
	}
	return monitors(ctx, call, struct{}{})
}

func monitors(ctx context.Context, call plugin.Call, _ struct{}) ([]Monitor, error) {
	now, err := call.Host.MonitorSnapshot(ctx, call.Session)
	list := []Monitor{}
	for _, m := range now.Monitors {
		shown := Monitor{ID: m.Spec.ID, State: m.State, Command: m.Spec.Command, Lines: m.Events, LastLine: m.LastEvent, LastError: m.LastError}
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

// Task is how a background task stands.
type Task struct {
	ID      events.TaskID    `json:"id"`
	Kind    events.TaskKind  `json:"kind,omitempty"`
	State   events.TaskState `json:"state"` // pending is spelled out
	Message string           `json:"message,omitempty"`
	Summary string           `json:"summary,omitempty"`
}

func tasks(ctx context.Context, call plugin.Call, _ struct{}) ([]Task, error) {
	all, err := call.Host.ListBackgroundTasks(ctx, call.Session)
	list := []Task{}
	for i := range all {
		t := Task{ID: all[i].ID, Kind: all[i].Of, State: all[i].State, Message: all[i].Message, Summary: all[i].Summary}
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
	task, err := call.Host.CancelBackgroundTask(ctx, call.Session, in.ID)
	return string(task.State), err
}
