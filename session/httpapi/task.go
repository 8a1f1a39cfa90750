package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/lash-go/lash/events"
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
	Of          taskKindJSON     `json:"kind"`
	State       taskStateJSON    `json:"state"`
	Producer    string           `json:"producer,omitempty"`
	Child       events.SessionID `json:"child,omitempty" jsonschema:"session that does the work"`
	Parent      events.TaskID    `json:"parent,omitempty"`
	Runner      string           `json:"runner,omitempty"`
	Args        json.RawMessage  `json:"args,omitempty"`
	Attempt     int64            `json:"attempt" jsonschema:"rises with each claim by a worker; 0: not claimed yet"`
	To          events.SessionID `json:"moved_to,omitempty" jsonschema:"session to which the task was moved"`
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
	ID               events.MonitorID  `json:"-" path:"monitor"`
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
	ID        events.MonitorID `json:"id" from:"Spec.ID"`
	Command   string           `json:"command" from:"Spec.Command"`
	State     monitorStateJSON `json:"state"`
	Armed     bool             `json:"armed" jsonschema:"true: the command runs, or will be started"`
	Lines     int64            `json:"lines" from:"Events" jsonschema:"number of lines on standard output in all runs"`
	LastLine  string           `json:"last_line,omitempty" from:"LastEvent"`
	LastError string           `json:"last_error,omitempty"`
	Exit      *int64           `json:"exit,omitempty" jsonschema:"exit status of the last run; -1: a signal ended it"`
}

func (out *monitorJSON) adjust(from any) {
	if m := from.(*projector.Monitor); m.Exited {
		out.Exit = &m.Exit
	}
}

// monitorPath names the monitor of a request without a body.
type monitorPath struct {
	Monitor events.MonitorID `path:"monitor"`
}

func takeUpdates(c *httpRequest) (reply, error) {
	u, err := c.s.cfg.Service.TakeMonitorUpdates(c.Context(), c.session)
	return reply{status: http.StatusOK, body: shown(new(api.MonitorUpdates), u)}, err
}
