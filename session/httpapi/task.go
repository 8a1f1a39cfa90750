package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// tasksJSON are a session's background tasks.
type tasksJSON struct {
	Tasks []taskJSON `json:"tasks" jsonschema:"in order of creation, ended ones too"`
}

// taskJSON is a background task.
type taskJSON struct {
	ID          events.TaskID    `json:"id"`
	Kind        taskKindJSON     `json:"kind"`
	State       taskStateJSON    `json:"state"`
	Producer    string           `json:"producer,omitempty"`
	Child       events.SessionID `json:"child,omitempty" jsonschema:"session that does the work"`
	Parent      events.TaskID    `json:"parent,omitempty"`
	Runner      string           `json:"runner,omitempty"`
	Args        json.RawMessage  `json:"args,omitempty"`
	Attempt     int64            `json:"attempt" jsonschema:"rises with each claim by a worker; 0: not claimed yet"`
	MovedTo     events.SessionID `json:"moved_to,omitempty" jsonschema:"session to which the task was moved"`
	Message     string           `json:"message,omitempty" jsonschema:"last reported progress"`
	Reason      string           `json:"reason,omitempty" jsonschema:"reason of its cancel"`
	Summary     string           `json:"summary,omitempty" jsonschema:"summary of the result"`
	CreatedAt   events.Millis    `json:"created_at_ms"`
	UpdatedAt   events.Millis    `json:"updated_at_ms"`
	CompletedAt events.Millis    `json:"completed_at_ms,omitempty"`
}

// monitorsJSON are the states of a session's monitors.
type monitorsJSON struct {
	Revision int64         `json:"revision" jsonschema:"number of changes of the monitors so far"`
	Monitors []monitorJSON `json:"monitors" jsonschema:"by id"`
}

// monitorSpecJSON is the command of a monitor and its settings.
type monitorSpecJSON struct {
	Command          string            `json:"command" jsonschema:"command line, run by bash -lc"`
	Environment      string            `json:"environment,omitempty" jsonschema:"where it runs, if not in the environment of the session"`
	Cwd              string            `json:"cwd,omitempty" jsonschema:"below the directory of the environment, or absolute"`
	Env              map[string]string `json:"env,omitempty" jsonschema:"environment variables; stored in the history, so never put secrets here"`
	Persistent       bool              `json:"persistent,omitempty" jsonschema:"true: the command has no time limit"`
	TimeoutMillis    int64             `json:"timeout_ms,omitempty" jsonschema:"time limit in milliseconds, defaults to 300000"`
	Wake             events.WakePolicy `json:"wake,omitempty" jsonschema:"what a line of output does: notify, or queue_turn, which also starts a turn; defaults to queue_turn"`
	RestartOnRestore bool              `json:"restart_on_restore,omitempty" jsonschema:"true: if its worker dies, another one runs the command again"`
}

// monitorJSON is a monitored command and its state.
type monitorJSON struct {
	ID        events.MonitorID `json:"id"`
	Command   string           `json:"command"`
	State     monitorStateJSON `json:"state"`
	Armed     bool             `json:"armed" jsonschema:"true: the command runs, or will be started"`
	Lines     int64            `json:"lines" jsonschema:"number of lines on standard output in all runs"`
	LastLine  string           `json:"last_line,omitempty"`
	LastError string           `json:"last_error,omitempty"`
	Exit      *int64           `json:"exit,omitempty" jsonschema:"exit status of the last run; -1: a signal ended it"`
}

// monitorUpdatesJSON are drained updates: no other client gets them.
type monitorUpdatesJSON struct {
	Revision int64               `json:"revision"`
	Active   int                 `json:"active" jsonschema:"number of running monitors"`
	Updates  []monitorUpdateJSON `json:"updates"`
}

// monitorUpdateJSON is a line of a monitor, or a change of its state.
type monitorUpdateJSON struct {
	Sequence int64            `json:"sequence" jsonschema:"number of the update, over all monitors of the session; a gap means that updates were dropped"`
	Monitor  events.MonitorID `json:"monitor"`
	Message  string           `json:"message"`
	Stderr   bool             `json:"stderr,omitempty"`
	Input    events.InputID   `json:"input,omitempty" jsonschema:"id of the injected message with this line"`
}

// task is the task id in the path.
func (c *httpRequest) task() events.TaskID { return events.TaskID(c.PathValue("task")) }

func taskOf(t projector.Task) taskJSON {
	out := taskJSON{
		ID: t.ID, Kind: taskKindJSON(cmp.Or(t.Of, "other")), State: taskStateJSON(cmp.Or(t.State, "pending")), Producer: t.Producer, Child: t.Child, Parent: t.Parent,
		Runner: t.Runner, Attempt: t.Attempt, MovedTo: t.To, Message: t.Message, Reason: t.Reason, Summary: t.Summary,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, CompletedAt: t.CompletedAt,
	}
	if len(t.Args) > 0 {
		out.Args = eventjson.Raw(t.Args)
	}
	return out
}

// monitor is the monitor id in the path.
func (c *httpRequest) monitor() events.MonitorID { return events.MonitorID(c.PathValue("monitor")) }

func tasks(list []projector.Task) tasksJSON {
	out := tasksJSON{Tasks: make([]taskJSON, len(list))}
	for i := range list {
		out.Tasks[i] = taskOf(list[i])
	}
	return out
}

func (in monitorSpecJSON) args(c *httpRequest) (events.MonitorSpec, error) {
	return events.MonitorSpec{
		ID: c.monitor(), Command: in.Command, Environment: in.Environment, Cwd: in.Cwd, Env: in.Env, Persistent: in.Persistent, TimeoutMillis: in.TimeoutMillis,
		Wake: in.Wake, RestartOnRestore: in.RestartOnRestore,
	}, nil
}

func takeUpdates(c *httpRequest) (reply, error) {
	u, err := c.s.cfg.Service.TakeMonitorUpdates(c.Context(), c.session)
	out := monitorUpdatesJSON{Revision: u.Revision, Active: u.Active, Updates: make([]monitorUpdateJSON, len(u.Events))}
	for i, e := range u.Events {
		out.Updates[i] = monitorUpdateJSON{Sequence: e.Sequence, Monitor: e.Monitor, Message: e.Message, Stderr: e.Stderr, Input: e.Input}
	}
	return reply{status: http.StatusOK, body: out}, err
}

func monitors(s api.MonitorSnapshot) monitorsJSON {
	out := monitorsJSON{Revision: s.Revision, Monitors: make([]monitorJSON, len(s.Monitors))}
	for i := range s.Monitors {
		m := &s.Monitors[i]
		out.Monitors[i] = monitorJSON{
			ID: m.Spec.ID, Command: m.Spec.Command, State: monitorStateJSON(cmp.Or(m.State, "idle")), Armed: m.Armed, Lines: m.Events, LastLine: m.LastEvent, LastError: m.LastError,
		}
		if m.Exited {
			out.Monitors[i].Exit = &m.Exit
		}
	}
	return out
}
